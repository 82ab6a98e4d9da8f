//! Settings of the allocator, and the sizes that follow from them.

use crate::snapshot::RecordedSettings;

/// Every block is a multiple of this.
pub(crate) const MIN_BLOCK_BYTES: u64 = 512;
/// Requests up to this go to the small pool.
pub(crate) const SMALL_BYTES: u64 = 1 << 20;
/// Segments of the small pool.
pub(crate) const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// Requests from this on get a segment of their own.
const MIN_OWN_SEGMENT_BYTES: u64 = 10 << 20;
/// What such segments are rounded to.
const SEGMENT_ROUNDING_BYTES: u64 = 2 << 20;

/// What `PYTORCH_CUDA_ALLOC_CONF` sets, and how much memory there is.
#[derive(Debug, Clone, PartialEq)]
pub struct AllocatorSettings {
    /// Blocks of at least so many bytes are not split, and not used for smaller requests.
    pub max_split_bytes: Option<u64>,
    /// Segments for requests of 1 to 10 MiB, and the pages of expandable segments for large requests.
    pub large_segment_bytes: u64,
    /// How much larger than the request an unsplit block may be.
    pub max_non_split_rounding_bytes: u64,
    /// Divisions between powers of two by size class (up to 1 MiB, 2 MiB, 4 MiB and so on); 0 and 1 are rounding to 512 bytes.
    pub roundup_power2_divisions: Vec<u64>,
    /// The part of the allowed memory from which on unused segments are released before new ones are taken; 0 is never.
    pub garbage_collection_threshold: f64,
    /// Whether segments grow by mapping pages.
    pub expandable_segments: bool,
    /// The most bytes the process may reserve, as `set_per_process_memory_fraction` sets it.
    pub allowed_bytes: Option<u64>,
    /// The bytes the driver can give to the allocator.
    pub device_bytes: Option<u64>,
}

impl Default for AllocatorSettings {
    fn default() -> Self {
        Self {
            max_split_bytes: None,
            large_segment_bytes: 20 << 20,
            max_non_split_rounding_bytes: 20 << 20,
            roundup_power2_divisions: Vec::new(),
            garbage_collection_threshold: 0.0,
            expandable_segments: false,
            allowed_bytes: None,
            device_bytes: None,
        }
    }
}

impl From<&RecordedSettings> for AllocatorSettings {
    fn from(recorded: &RecordedSettings) -> Self {
        Self {
            max_split_bytes: recorded.max_split_bytes,
            roundup_power2_divisions: recorded.roundup_power2_divisions.clone(),
            garbage_collection_threshold: recorded.garbage_collection_threshold,
            expandable_segments: recorded.expandable_segments,
            ..Self::default()
        }
    }
}

impl AllocatorSettings {
    /// The bytes of the block for a request.
    pub fn rounded_bytes(&self, requested: u64) -> u64 {
        if requested < MIN_BLOCK_BYTES {
            return MIN_BLOCK_BYTES;
        }
        let divisions = self.divisions(requested);
        if divisions > 1 && requested > MIN_BLOCK_BYTES.saturating_mul(divisions) {
            return round_to_division(requested, divisions);
        }
        requested
            .div_ceil(MIN_BLOCK_BYTES)
            .saturating_mul(MIN_BLOCK_BYTES)
    }

    fn divisions(&self, requested: u64) -> u64 {
        let Some(last) = self.roundup_power2_divisions.len().checked_sub(1) else {
            return 0;
        };
        // The class is the power of two at or below the request, counted from 1 MiB.
        let class = (requested.checked_ilog2().unwrap_or(0) as usize).saturating_sub(20);
        self.roundup_power2_divisions[class.min(last)]
    }

    /// The bytes of a new segment for a block of so many bytes.
    pub fn segment_bytes(&self, block_bytes: u64) -> u64 {
        if block_bytes <= SMALL_BYTES {
            SMALL_SEGMENT_BYTES
        } else if block_bytes < MIN_OWN_SEGMENT_BYTES {
            self.large_segment_bytes
        } else {
            block_bytes
                .div_ceil(SEGMENT_ROUNDING_BYTES)
                .saturating_mul(SEGMENT_ROUNDING_BYTES)
        }
    }

    /// The bytes mapped at once into an expandable segment.
    pub(crate) fn page_bytes(&self, is_small: bool) -> u64 {
        if is_small {
            SMALL_SEGMENT_BYTES
        } else {
            self.large_segment_bytes.max(SMALL_SEGMENT_BYTES)
        }
    }

    pub(crate) fn max_split(&self) -> u64 {
        self.max_split_bytes.unwrap_or(u64::MAX)
    }

    /// Whether the rest of a free block is kept as a block of its own.
    pub(crate) fn splits(&self, is_small: bool, block_bytes: u64, wanted: u64) -> bool {
        let remaining = block_bytes - wanted;
        if is_small || self.expandable_segments {
            remaining >= MIN_BLOCK_BYTES
        } else {
            wanted < self.max_split() && remaining > SMALL_BYTES
        }
    }

    pub(crate) fn collects_garbage(&self) -> bool {
        self.allowed_bytes.is_some() && self.garbage_collection_threshold > 0.0
    }
}

/// The next multiple of a power of two's part: 1200 with 4 divisions is 1280.
fn round_to_division(requested: u64, divisions: u64) -> u64 {
    if requested.is_power_of_two() {
        return requested;
    }
    let floor = 1_u64 << requested.ilog2();
    let step = floor >> divisions.ilog2();
    if step == 0 {
        return floor.saturating_mul(2);
    }
    requested.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_rounded_as_torch_rounds_them() {
        let plain = AllocatorSettings::default();
        let pairs = [
            (0, 512),
            (1, 512),
            (512, 512),
            (513, 1024),
            (83_455, 83_456),
        ];
        assert!(
            pairs
                .iter()
                .all(|(requested, rounded)| plain.rounded_bytes(*requested) == *rounded)
        );
        let four = AllocatorSettings {
            roundup_power2_divisions: vec![4; 16],
            ..plain
        };
        let pairs = [
            (1200, 1536),
            (2049, 2560),
            (4096, 4096),
            (5000, 5120),
            ((10 << 20) + 1, 12 << 20),
        ];
        for (requested, rounded) in pairs {
            assert_eq!(four.rounded_bytes(requested), rounded, "{requested}");
        }
    }

    #[test]
    fn divisions_are_those_of_the_size_class() {
        let mut divisions = vec![0; 16];
        divisions[3] = 2;
        let settings = AllocatorSettings {
            roundup_power2_divisions: divisions,
            ..AllocatorSettings::default()
        };
        assert_eq!(settings.rounded_bytes((8 << 20) + 1), 12 << 20);
        assert_eq!(settings.rounded_bytes((16 << 20) + 1), (16 << 20) + 512);
    }

    #[test]
    fn segments_have_the_sizes_of_their_class() {
        let settings = AllocatorSettings::default();
        assert_eq!(settings.segment_bytes(512), 2 << 20);
        assert_eq!(settings.segment_bytes(1 << 20), 2 << 20);
        assert_eq!(settings.segment_bytes((1 << 20) + 512), 20 << 20);
        assert_eq!(settings.segment_bytes(10 << 20), 10 << 20);
        assert_eq!(settings.segment_bytes((10 << 20) + 512), 12 << 20);
    }
}
