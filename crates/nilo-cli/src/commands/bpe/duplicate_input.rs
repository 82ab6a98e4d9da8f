//! A file that is named twice counts twice. That may be meant, to give it more weight, but seldom is: a folder and a file in it were named.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::failure::note;

/// Tells the user of files that are named more than once, by whatever name.
pub(super) fn say_doubled<'p>(paths: impl Iterator<Item = &'p Path>) {
    if let Some(sentence) = sentence(paths) {
        note(&sentence);
    }
}

fn sentence<'p>(paths: impl Iterator<Item = &'p Path>) -> Option<String> {
    let mut times = HashMap::new();
    let mut doubled: Vec<&Path> = Vec::new();
    for path in paths {
        let Ok(file) = path.metadata() else { continue };
        if !file.is_file() {
            continue;
        }
        let times = times.entry((file.dev(), file.ino())).or_insert(0);
        *times += 1;
        if *times == 2 {
            doubled.push(path);
        }
    }
    let first = doubled.first()?.display();
    Some(match doubled.len() {
        1 => format!("{first} is given more than once and is counted each time"),
        files => {
            format!(
                "{files} files are given more than once and are counted each time, {first} among them"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn a_file_is_the_same_by_whatever_name_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| folder.path().join(name);
        std::fs::write(name("a"), "text").unwrap();
        std::fs::write(name("b"), "text").unwrap();
        std::os::unix::fs::symlink("a", name("link")).unwrap();
        let said = |names: &[&str]| {
            let paths: Vec<_> = names.iter().map(|path| name(path)).collect();
            sentence(paths.iter().map(|path| &**path))
        };
        assert_eq!(said(&["a", "b", "missing", "missing"]), None);
        let twice = said(&["a", "b", "link"]).unwrap();
        assert!(
            twice.ends_with("link is given more than once and is counted each time"),
            "{twice}"
        );
        assert!(
            said(&["a", "a", "b", "b", "b"])
                .unwrap()
                .starts_with("2 files are given")
        );
    }
}
