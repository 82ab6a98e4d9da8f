//! Being told that the kernel is about to kill: some 75 ms before the victim is gone, enough to write everything down.

use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

use crate::cgroup::memory::MemoryCgroup;
use crate::error::SourceError;

impl MemoryCgroup {
    /// A descriptor to wait on.
    ///
    /// Version 1: an `eventfd`, readable (`POLLIN`) when this cgroup or an ancestor of it runs out, and also when the cgroup is removed.
    /// Version 2: `memory.events` itself, which shows `POLLPRI` when a counter in it changed; read it to be told again.
    /// `None` when the kernel offers neither.
    pub fn oom_notice(&self) -> Result<Option<OwnedFd>, SourceError> {
        let error = |source: io::Error| SourceError::OomNotice {
            cgroup: self.path().to_owned(),
            source,
        };
        if self.version() == 2 {
            return match std::fs::File::open(self.folder.join("memory.events")) {
                Ok(file) => Ok(Some(file.into())),
                Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(problem) => Err(error(problem)),
            };
        }
        let control = match std::fs::File::open(self.folder.join("memory.oom_control")) {
            Ok(file) => file,
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(problem) => return Err(error(problem)),
        };
        let notice = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|problem| error(problem.into()))?;
        let mut registry = std::fs::OpenOptions::new()
            .write(true)
            .open(self.folder.join("cgroup.event_control"))
            .map_err(error)?;
        // The kernel parses one write; `control` may be closed afterwards.
        let request = format!("{} {}", notice.as_raw_fd(), control.as_raw_fd());
        registry.write_all(request.as_bytes()).map_err(error)?;
        Ok(Some(notice))
    }
}
