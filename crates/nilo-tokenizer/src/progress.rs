//! How far a stage has come, told to whoever draws it, and whether it should stop.

/// Hears of progress. Called from worker threads, about a hundred times a second at most.
pub trait Progress: Sync {
    /// Bytes of the corpus that have been scanned, of how many where that is known.
    fn scanned(&self, bytes: u64, total_bytes: Option<u64>) {
        let _ = (bytes, total_bytes);
    }

    /// Merges learnt, of how many wanted.
    fn merged(&self, merges: u64, wanted: u64) {
        let _ = (merges, wanted);
    }

    /// Whether the user asked to stop. The stage ends at the next safe place and says that it was stopped.
    fn should_stop(&self) -> bool {
        false
    }
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Progress for Quiet {}
