//! The kernel's log of OOM kills, which names the victim and the cgroup that ran out.
//!
//! Read from `/dev/kmsg`, which usually only root may. PIDs in it are those of the machine, not of a container.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};

use crate::error::SourceError;

/// One kill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OomRecord {
    /// The victim.
    pub pid: u32,
    /// Its short name.
    pub comm: String,
    /// `CONSTRAINT_MEMCG`: a cgroup's limit; `CONSTRAINT_NONE`: the machine was out of memory.
    pub constraint: String,
    /// The cgroup whose limit was hit; `None` when the machine ran out.
    pub oom_memcg: Option<String>,
    /// The victim's cgroup.
    pub task_memcg: Option<String>,
    /// The victim's owner.
    pub uid: Option<u32>,
    /// The kernel's clock: nanoseconds since boot, close to the monotonic clock.
    pub monotonic_nanos: u64,
}

/// The kills that the log still knows and that happened at this time or later.
pub fn oom_kills_since(monotonic_nanos: u64) -> Result<Vec<OomRecord>, SourceError> {
    let path = "/dev/kmsg";
    let error = |source: rustix::io::Errno| SourceError::Read {
        path: path.into(),
        source: io::Error::from(source),
    };
    let log: OwnedFd = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(error)?;
    let mut kills = Vec::new();
    let mut buffer = [0u8; 8192];
    loop {
        match rustix::io::read(&log, &mut buffer) {
            // Each read gives one record.
            Ok(0) => return Ok(kills),
            Ok(count) => {
                let record = parse_record(&String::from_utf8_lossy(&buffer[..count]));
                kills.extend(record.filter(|kill| kill.monotonic_nanos >= monotonic_nanos));
            }
            Err(rustix::io::Errno::AGAIN) => return Ok(kills),
            // Overwritten while we read (`PIPE`), longer than the buffer (`INVAL`): the next read goes on behind it.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::PIPE | rustix::io::Errno::INVAL) => {}
            Err(problem) => return Err(error(problem)),
        }
    }
}

/// Parses one record of `/dev/kmsg`, `priority,sequence,microseconds,flags;text`; anything but an OOM kill is `None`.
pub fn parse_record(record: &str) -> Option<OomRecord> {
    let (header, text) = record.split_once(';')?;
    let micros: u64 = header.split(',').nth(2)?.trim().parse().ok()?;
    let line = text.lines().next()?;
    let mut kill = parse_oom_line(line)?;
    kill.monotonic_nanos = micros.checked_mul(1000)?;
    Some(kill)
}

/// Parses the text `oom-kill:constraint=…,task=…,pid=…,uid=…`, with or without something before it.
pub fn parse_oom_line(line: &str) -> Option<OomRecord> {
    let (_, fields) = line.split_once("oom-kill:")?;
    // The short name may contain commas and equal signs, so it is taken out from behind.
    let (front, uid) = fields.rsplit_once(",uid=")?;
    let (front, pid) = front.rsplit_once(",pid=")?;
    let (front, comm) = front.split_once(",task=")?;
    let value = |key: &str| {
        front
            .split(',')
            .find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
            .map(str::to_owned)
    };
    Some(OomRecord {
        pid: pid.parse().ok()?,
        comm: comm.to_owned(),
        constraint: value("constraint")?,
        oom_memcg: value("oom_memcg"),
        task_memcg: value("task_memcg"),
        uid: uid.trim().parse().ok(),
        monotonic_nanos: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cgroup_kill_names_victim_and_cgroup() {
        let text = "6,811,1020115498,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/nilo-exp,task_memcg=/nilo-exp/child,task=python3,pid=8901,uid=0\n SUBSYSTEM=x\n";
        let kill = parse_record(text).unwrap();
        assert_eq!(
            (kill.pid, kill.comm.as_str(), kill.uid),
            (8901, "python3", Some(0))
        );
        assert_eq!(kill.constraint, "CONSTRAINT_MEMCG");
        assert_eq!(kill.oom_memcg.as_deref(), Some("/nilo-exp"));
        assert_eq!(kill.task_memcg.as_deref(), Some("/nilo-exp/child"));
        assert_eq!(kill.monotonic_nanos, 1_020_115_498_000);
    }

    #[test]
    fn a_machine_that_ran_out_names_no_cgroup() {
        let line = "[ 7.1] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,task=a,pid=1,uid=3,pid=77,uid=65534";
        let kill = parse_oom_line(line).unwrap();
        assert_eq!((kill.pid, kill.oom_memcg), (77, None));
        assert_eq!(kill.comm, "a,pid=1,uid=3");
    }

    #[test]
    fn other_lines_are_no_kills() {
        assert_eq!(
            parse_record("6,1,2,-;Memory cgroup out of memory: Killed process 1 (x)"),
            None
        );
        assert_eq!(parse_record(""), None);
        assert_eq!(
            parse_oom_line("oom-kill:constraint=X,task=a,pid=x,uid=1"),
            None
        );
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "(?s).*", tail in "(?s).*") {
            let _ = parse_record(&text);
            let _ = parse_record(&format!("1,2,3,-;oom-kill:constraint={text},task={tail},pid=1,uid="));
        }
    }
}
