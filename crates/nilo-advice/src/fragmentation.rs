//! What to do about a GPU allocator's free memory, as a program finds it at one moment. The rules judge recorded peaks; both share their thresholds.

use nilo_sample::units::format_bytes;
use serde::Deserialize;

use crate::rules::is_much_reserved;

/// PyTorch's allocator on one GPU, now. What this PyTorch does not tell is absent.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct AllocatorMoment {
    /// All that it holds of the GPU.
    pub reserved_bytes: u64,
    /// Free pieces of segments that a live tensor keeps.
    pub inactive_split_bytes: Option<u64>,
    /// Segments without a tensor.
    pub releasable_bytes: Option<u64>,
    /// Large segments of which tensors take little.
    pub barely_used_large_segments: Option<u64>,
    /// What is free in them.
    pub barely_used_large_segment_free_bytes: Option<u64>,
    /// Whether segments are expandable.
    pub expandable_segments: bool,
    /// How often it freed its cache and tried again.
    pub alloc_retries: Option<u64>,
}

impl AllocatorMoment {
    /// One sentence for each thing that was found, with the figure that it rests on.
    pub fn advice(&self) -> Vec<String> {
        let found = [
            self.on_free_pieces(),
            self.on_barely_used_segments(),
            self.on_free_segments(),
            self.on_retries(),
        ];
        found.into_iter().flatten().collect()
    }

    fn on_free_pieces(&self) -> Option<String> {
        let free = self.much(self.inactive_split_bytes)?;
        let share = format!(
            "{free} of {} reserved is free, but in pieces of segments in use",
            self.reserved()
        );
        Some(match self.expandable_segments {
            false => format!(
                "Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, set before the program starts: {share}. \
                 `nilo snapshot whatif` tells from a snapshot whether it helps"
            ),
            true => format!(
                "Free tensors that outlive their neighbours, or allocate them first: {share}, although segments are expandable"
            ),
        })
    }

    fn on_barely_used_segments(&self) -> Option<String> {
        let free = self.much(self.barely_used_large_segment_free_bytes)?;
        let segments = self.barely_used_large_segments.unwrap_or(0);
        (!self.expandable_segments).then(|| {
            format!(
                "Where segments cannot be expandable, try PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128: \
                 {segments} large segments are kept by small tensors, with {free} free in them. \
                 It may also reserve more: `nilo snapshot whatif` compares both"
            )
        })
    }

    fn on_free_segments(&self) -> Option<String> {
        let free = self.much(self.releasable_bytes)?;
        Some(format!(
            "Call torch.cuda.empty_cache() where another process needs the GPU: {free} of {} reserved is in segments without a tensor. \
             This program itself gains nothing, since PyTorch uses them again",
            self.reserved()
        ))
    }

    fn on_retries(&self) -> Option<String> {
        let retries = self.alloc_retries.filter(|retries| *retries > 0)?;
        Some(format!(
            "Leave the allocator more room, as with a smaller batch: it freed its cache and tried again {retries} times, which waits for the GPU"
        ))
    }

    fn reserved(&self) -> String {
        format_bytes(self.reserved_bytes as f64)
    }

    /// A part of what is reserved that is worth a setting.
    fn much(&self, part: Option<u64>) -> Option<String> {
        let part = part? as f64;
        is_much_reserved(part, self.reserved_bytes as f64).then(|| format_bytes(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn what_is_little_or_not_known_is_worth_no_sentence() {
        assert_eq!(AllocatorMoment::default().advice(), [""; 0]);
        let little = AllocatorMoment {
            reserved_bytes: 1000 * MIB,
            inactive_split_bytes: Some(190 * MIB),
            releasable_bytes: Some(200 * MIB),
            alloc_retries: Some(0),
            ..AllocatorMoment::default()
        };
        assert_eq!(little.advice(), [""; 0]);
        let small = AllocatorMoment {
            reserved_bytes: 300 * MIB,
            inactive_split_bytes: Some(255 * MIB),
            ..AllocatorMoment::default()
        };
        assert_eq!(small.advice(), [""; 0]);
    }

    #[test]
    fn each_finding_has_a_sentence_with_its_figure() {
        let moment = AllocatorMoment {
            reserved_bytes: 2048 * MIB,
            inactive_split_bytes: Some(600 * MIB),
            releasable_bytes: Some(700 * MIB),
            barely_used_large_segments: Some(3),
            barely_used_large_segment_free_bytes: Some(500 * MIB),
            expandable_segments: false,
            alloc_retries: Some(4),
        };
        let found = moment.advice();
        let parts = [
            "expandable_segments:True, set before the program starts: 600.00 MiB of 2.00 GiB reserved",
            "3 large segments are kept by small tensors, with 500.00 MiB free in them",
            "700.00 MiB of 2.00 GiB reserved is in segments without a tensor",
            "tried again 4 times",
        ];
        assert_eq!(found.len(), parts.len());
        for (sentence, part) in found.iter().zip(parts) {
            assert!(sentence.contains(part), "{sentence}");
        }
        let expandable = AllocatorMoment {
            expandable_segments: true,
            ..moment
        };
        let found = expandable.advice();
        assert!(found[0].starts_with("Free tensors that outlive"));
        assert_eq!(found.len(), 3);
    }
}
