//! Asks git whether tracked files differ from the commit, and runs nothing that the repository names.
//!
//! The repository may be somebody else's, and its settings can name programs: a file system monitor, hooks, a way to fetch missing objects,
//! and filters (`filter.NAME.clean`), which git runs on files that look changed.
//! All of these are off here. Without its filter a file may look changed that is not, so files with a filter say nothing.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// More than this of an answer is not read.
const MOST_BYTES: usize = 64 << 10;
/// Of so many changed files git is asked whether they have a filter.
const MOST_PATHS: usize = 200;
/// Git's own variables that make it look at another repository than the one of the folder.
const OTHER_REPOSITORY: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
];

/// Which folder to ask about, and how long to wait.
pub(crate) struct GitQuery<'a> {
    /// The top of the work tree.
    pub(crate) top: &'a Path,
    pub(crate) until: Instant,
    /// Whoever wants the answer holds the other end. When it closes, git is ended.
    pub(crate) asker: Option<&'a OwnedFd>,
}

impl GitQuery<'_> {
    /// `None` where git cannot say, or does not in time.
    pub(crate) fn has_changes(&self) -> Option<bool> {
        let filters = self.filters()?;
        let status = ["status", "--porcelain", "-z", "--untracked-files=no"];
        let status = status.into_iter().chain(["--ignore-submodules=all"]);
        let (output, succeeded) = self.ask(&filters, status)?;
        // Two letters, a space, and the path.
        let changed = entries(&output).filter_map(|entry| entry.get(3..));
        let changed: Vec<&str> = changed.take(MOST_PATHS).collect();
        if changed.is_empty() {
            return succeeded.then_some(false);
        }
        if filters.is_empty() {
            return Some(true);
        }
        let words = ["check-attr", "-z", "filter", "--"].into_iter();
        let (output, _) = self.ask(&filters, words.chain(changed))?;
        // Each path comes with the attribute's name and value.
        let values: Vec<&str> = entries(&output).skip(2).step_by(3).collect();
        values
            .iter()
            .any(|value| !filters.contains(*value))
            .then_some(true)
    }

    /// The names of all filters in git's settings.
    fn filters(&self) -> Option<BTreeSet<String>> {
        let words = ["config", "-z", "--name-only", "--get-regexp", r"^filter\."];
        let (output, _) = self.ask(&BTreeSet::new(), words)?;
        let names = entries(&output).filter_map(|key| {
            let (name, _) = key.strip_prefix("filter.")?.rsplit_once('.')?;
            Some(name.to_owned())
        });
        let names: BTreeSet<String> = names.collect();
        // A name with this character cannot be given on the command line.
        (output.len() < MOST_BYTES && !names.iter().any(|name| name.contains('='))).then_some(names)
    }

    /// What git prints, and whether it succeeded; `None` if it could not be run, or not to its end.
    fn ask<'w>(
        &self,
        filters: &BTreeSet<String>,
        words: impl IntoIterator<Item = &'w str>,
    ) -> Option<(String, bool)> {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.top).arg("--no-pager");
        let off = ["core.fsmonitor=", "core.hooksPath=/dev/null"];
        // Renamed files are told apart by their contents, which takes long.
        let off = off
            .into_iter()
            .chain(["status.renames=false", "diff.renames=false"]);
        for setting in off {
            git.args(["-c", setting]);
        }
        for name in filters {
            for setting in ["clean=", "smudge=", "process=", "required=false"] {
                git.args(["-c", &format!("filter.{name}.{setting}")]);
            }
        }
        for name in OTHER_REPOSITORY {
            git.env_remove(name);
        }
        git.args(words)
            // Nothing is written, and nothing is fetched.
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if self.asker.is_some() {
            // Not in a user's program: with something to do before `exec` the library forks, which takes long in a large one.
            // SAFETY: one system call, which is safe between fork and exec.
            unsafe { git.pre_exec(end_with_parent) };
        }
        let mut child = git.spawn().ok()?;
        let answer = self.read_to_end(&mut child);
        if answer.is_none() {
            child.kill().ok();
        }
        let status = child.wait().ok();
        let text = String::from_utf8_lossy(&answer?).into_owned();
        Some((text, status?.success()))
    }

    /// What it prints until it closes its output, or as much of it as is wanted.
    fn read_to_end(&self, child: &mut Child) -> Option<Vec<u8>> {
        let mut output = child.stdout.take()?;
        let mut text = Vec::new();
        let mut room = [0; 4096];
        while text.len() < MOST_BYTES {
            self.wait_for(&output)?;
            match output.read(&mut room).ok()? {
                0 => break,
                count => text.extend_from_slice(&room[..count]),
            }
        }
        // Closing it here ends a git that has more to say.
        Some(text)
    }

    fn wait_for(&self, output: &ChildStdout) -> Option<()> {
        loop {
            let left = self.until.checked_duration_since(Instant::now())?;
            let left = Timespec::try_from(left.max(Duration::from_millis(1))).ok()?;
            let mut ready = vec![PollFd::new(output, PollFlags::IN)];
            // Nothing is sent to us any more: what can be read there is the end.
            ready.extend(
                self.asker
                    .map(|asker| PollFd::from_borrowed_fd(asker.as_fd(), PollFlags::IN)),
            );
            match poll(&mut ready, Some(&left)) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return None,
                Ok(_) => {}
            }
            if ready
                .get(1)
                .is_some_and(|asker| !asker.revents().is_empty())
            {
                return None;
            }
            if !ready[0].revents().is_empty() {
                return Some(());
            }
        }
    }
}

/// Texts that each end with a zero byte.
fn entries(output: &str) -> impl Iterator<Item = &str> {
    output.split_terminator('\0')
}

