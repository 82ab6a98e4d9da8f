//! Commands in hints, such as `nilo verify --dir runs ID`: they do what they say when they are pasted into the same shell.

use std::path::{Path, PathBuf};

use nilo_runfile::RunFolder;

use crate::folder::{RunsDir, find_run, runs_root};
use crate::settings::Settings;

/// A command about a run, such as `nilo verify ID` for `verify`; of a run that its id does not find, such as a copy, with its path.
pub(crate) fn command_for_run(verb: &str, folder: &RunFolder, settings: &Settings) -> String {
    let root = root_of(folder.path());
    let id = folder.path().file_name().unwrap_or_default();
    let id = id.to_string_lossy();
    match find_run(&root, Some(&id)) {
        Ok(found) if found == *folder => command_in(verb, &root, &id, settings),
        _ => format!("nilo {verb} {}", quoted(&with_slash(folder.path()))),
    }
}

/// A command about runs of a folder, such as `nilo verify --all`.
pub(crate) fn command_in(verb: &str, root: &Path, runs: &str, settings: &Settings) -> String {
    match is_usual(root, settings) {
        true => format!("nilo {verb} {runs}"),
        false => format!("nilo {verb} --dir {} {runs}", quoted(root)),
    }
}

/// A path that is known as one.
fn with_slash(path: &Path) -> PathBuf {
    match path.components().count() {
        1 => Path::new(".").join(path),
        _ => path.to_owned(),
    }
}

/// The folder that a run was found in; a run inside a job lies in the folder of that.
fn root_of(run: &Path) -> PathBuf {
    let above = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    };
    let folder = above(run);
    let is_inside_job = folder.file_name().is_some_and(|name| name == "runs")
        && above(&folder).join("run.json").is_file();
    match is_inside_job {
        true => above(&above(&folder)),
        false => folder,
    }
}

/// Whether commands look there without `--dir`.
fn is_usual(root: &Path, settings: &Settings) -> bool {
    // The variable stands in the shell that the command is pasted into.
    let variable = std::env::var_os("NILO_DIR").filter(|dir| !dir.is_empty());
    let place = RunsDir {
        dir: variable.map(PathBuf::from),
    };
    let usual = runs_root(&place, settings);
    let place = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    place(&usual) == place(root)
}

/// A path as a shell takes it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "_./+@%:,=-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('-') {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_change_them() {
        for (path, expected) in [
            ("runs/of-mine", "runs/of-mine"),
            ("größe", "größe"),
            ("my runs", "'my runs'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("-x", "'-x'"),
        ] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }

    #[test]
    fn a_run_inside_a_job_lies_in_the_folder_of_the_job() {
        let root = tempfile::tempdir().unwrap();
        let job = root.path().join("job");
        std::fs::create_dir_all(job.join("runs/inner")).unwrap();
        std::fs::write(job.join("run.json"), "{}").unwrap();
        assert_eq!(root_of(&job), root.path());
        assert_eq!(root_of(&job.join("runs/inner")), root.path());
        // A folder for runs may be called so too.
        assert_eq!(root_of(Path::new("runs/one")), Path::new("runs"));
        assert_eq!(root_of(Path::new("one")), Path::new("."));
    }
}
