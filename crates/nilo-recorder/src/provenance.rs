//! Where a run comes from: the repository of the working directory, the user, the rank.
//!
//! The commit is read from git's own files, so that nothing is started for it.
//! Whether files were changed only git can say: a program asks it itself ([`add_dirty_flag`]), `nilo run` has it asked beside the job (`git_check.rs`).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nilo_sample::{GitState, Provenance};
use nilo_source::own_rank;

use crate::changed_files::GitQuery;

/// A repository so large that git takes longer is left without an answer.
const GIT_PATIENCE: Duration = Duration::from_millis(500);
/// `HEAD`, a reference, and `packed-refs` are small; more than this is not git's.
const MOST_BYTES: u64 = 4 << 20;

/// What can be known without starting a process.
pub(crate) fn provenance() -> Provenance {
    let rank = own_rank();
    Provenance {
        git: std::env::current_dir()
            .ok()
            .and_then(|here| git_state(&here)),
        user: user_name(),
        rank: rank.map(|rank| rank.rank),
        world_size: rank.map(|rank| rank.world_size),
        ..Provenance::default()
    }
}

/// Asks git whether tracked files differ from the commit; without an answer in half a second it stays unknown.
pub fn add_dirty_flag(provenance: &mut Provenance) {
    if let Some(git) = &mut provenance.git {
        git.dirty = work_tree().and_then(|top| {
            let question = GitQuery {
                top: &top,
                until: Instant::now() + GIT_PATIENCE,
                asker: None,
            };
            question.has_changes()
        });
    }
}

/// The top of the work tree that the working directory lies in.
pub(crate) fn work_tree() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut folders = here.ancestors();
    let top = folders.find(|folder| git_folder(&folder.join(".git")).is_some())?;
    Some(top.to_owned())
}

/// The commit and branch of the repository that a folder lies in.
fn git_state(folder: &Path) -> Option<GitState> {
    let git = folder
        .ancestors()
        .find_map(|folder| git_folder(&folder.join(".git")))?;
    let head = read(&git.join("HEAD"))?;
    let Some(reference) = head.strip_prefix("ref: ") else {
        return commit(&head, None);
    };
    let branch = reference.strip_prefix("refs/heads/").map(str::to_owned);
    // A work tree has its own HEAD and shares the references.
    let common = read(&git.join("commondir")).map_or_else(|| git.clone(), |path| git.join(path));
    let is_plain = !reference.split('/').any(|part| part == "..") && !reference.starts_with('/');
    let loose = [&git, &common].into_iter().filter(|_| is_plain);
    let loose = loose
        .filter_map(|folder| read(&folder.join(reference)))
        .next();
    let packed = || {
        let packed = read(&common.join("packed-refs"))?;
        let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(_, name)| *name == reference)
            .map(|(id, _)| id.to_owned())
    };
    commit(&loose.or_else(packed)?, branch)
}

fn commit(text: &str, branch: Option<String>) -> Option<GitState> {
    let is_id = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| GitState {
        commit: text.to_owned(),
        branch,
        dirty: None,
    })
}

/// `.git` is a folder, or a file that names one: in work trees and submodules.
fn git_folder(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return Some(path.to_owned());
    }
    let text = read(path)?;
    let target = text.strip_prefix("gitdir: ")?;
    Some(path.parent()?.join(target))
}

fn read(path: &Path) -> Option<String> {
    let small = std::fs::metadata(path).ok()?;
    if !small.is_file() || small.len() > MOST_BYTES {
        return None;
    }
    Some(std::fs::read_to_string(path).ok()?.trim_end().to_owned())
}

/// The name of the user that we run as: the account's, whatever the environment says.
fn user_name() -> Option<String> {
    let mut room = [0i8 as libc::c_char; 4096];
    // SAFETY: an all-zero `passwd` is valid, and the call fills it in.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: the buffer outlives the entry that points into it, and its length is given.
    let status = unsafe {
        libc::getpwuid_r(
            rustix::process::geteuid().as_raw(),
            &mut entry,
            room.as_mut_ptr(),
            room.len(),
            &mut found,
        )
    };
    if status != 0 || found.is_null() || entry.pw_name.is_null() {
        return std::env::var("USER").ok().filter(|name| !name.is_empty());
    }
    // SAFETY: `pw_name` points to a text in the buffer.
    let name = unsafe { std::ffi::CStr::from_ptr(entry.pw_name) };
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    fn git(folder: &Path, words: &[&str]) {
        let output = Command::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@y"])
            .args(words)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    fn told(folder: &Path) -> String {
        let output = Command::new("git")
            .args(["rev-parse", "HEAD"])
            .current_dir(folder)
            .output();
        String::from_utf8(output.unwrap().stdout)
            .unwrap()
            .trim()
            .to_owned()
    }

    #[test]
    fn the_commit_is_the_one_that_git_tells() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        git(folder, &["init", "-q", "-b", "trunk"]);
        assert_eq!(git_state(folder), None);
        git(folder, &["commit", "-q", "--allow-empty", "-m", "one"]);
        std::fs::create_dir(folder.join("below")).unwrap();
        let state = git_state(&folder.join("below")).unwrap();
        assert_eq!(
            (state.commit.clone(), state.branch.as_deref()),
            (told(folder), Some("trunk"))
        );
        git(folder, &["pack-refs", "--all"]);
        assert_eq!(git_state(folder), Some(state.clone()));
        git(folder, &["worktree", "add", "-q", "-b", "side", "tree"]);
        let side = git_state(&folder.join("tree")).unwrap();
        assert_eq!(
            (side.commit, side.branch.as_deref()),
            (state.commit.clone(), Some("side"))
        );
        git(folder, &["checkout", "-q", "--detach"]);
        let detached = git_state(folder).unwrap();
        assert_eq!((detached.commit, detached.branch), (state.commit, None));
    }

    #[test]
    fn hostile_references_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        std::fs::create_dir(&git).unwrap();
        std::fs::write(folder.path().join("secret"), COMMIT).unwrap();
        for head in ["ref: ../secret", "ref: /etc/passwd", "garbage", ""] {
            std::fs::write(git.join("HEAD"), head).unwrap();
            assert_eq!(git_state(folder.path()), None, "{head}");
        }
        std::fs::write(git.join("HEAD"), COMMIT).unwrap();
        assert_eq!(git_state(folder.path()).unwrap().commit, COMMIT);
    }

    #[test]
    fn the_user_has_a_name() {
        assert!(user_name().is_some_and(|name| !name.is_empty()));
    }
}