/// Makes the kernel kill git when the process that started it is gone.
fn end_with_parent() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, read_to_string, remove_file, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn git(folder: &Path, words: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@y"])
            .args(words)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// A repository with one commit of `file`.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        git(folder.path(), &["init", "-q"]);
        write(folder.path().join("file"), "one\n").unwrap();
        git(folder.path(), &["add", "file"]);
        git(folder.path(), &["commit", "-qm", "one"]);
        folder
    }

    fn has_changes(top: &Path) -> Option<bool> {
        let question = GitQuery {
            top,
            until: Instant::now() + Duration::from_secs(60),
            asker: None,
        };
        question.has_changes()
    }

    #[test]
    fn changed_staged_and_removed_files_are_changes_and_new_ones_are_not() {
        let folder = repository();
        let file = folder.path().join("file");
        assert_eq!(has_changes(folder.path()), Some(false));
        write(folder.path().join("new"), "").unwrap();
        assert_eq!(has_changes(folder.path()), Some(false));
        // Only the time stamp is new.
        write(&file, "one\n").unwrap();
        assert_eq!(has_changes(folder.path()), Some(false));
        write(&file, "two\n").unwrap();
        assert_eq!(has_changes(folder.path()), Some(true));
        git(folder.path(), &["add", "file"]);
        assert_eq!(has_changes(folder.path()), Some(true));
        git(folder.path(), &["commit", "-qm", "two"]);
        remove_file(&file).unwrap();
        assert_eq!(has_changes(folder.path()), Some(true));
    }

    #[test]
    fn more_changes_than_a_pipe_holds_are_changes() {
        let folder = repository();
        for number in 0..2000 {
            let name = format!("a-file-with-a-rather-long-name-{number:05}");
            write(folder.path().join(name), "").unwrap();
        }
        git(folder.path(), &["add", "."]);
        assert_eq!(has_changes(folder.path()), Some(true));
    }

    #[test]
    fn without_a_repository_there_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(has_changes(folder.path()), None);
    }

    #[test]
    fn nothing_that_the_repository_names_is_run() {
        let folder = repository();
        let top = folder.path();
        let ran = top.join("ran");
        let program = top.join("program");
        write(
            &program,
            format!("#!/bin/sh\necho $0 $* >> {}\ncat\n", ran.display()),
        )
        .unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let hooks = top.join("hooks");
        create_dir(&hooks).unwrap();
        std::fs::copy(&program, hooks.join("post-index-change")).unwrap();
        let program = program.to_str().unwrap();
        git(top, &["config", "core.fsmonitor", program]);
        git(top, &["config", "core.hooksPath", hooks.to_str().unwrap()]);
        git(top, &["config", "filter.evil.clean", program]);
        git(top, &["config", "filter.evil.required", "true"]);
        git(top, &["config", "filter.x.y.process", program]);
        write(
            top.join(".gitattributes"),
            "file filter=evil\nother filter=x.y\n",
        )
        .unwrap();
        // A file that looks changed is put through its filter.
        write(top.join("file"), "one\n").unwrap();
        remove_file(&ran).ok();

        assert_eq!(has_changes(top), Some(false));
        write(top.join("file"), "two\n").unwrap();
        assert_eq!(has_changes(top), None, "only its filter could say");
        assert!(!ran.exists(), "{}", read_to_string(&ran).unwrap());
        git(top, &["status"]);
        let ran_by_git = read_to_string(&ran).unwrap();
        assert!(ran_by_git.lines().count() >= 3, "{ran_by_git}");

        write(top.join("plain"), "").unwrap();
        git(top, &["-c", "core.fsmonitor=", "add", "plain"]);
        remove_file(&ran).ok();
        assert_eq!(has_changes(top), Some(true));
        assert!(!ran.exists(), "{}", read_to_string(&ran).unwrap());
    }

    #[test]
    fn missing_objects_are_not_fetched() {
        let folder = repository();
        let top = folder.path();
        let ran = top.join("ran");
        let address = format!("ext::touch {}", ran.display());
        git(top, &["config", "remote.origin.url", &address]);
        git(top, &["config", "remote.origin.promisor", "true"]);
        git(top, &["config", "protocol.ext.allow", "always"]);
        git(top, &["config", "core.repositoryFormatVersion", "1"]);
        git(top, &["config", "extensions.partialClone", "origin"]);
        let tree = Command::new("git")
            .args(["rev-parse", "HEAD^{tree}"])
            .current_dir(top)
            .output()
            .unwrap();
        let tree = String::from_utf8(tree.stdout).unwrap();
        let (folder, file) = tree.trim().split_at(2);
        remove_file(top.join(".git/objects").join(folder).join(file)).unwrap();
        assert_eq!(has_changes(top), None);
        assert!(!ran.exists());
        let by_git = Command::new("git").arg("status").current_dir(top).output();
        assert!(!by_git.unwrap().status.success() && ran.exists());
    }

    #[test]
    fn git_is_ended_when_the_asker_is_gone_or_its_time_is_up() {
        let folder = repository();
        let top = folder.path();
        // Git waits for somebody to write into its settings.
        let fifo = top.join("settings");
        let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let config = top.join(".git/config");
        let before = read_to_string(&config).unwrap();
        write(
            &config,
            format!("{before}[include]\npath = {}\n", fifo.display()),
        )
        .unwrap();
        let (theirs, ours) = rustix::pipe::pipe().unwrap();
        drop(ours);
        let mut question = GitQuery {
            top,
            until: Instant::now() + Duration::from_secs(600),
            asker: Some(&theirs),
        };
        assert_eq!(question.has_changes(), None);
        question.asker = None;
        question.until = Instant::now() + Duration::from_millis(100);
        assert_eq!(question.has_changes(), None);
    }
}
