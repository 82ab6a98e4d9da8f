//! Whether a process has the processor, or waits for it.

use crate::descriptors::read_kernel_file;
use crate::roots::Roots;

/// The turns of a process's main thread at the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorTurns {
    /// How long it ran.
    pub run_nanos: u64,
    /// How long it waited until it could run; the wait that lasts is not in it.
    pub waited_nanos: u64,
    /// Whether it runs now, or waits to.
    pub is_runnable: bool,
}

/// What the kernel counts of it; `None` where it does not, or the process is gone.
pub fn processor_turns(roots: &Roots, pid: u32) -> Option<ProcessorTurns> {
    let folder = roots.proc.join(pid.to_string());
    let counted = read_kernel_file(folder.join("schedstat")).ok()?;
    let counted = std::str::from_utf8(&counted).ok()?;
    let mut numbers = counted.split_ascii_whitespace().map(str::parse);
    let stat = read_kernel_file(folder.join("stat")).ok()?;
    // The name before it may have spaces and brackets of its own.
    let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 2;
    Some(ProcessorTurns {
        run_nanos: numbers.next()?.ok()?,
        waited_nanos: numbers.next()?.ok()?,
        is_runnable: stat.get(behind_name) == Some(&b'R'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_computes_runs() {
        let (roots, pid) = (Roots::default(), std::process::id());
        let Some(before) = processor_turns(&roots, pid) else {
            panic!("no /proc/PID/schedstat");
        };
        assert!(before.run_nanos > 0);
        assert_eq!(processor_turns(&roots, u32::MAX), None);
    }

    #[test]
    fn the_state_stands_behind_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("schedstat"), "120 30 4\n").unwrap();
        for (state, is_runnable) in [("R", true), ("S", false)] {
            std::fs::write(process.join("stat"), format!("7 (a ) R b) {state} 1 7")).unwrap();
            let roots = Roots {
                proc: folder.path().to_owned(),
                ..Roots::default()
            };
            let found = processor_turns(&roots, 7).unwrap();
            assert_eq!((found.run_nanos, found.waited_nanos), (120, 30));
            assert_eq!(found.is_runnable, is_runnable);
        }
    }
}
