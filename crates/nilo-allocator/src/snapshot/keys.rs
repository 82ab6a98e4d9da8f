//! The keys and words of snapshots, numbered: the text pool begins with them, so that comparing texts is comparing numbers.

pub(crate) const ACTION: u32 = 0;
pub(crate) const ADDR: u32 = 1;
pub(crate) const DEVICE_FREE: u32 = 2;
pub(crate) const SIZE: u32 = 3;
pub(crate) const STREAM: u32 = 4;
pub(crate) const TIME_US: u32 = 5;
pub(crate) const FRAMES: u32 = 6;
pub(crate) const USER_METADATA: u32 = 7;
pub(crate) const POOL_ID: u32 = 8;
pub(crate) const FILENAME: u32 = 9;
pub(crate) const LINE: u32 = 10;
pub(crate) const NAME: u32 = 11;
pub(crate) const ADDRESS: u32 = 12;
pub(crate) const REQUESTED_SIZE: u32 = 13;
pub(crate) const STATE: u32 = 14;
pub(crate) const DEVICE: u32 = 15;
pub(crate) const TOTAL_SIZE: u32 = 16;
pub(crate) const SEGMENT_TYPE: u32 = 17;
pub(crate) const SEGMENT_POOL_ID: u32 = 18;
pub(crate) const IS_EXPANDABLE: u32 = 19;
pub(crate) const BLOCKS: u32 = 20;
pub(crate) const STAGE: u32 = 21;
pub(crate) const SEGMENTS: u32 = 22;
pub(crate) const DEVICE_TRACES: u32 = 23;
pub(crate) const ALLOCATOR_SETTINGS: u32 = 24;
pub(crate) const EXTERNAL_ANNOTATIONS: u32 = 25;
pub(crate) const HISTORY: u32 = 26;
pub(crate) const REAL_SIZE: u32 = 27;
pub(crate) const MAX_SPLIT_SIZE: u32 = 28;
pub(crate) const GARBAGE_COLLECTION_THRESHOLD: u32 = 29;
pub(crate) const EXPANDABLE_SEGMENTS: u32 = 30;
pub(crate) const ROUNDUP_POWER2_DIVISIONS: u32 = 31;
pub(crate) const PYTORCH_CUDA_ALLOC_CONF: u32 = 32;
pub(crate) const ACTION_ALLOC: u32 = 33;
pub(crate) const ACTION_FREE_REQUESTED: u32 = 34;
pub(crate) const ACTION_FREE_COMPLETED: u32 = 35;
pub(crate) const ACTION_SEGMENT_ALLOC: u32 = 36;
pub(crate) const ACTION_SEGMENT_FREE: u32 = 37;
pub(crate) const ACTION_SEGMENT_MAP: u32 = 38;
pub(crate) const ACTION_SEGMENT_UNMAP: u32 = 39;
pub(crate) const ACTION_SNAPSHOT: u32 = 40;
pub(crate) const ACTION_OOM: u32 = 41;
pub(crate) const WORD_ACTIVE_ALLOCATED: u32 = 42;
pub(crate) const WORD_ACTIVE_PENDING_FREE: u32 = 43;
pub(crate) const WORD_ACTIVE_AWAITING_FREE: u32 = 44;
pub(crate) const WORD_INACTIVE: u32 = 45;
pub(crate) const WORD_SMALL: u32 = 46;
pub(crate) const WORD_START: u32 = 47;

/// The texts in the order of their numbers.
pub(crate) const KNOWN_TEXTS: [&str; 48] = [
    "action",
    "addr",
    "device_free",
    "size",
    "stream",
    "time_us",
    "frames",
    "user_metadata",
    "pool_id",
    "filename",
    "line",
    "name",
    "address",
    "requested_size",
    "state",
    "device",
    "total_size",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "blocks",
    "stage",
    "segments",
    "device_traces",
    "allocator_settings",
    "external_annotations",
    "history",
    "real_size",
    "max_split_size",
    "garbage_collection_threshold",
    "expandable_segments",
    "roundup_power2_divisions",
    "PYTORCH_CUDA_ALLOC_CONF",
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "active_allocated",
    "active_pending_free",
    "active_awaiting_free",
    "inactive",
    "small",
    "START",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_places_in_the_list() {
        for (id, text) in [
            (ACTION, "action"),
            (STAGE, "stage"),
            (ACTION_OOM, "oom"),
            (WORD_START, "START"),
        ] {
            assert_eq!(KNOWN_TEXTS[id as usize], text);
        }
    }
}
