//! What must hold after any sequence of requests, under any settings.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Allocate { bytes: u64, stream: u64 },
    Free { which: usize },
    Complete { which: usize },
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![1..4096_u64, 4096..1_200_000_u64, 1_000_000..60_000_000_u64];
    let step = prop_oneof![
        5 => (bytes, 0..2_u64).prop_map(|(bytes, stream)| Step::Allocate { bytes, stream }),
        3 => any::<usize>().prop_map(|which| Step::Free { which }),
        3 => any::<usize>().prop_map(|which| Step::Complete { which }),
        1 => Just(Step::Release),
    ];
    proptest::collection::vec(step, 1..120)
}

fn settings() -> impl Strategy<Value = AllocatorSettings> {
    let limit = prop_oneof![Just(None), (50_000_000..400_000_000_u64).prop_map(Some)];
    let max_split = prop_oneof![Just(None), (5_000_000..50_000_000_u64).prop_map(Some)];
    let divisions = prop_oneof![Just(vec![]), Just(vec![4; 16])];
    let collection = prop_oneof![Just(0.0), Just(0.6)];
    (
        limit.clone(),
        limit,
        max_split,
        divisions,
        collection,
        any::<bool>(),
    )
        .prop_map(
            |(
                allowed_bytes,
                device_bytes,
                max_split_bytes,
                roundup_power2_divisions,
                garbage_collection_threshold,
                expandable_segments,
            )| {
                AllocatorSettings {
                    allowed_bytes,
                    device_bytes,
                    max_split_bytes,
                    roundup_power2_divisions,
                    garbage_collection_threshold,
                    expandable_segments,
                    ..AllocatorSettings::default()
                }
            },
        )
}

/// Every segment once, as its blocks; the sums of them must be the totals.
fn check(allocator: &CachingAllocator, live: &[BlockIndex], pending: &[BlockIndex]) {
    let mut segments = std::collections::BTreeMap::new();
    for index in live
        .iter()
        .chain(pending)
        .copied()
        .chain(allocator.free_blocks())
    {
        let views = allocator.segment_of(index);
        segments.insert(views[0].address, views);
    }
    let mut end = 0;
    let (mut reserved, mut allocated, mut active) = (0, 0, 0);
    for view in segments.values().flatten() {
        assert!(view.address >= end, "blocks overlap");
        end = view.address + view.size;
        reserved += view.size;
        allocated += if view.allocated { view.size } else { 0 };
        active += if view.active { view.size } else { 0 };
    }
    let totals = allocator.totals();
    assert_eq!(
        (
            totals.reserved_bytes,
            totals.allocated_bytes,
            totals.active_bytes
        ),
        (reserved, allocated, active)
    );
    for views in segments.values() {
        let touching = |pair: &&[BlockView]| pair[0].address + pair[0].size == pair[1].address;
        let both_free = views
            .windows(2)
            .filter(touching)
            .any(|pair| !pair[0].active && !pair[1].active);
        assert!(!both_free, "free neighbours are merged");
    }
}

proptest! {
    #[test]
    fn blocks_tile_their_segments_and_the_totals_add_up(steps in steps(), settings in settings()) {
        let limit = settings.allowed_bytes.unwrap_or(u64::MAX).min(settings.device_bytes.unwrap_or(u64::MAX));
        // What is mapped for a request may exceed what the check of the allowed bytes asked for, by a page.
        let slack = if settings.expandable_segments { settings.large_segment_bytes } else { 0 };
        let mut allocator = CachingAllocator::new(settings, SegmentAddresses::default());
        let (mut live, mut pending) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Allocate { bytes, stream } => {
                    let before = allocator.totals().ooms;
                    match allocator.allocate(bytes, stream, 0) {
                        Ok(index) => live.push(index),
                        Err(error) => {
                            prop_assert!(limit < u64::MAX, "{error} without a limit");
                            prop_assert_eq!(allocator.totals().ooms, before + 1);
                        }
                    }
                    if allocator.pending_count == 0 {
                        pending.clear();
                    }
                }
                Step::Free { which } if !live.is_empty() => {
                    let index = live.swap_remove(which % live.len());
                    allocator.request_free(index);
                    pending.push(index);
                }
                Step::Complete { which } if !pending.is_empty() => {
                    let index = pending.swap_remove(which % pending.len());
                    allocator.complete_free(index);
                }
                Step::Release => {
                    allocator.release_cached();
                    pending.clear();
                }
                _ => {}
            }
            prop_assert!(allocator.totals().reserved_bytes <= limit.saturating_add(slack));
            check(&allocator, &live, &pending);
        }
        for index in live {
            allocator.request_free(index);
        }
        allocator.release_cached();
        let totals = allocator.totals();
        prop_assert_eq!((totals.allocated_bytes, totals.active_bytes, totals.requested_bytes, totals.reserved_bytes), (0, 0, 0, 0));
    }
}
