//! A file that the user asked for: there whole, or not at all.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nilo_tokenizer::WholeFile;

use crate::failure::Failure;

/// Whether a path stands for standard output: `-`, as everywhere.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses `-` where standard output is no place for what is written: it has other output, or this is a folder.
pub(crate) fn refuse_stdout(path: &Path, what: &str, hint: &str) -> Result<(), Failure> {
    match is_stdout(path) {
        true => {
            let sentence = format!("the {what} cannot be written to standard output");
            Err(Failure::new(sentence).hint(hint))
        }
        false => Ok(()),
    }
}

/// Refuses to put the output in the place of a file that it is made of, by whatever name, before anything is read. `-` is standard input.
pub(crate) fn refuse_overwriting<'p>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'p Path>,
    option: &str,
) -> Result<(), Failure> {
    let Some(written) = file_identity(output).filter(|_| !is_stdout(output)) else {
        return Ok(());
    };
    for input in inputs {
        let (read, name) = match is_stdout(input) {
            true => (Path::new("/dev/stdin"), "standard input".to_owned()),
            false => (input, input.display().to_string()),
        };
        if file_identity(read) == Some(written) {
            let sentence = format!("{name} is both the input and the output");
            return Err(Failure::new(sentence).hint(format!("name another file with {option}")));
        }
    }
    Ok(())
}

/// Device and inode; none of what is no file, such as a terminal or a pipe.
fn file_identity(path: &Path) -> Option<(u64, u64)> {
    let file = path.metadata().ok()?;
    file.is_file().then(|| (file.dev(), file.ino()))
}

/// Refuses to fill a terminal with bytes that are no text.
pub(crate) fn refuse_terminal(format: &str) -> Result<(), Failure> {
    match io::stdout().is_terminal() {
        true => Err(Failure::new(format!(
            "{format} is binary and is not printed to a terminal"
        ))
        .hint("name a file with -o, or redirect the output")),
        false => Ok(()),
    }
}

/// Whether a file could be written, said before there is anything to write; nothing is left of the attempt.
pub(crate) fn try_to_write(path: &Path) -> io::Result<()> {
    let there = path.metadata().ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return Ok(());
    }
    match WholeFile::create(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && there.is_some() => {
            File::options().append(true).open(path).map(drop)
        }
        outcome => outcome.map(drop),
    }
}

/// Writes a file. When that fails, on a full disk for example, nothing is left of it, and a file that was there before stays.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let about = |error: io::Error| {
        let failure = Failure::new(format!("cannot write {}: {error}", path.display()));
        match is_wrong_place(&error) {
            true => failure.hint("check that its folder exists and that you can write to it"),
            false => failure,
        }
    };
    let named = |failure: Failure| match failure.is_closed_pipe() {
        true => failure,
        false => {
            let sentence = failure.sentence();
            Failure::new(format!("cannot write {}: {sentence}", path.display()))
        }
    };
    let there = path.metadata().ok();
    let is_other = there
        .as_ref()
        .is_some_and(|there| !there.is_file() && !there.is_dir());
    let whole = match is_other {
        // A device or a pipe is written as it is.
        true => None,
        false => match WholeFile::create(path) {
            Ok(file) => Some(file),
            // A file that may be written in a folder that may not.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && there.is_some() => {
                None
            }
            Err(error) => return Err(about(error)),
        },
    };
    match whole {
        Some(file) => {
            let mut output = BufWriter::new(file);
            write(&mut output).map_err(named)?;
            let file = output
                .into_inner()
                .map_err(|error| about(error.into_error()))?;
            file.keep().map_err(about)
        }
        None => {
            let mut output = BufWriter::new(File::create(path).map_err(about)?);
            write(&mut output).map_err(named)?;
            output.flush().map_err(|error| named(error.into()))
        }
    }
}

/// Whether a file could never be written there, however much space there is.
fn is_wrong_place(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_leaves_nothing_and_keeps_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        let fail = |out: &mut (dyn Write + Send)| {
            out.write_all(&[b'x'; 100_000])?;
            Err(Failure::new("no space left"))
        };
        let failure = write_file(&path, fail).unwrap_err();
        assert!(failure.sentence().ends_with("x.csv: no space left"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        write_file(&path, |out| Ok(out.write_all(b"one")?)).unwrap();
        write_file(&path, fail).unwrap_err();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        write_file(Path::new("/dev/null"), |out| Ok(out.write_all(b"x")?)).unwrap();
    }

    #[test]
    fn a_device_that_is_full_is_named() {
        for bytes in [1, 100_000] {
            let write = |out: &mut (dyn Write + Send)| Ok(out.write_all(&vec![b'x'; bytes])?);
            let failure = write_file(Path::new("/dev/full"), write).unwrap_err();
            let sentence = failure.sentence();
            assert!(
                sentence.starts_with("cannot write /dev/full: No space left"),
                "{sentence}"
            );
        }
    }

    #[test]
    fn a_file_that_is_read_is_not_written_over_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| folder.path().join(name);
        std::fs::write(name("input"), "text").unwrap();
        std::fs::write(name("other"), "text").unwrap();
        std::fs::create_dir(name("inner")).unwrap();
        std::os::unix::fs::symlink("input", name("symlink")).unwrap();
        std::fs::hard_link(name("input"), name("hard-link")).unwrap();
        let (input, other) = (name("input"), name("other"));
        let refuse = |output: &Path| refuse_overwriting(output, [&*other, &*input], "-o");
        for same in ["input", "inner/../input", "symlink", "hard-link"] {
            let failure = refuse(&name(same)).unwrap_err();
            let expected = format!("{} is both the input and the output", input.display());
            assert_eq!(failure.sentence(), expected, "{same}");
        }
        for apart in ["new", "inner", "nowhere/input"] {
            refuse(&name(apart)).unwrap();
        }
        let null = Path::new("/dev/null");
        refuse_overwriting(null, [null], "-o").unwrap();
        refuse(Path::new("-")).unwrap();
    }
}
