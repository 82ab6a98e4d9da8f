//! How often a process has written: whether it is writing at this moment.

use crate::descriptors::read_kernel_file;
use crate::kernel_text::labelled;
use crate::roots::Roots;

/// `write` calls of a process so far, to files, pipes and terminals alike; `None` where we may not know or it is gone.
pub fn write_calls(roots: &Roots, pid: u32) -> Option<u64> {
    let path = roots.proc.join(pid.to_string()).join("io");
    labelled(&read_kernel_file(path).ok()?, b"syscw:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_write_is_counted() {
        let (roots, pid) = (Roots::default(), std::process::id());
        let before = write_calls(&roots, pid).unwrap();
        std::fs::File::create("/dev/null")
            .unwrap()
            .write_all(b"x")
            .unwrap();
        assert!(write_calls(&roots, pid).unwrap() > before);
        assert_eq!(write_calls(&roots, u32::MAX), None);
    }
}
