//! Whether a process gets the processor: on a busy machine one that is about to end may have to wait for it.

use std::time::Duration;

use crate::linux::{ProcFolder, STAT_BYTES};
use crate::roots::Roots;

/// What a process has had of the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorUse {
    /// CPU time since its start, all threads together.
    pub cpu_time: Duration,
    /// Whether it runs or could run, or waits for a disk; one that waits for anything else has nothing to do.
    pub has_work: bool,
}

/// The same of a process; `None` when there is no such process.
pub fn processor_use(roots: &Roots, pid: u32) -> Option<ProcessorUse> {
    let proc = ProcFolder::open(&roots.proc).ok()?;
    let mut buffer = [0; STAT_BYTES];
    let stat = proc.stat_of(pid, &mut buffer)?;
    let ticks_per_sec = proc.ticks_per_sec.max(1);
    Some(ProcessorUse {
        cpu_time: Duration::from_millis(stat.cpu_ticks.saturating_mul(1000) / ticks_per_sec),
        has_work: matches!(stat.state, b'R' | b'D'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn one_that_sleeps_has_no_work_and_one_that_computes_has() {
        let roots = Roots::default();
        let mut idle = Command::new("sleep").arg("600").spawn().unwrap();
        let mut busy = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        // As long as it takes: a program works until it has begun to sleep.
        while processor_use(&roots, idle.id()).unwrap().has_work {
            std::thread::yield_now();
        }
        while processor_use(&roots, busy.id()).unwrap().cpu_time < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        assert!(processor_use(&roots, busy.id()).unwrap().has_work);
        for child in [&mut idle, &mut busy] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(processor_use(&roots, idle.id()), None);
    }
}
