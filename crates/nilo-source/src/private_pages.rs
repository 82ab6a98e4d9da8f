//! What a process holds alone: for programs that look at their own workers.

use crate::linux::ProcFolder;
use crate::roots::Roots;

/// Pages of one process, as `smaps_rollup` sums them up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivatePages {
    /// Written, and held by nobody else: what a forked worker has copied or made.
    pub private_dirty_bytes: u64,
    /// Its share of all pages that it has: shared ones divided by those who share them.
    pub pss_bytes: u64,
}

/// `None` of a process that is gone, or where the system does not tell.
pub fn private_pages_of(roots: &Roots, pid: u32) -> Option<PrivatePages> {
    let proc = ProcFolder::open(&roots.proc).ok()?;
    let rollup = proc.rollup_of(pid).ok()??;
    Some(PrivatePages {
        private_dirty_bytes: rollup.private_dirty_bytes,
        pss_bytes: rollup.pss_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_here_is_ours_alone() {
        let roots = Roots::default();
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let pages = private_pages_of(&roots, std::process::id()).unwrap();
        assert!(pages.private_dirty_bytes >= 64 << 20);
        assert!(pages.pss_bytes >= pages.private_dirty_bytes);
        drop(block);
        assert_eq!(private_pages_of(&roots, u32::MAX), None);
    }
}
