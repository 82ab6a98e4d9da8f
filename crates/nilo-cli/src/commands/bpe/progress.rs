//! The bars of the stages, and Ctrl-C.

use nilo_tokenizer::Progress;

use super::stop;
use crate::text::bars::{BarUnit, Bars};

/// What the stages report to.
pub(super) struct BarProgress(pub(super) Bars);

impl Progress for BarProgress {
    fn scanned(&self, bytes: u64, total_bytes: Option<u64>) {
        self.0
            .put("Counting words", BarUnit::Bytes, bytes, total_bytes);
    }

    fn merged(&self, merges: u64, wanted: u64) {
        self.0
            .put("Training BPE", BarUnit::Merges, merges, Some(wanted));
    }

    fn should_stop(&self) -> bool {
        stop::is_asked()
    }
}
