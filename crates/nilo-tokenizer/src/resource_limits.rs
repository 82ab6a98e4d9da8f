//! The threads and the memory that a training may take, dealt out to its stages.

/// Buffers of a thread that counts: its chunk of text and its table of frequent words.
const THREAD_BYTES: u64 = 4 << 20;
/// A stage gets no less than this; what it needs beyond, it says itself.
const LEAST_BYTES: u64 = 1 << 20;

/// With what means the stages work. None of it changes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Threads of each stage.
    pub threads: usize,
    /// Bytes for everything; `None` for no bound.
    pub budget_bytes: Option<u64>,
    /// What the program takes of it besides the stages.
    pub program_bytes: u64,
}

impl ResourceLimits {
    /// Threads as asked for, or one for each core.
    pub fn new(threads: Option<usize>, budget_bytes: Option<u64>, program_bytes: u64) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: threads.unwrap_or_else(cores),
            budget_bytes,
            program_bytes,
        }
    }

    /// For the words of the counting stage.
    pub fn for_counting(&self) -> Option<u64> {
        self.rest(THREAD_BYTES * self.threads as u64)
    }

    /// For everything of the merging stage.
    pub fn for_merging(&self) -> Option<u64> {
        self.rest(0)
    }

    fn rest(&self, taken: u64) -> Option<u64> {
        let left = self
            .budget_bytes?
            .saturating_sub(self.program_bytes + taken);
        Some(left.max(LEAST_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_leaves_room_for_the_program_and_the_buffers_of_threads() {
        let allowance = ResourceLimits::new(Some(2), Some(100 << 20), 12 << 20);
        assert_eq!(allowance.for_counting(), Some(80 << 20));
        assert_eq!(allowance.for_merging(), Some(88 << 20));
    }

    #[test]
    fn a_stage_gets_something_however_small_the_budget() {
        let allowance = ResourceLimits::new(Some(8), Some(1), 0);
        assert_eq!(allowance.for_counting(), Some(LEAST_BYTES));
        assert_eq!(allowance.for_merging(), Some(LEAST_BYTES));
    }

    #[test]
    fn without_a_budget_there_is_no_bound() {
        let allowance = ResourceLimits::new(None, None, 12 << 20);
        assert!(allowance.threads >= 1);
        assert_eq!(allowance.for_counting(), None);
        assert_eq!(allowance.for_merging(), None);
    }
}
