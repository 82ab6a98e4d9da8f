//! Whether the repository of a job has uncommitted changes, found out beside the job.
//!
//! A process of its own asks git, once the job has begun. As the one that delivers alerts it is handed over to the parent of all processes
//! before the recorder becomes the tree's reaper: neither it nor git is part of the job, in its tree or in what it used.
//! It ends with its answer, after its time limit, or when the recorder ends.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::changed_files::GitQuery;
use crate::own_session::start_in_own_session;

/// A repository so large that git takes longer is left without an answer.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// A command that ended earlier than this waits for the answer that long.
const SHORT_COMMAND: Duration = Duration::from_millis(500);

/// The recorder's end.
pub(crate) struct GitCheck {
    socket: OwnedFd,
    session: u32,
    begun: Instant,
}

impl GitCheck {
    /// Starts the process. To be called before there are threads and the job.
    ///
    /// The first process of a container has none: orphans fall to it, so it would be part of the job.
    pub(crate) fn prepare(top: &Path) -> Option<GitCheck> {
        if std::process::id() == 1 {
            return None;
        }
        let (socket, session) =
            start_in_own_session(c"nilo-git", |socket| serve(&socket, top)).ok()?;
        Some(GitCheck {
            socket,
            session,
            begun: Instant::now(),
        })
    }

    /// Lets it ask.
    pub(crate) fn begin(&mut self) {
        self.begun = Instant::now();
        send(&self.socket, &[0], SendFlags::NOSIGNAL).ok();
    }

    /// The session that it and git are in.
    pub(crate) fn session(&self) -> u32 {
        self.session
    }

    /// The answer if there is one by now; the outer `None` while there is none. Never blocks.
    pub(crate) fn answer(&self) -> Option<Option<bool>> {
        let mut answer = [0];
        match recv(&self.socket, &mut answer[..], RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => None,
            Ok((1, _)) => Some(Some(answer[0] == 1)),
            _ => Some(None),
        }
    }

    /// The answer after the end of the command, for which a short one waits a moment.
    pub(crate) fn finish(self) -> Option<bool> {
        let until = self.begun + SHORT_COMMAND;
        loop {
            if let Some(answer) = self.answer() {
                return answer;
            }
            let left = until.checked_duration_since(Instant::now())?;
            let left = Timespec::try_from(left).ok()?;
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            poll(&mut ready, Some(&left)).ok();
        }
    }
}

fn serve(socket: &OwnedFd, top: &Path) {
    // The word to begin; without one the recorder is gone.
    if !matches!(
        recv(socket, &mut [0; 1][..], RecvFlags::empty()),
        Ok((1, _))
    ) {
        return;
    }
    let question = GitQuery {
        top,
        until: Instant::now() + TIME_LIMIT,
        asker: Some(socket),
    };
    if let Some(changed) = question.has_changes() {
        send(socket, &[u8::from(changed)], SendFlags::NOSIGNAL).ok();
    }
}
