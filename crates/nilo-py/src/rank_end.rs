//! The end of a rank: a failure is told to the run, which another rank may have begun.

use std::path::{Path, PathBuf};

use nilo_runfile::append_event;
use nilo_sample::{Event, ProcessStatus};

use crate::termination::EndsBySigterm;

/// What a rank does when it ends.
pub(crate) struct RankEnd {
    pid: u32,
    run_dir: PathBuf,
    rank: u32,
    /// The end that a SIGTERM would be.
    by_sigterm: Option<EndsBySigterm>,
}

impl RankEnd {
    pub(crate) fn watch(run_dir: &Path, rank: u32) -> RankEnd {
        let killed = Event::RankEnded {
            rank,
            exit_code: None,
            signal: Some(libc::SIGTERM),
        };
        RankEnd {
            pid: std::process::id(),
            run_dir: run_dir.to_owned(),
            rank,
            by_sigterm: EndsBySigterm::watch(run_dir, &killed),
        }
    }

    /// Only failures are told: a thousand ranks that end well add nothing to the run.
    pub(crate) fn end(self, status: ProcessStatus) {
        if self.pid != std::process::id() {
            return;
        }
        if status.signal.is_some() || status.exit_code.is_some_and(|code| code != 0) {
            let failed = Event::RankEnded {
                rank: self.rank,
                exit_code: status.exit_code,
                signal: status.signal,
            };
            append_event(&self.run_dir, &failed).ok();
        }
        drop(self.by_sigterm);
    }
}
