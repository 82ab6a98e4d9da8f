//! Known answers of the allocator model, one rule each.

use nilo_allocator::model::{
    AdoptedBlock, AdoptedSegment, AllocatorSettings, BlockIndex, CachingAllocator, DriverAction,
    SegmentAddresses,
};

const MIB: u64 = 1 << 20;

fn allocator(settings: AllocatorSettings) -> CachingAllocator {
    CachingAllocator::new(settings, SegmentAddresses::default())
}

fn plain() -> CachingAllocator {
    allocator(AllocatorSettings::default())
}

fn free(allocator: &mut CachingAllocator, block: BlockIndex) {
    allocator.request_free(block);
    allocator.complete_free(block);
}

/// Actions and MiB of the calls to the driver.
fn calls(allocator: &CachingAllocator) -> Vec<(DriverAction, u64)> {
    allocator
        .driver_calls()
        .iter()
        .map(|call| (call.action, call.size / MIB))
        .collect()
}

#[test]
fn small_and_large_requests_have_pools_of_their_own() {
    let mut allocator = plain();
    allocator.allocate(1, 0, 0).unwrap();
    allocator.allocate(MIB, 0, 0).unwrap();
    allocator.allocate(MIB + 1, 0, 0).unwrap();
    allocator.allocate(29 * MIB + 1, 0, 0).unwrap();
    let segments = [2, 20, 30].map(|size| (DriverAction::SegmentAlloc, size));
    assert_eq!(calls(&allocator), segments);
    assert_eq!(
        allocator.totals().requested_bytes,
        1 + MIB + MIB + 1 + 29 * MIB + 1
    );
}

#[test]
fn a_rest_of_up_to_one_mebibyte_stays_with_a_large_block() {
    let mut allocator = plain();
    let block = allocator.allocate(11 * MIB, 0, 0).unwrap();
    assert_eq!(allocator.view(block).size, 12 * MIB);
    assert_eq!(allocator.totals().allocated_bytes, 12 * MIB);
    free(&mut allocator, block);
    let block = allocator.allocate(11 * MIB - 512, 0, 0).unwrap();
    assert_eq!(allocator.view(block).size, 11 * MIB - 512);
}

#[test]
fn the_smallest_block_that_fits_is_taken_and_ties_go_to_the_lowest_address() {
    let mut allocator = plain();
    let blocks = [40, 30, 30, 50].map(|size| allocator.allocate(size * MIB, 0, 0).unwrap());
    let addresses = blocks.map(|block| allocator.address(block));
    blocks
        .into_iter()
        .for_each(|block| free(&mut allocator, block));
    let first = allocator.allocate(30 * MIB, 0, 0).unwrap();
    assert_eq!(allocator.address(first), addresses[1].min(addresses[2]));
    let next = allocator.allocate(31 * MIB, 0, 0).unwrap();
    assert_eq!(allocator.address(next), addresses[0]);
}

#[test]
fn streams_and_memory_pools_share_nothing() {
    let mut allocator = plain();
    let block = allocator.allocate(30 * MIB, 1, 0).unwrap();
    free(&mut allocator, block);
    allocator.allocate(30 * MIB, 2, 0).unwrap();
    let private = allocator.allocate(30 * MIB, 1, 1).unwrap();
    assert_eq!(calls(&allocator).len(), 3);
    free(&mut allocator, private);
    allocator.release_cached();
    assert_eq!(
        calls(&allocator)[3..],
        [(DriverAction::SegmentFree, 30)],
        "the private pool keeps its own"
    );
}

#[test]
fn a_block_another_stream_uses_is_not_handed_out() {
    let mut allocator = plain();
    let block = allocator.allocate(30 * MIB, 0, 0).unwrap();
    allocator.request_free(block);
    assert_eq!(
        (
            allocator.totals().allocated_bytes,
            allocator.totals().active_bytes
        ),
        (0, 30 * MIB)
    );
    let other = allocator.allocate(30 * MIB, 0, 0).unwrap();
    assert_ne!(allocator.address(other), allocator.address(block));
    allocator.complete_free(block);
    let again = allocator.allocate(30 * MIB, 0, 0).unwrap();
    assert_eq!(allocator.driver_calls().len(), 2);
    assert_eq!(
        allocator.address(again),
        allocator.driver_calls()[0].address
    );
}

#[test]
fn at_the_limit_pending_frees_are_waited_for_and_free_segments_released() {
    let mut allocator = allocator(AllocatorSettings {
        allowed_bytes: Some(100 * MIB),
        ..AllocatorSettings::default()
    });
    let (first, second) = (
        allocator.allocate(40 * MIB, 0, 0).unwrap(),
        allocator.allocate(50 * MIB, 0, 0).unwrap(),
    );
    free(&mut allocator, first);
    allocator.request_free(second);
    allocator.allocate(60 * MIB, 0, 0).unwrap();
    let expected = [
        (DriverAction::SegmentAlloc, 40),
        (DriverAction::SegmentAlloc, 50),
        (DriverAction::SegmentFree, 40),
        (DriverAction::SegmentFree, 50),
        (DriverAction::SegmentAlloc, 60),
    ];
    assert_eq!(calls(&allocator), expected);
    allocator.complete_free(second);
    assert_eq!(
        allocator.totals().active_bytes,
        60 * MIB,
        "completing it again changes nothing"
    );
    let error = allocator.allocate(50 * MIB, 0, 0).unwrap_err();
    assert_eq!(
        (error.segment_bytes, error.reserved_bytes),
        (50 * MIB, 60 * MIB)
    );
    assert_eq!(
        (allocator.totals().ooms, allocator.totals().retries),
        (1, 2)
    );
}

#[test]
fn blocks_above_max_split_size_are_kept_for_requests_of_that_size() {
    let settings = AllocatorSettings {
        max_split_bytes: Some(64 * MIB),
        ..AllocatorSettings::default()
    };
    let mut allocator = allocator(settings);
    let block = allocator.allocate(100 * MIB, 0, 0).unwrap();
    free(&mut allocator, block);
    allocator.allocate(30 * MIB, 0, 0).unwrap();
    assert_eq!(
        calls(&allocator)[1],
        (DriverAction::SegmentAlloc, 30),
        "not cut from the block of 100 MiB"
    );
    allocator.allocate(80 * MIB, 0, 0).unwrap();
    assert_eq!(
        calls(&allocator)[2],
        (DriverAction::SegmentAlloc, 80),
        "20 MiB too large for it"
    );
    let block = allocator.allocate(81 * MIB, 0, 0).unwrap();
    assert_eq!(
        (calls(&allocator).len(), allocator.view(block).size),
        (3, 100 * MIB),
        "taken whole"
    );
}

#[test]
fn at_the_limit_only_as_many_oversized_blocks_are_released_as_needed() {
    let settings = AllocatorSettings {
        max_split_bytes: Some(64 * MIB),
        allowed_bytes: Some(350 * MIB),
        ..AllocatorSettings::default()
    };
    let mut allocator = allocator(settings);
    let blocks = [70, 80, 90].map(|size| allocator.allocate(size * MIB, 0, 0).unwrap());
    let small = allocator.allocate(30 * MIB, 0, 0).unwrap();
    blocks
        .into_iter()
        .for_each(|block| free(&mut allocator, block));
    free(&mut allocator, small);
    allocator.allocate(160 * MIB, 0, 0).unwrap();
    assert_eq!(
        calls(&allocator)[4..],
        [
            (DriverAction::SegmentFree, 90),
            (DriverAction::SegmentFree, 80),
            (DriverAction::SegmentAlloc, 160)
        ]
    );
    assert_eq!(allocator.totals().retries, 0);
}

#[test]
fn garbage_collection_releases_the_blocks_unused_for_longest() {
    let settings = AllocatorSettings {
        garbage_collection_threshold: 0.5,
        allowed_bytes: Some(200 * MIB),
        ..AllocatorSettings::default()
    };
    let mut allocator = allocator(settings);
    let blocks = [40, 50, 60].map(|size| allocator.allocate(size * MIB, 0, 0).unwrap());
    free(&mut allocator, blocks[0]);
    // Searches age the block of 40 MiB; that of 60 MiB is younger than the mean.
    for _ in 0..5 {
        let block = allocator.allocate(2 * MIB, 1, 0).unwrap();
        free(&mut allocator, block);
    }
    free(&mut allocator, blocks[2]);
    allocator.allocate(70 * MIB, 0, 0).unwrap();
    let freed: Vec<_> = calls(&allocator)
        .into_iter()
        .filter(|call| call.0 == DriverAction::SegmentFree)
        .collect();
    assert_eq!(freed[0], (DriverAction::SegmentFree, 40));
    assert_eq!(allocator.totals().retries, 0, "nothing had to fail for it");
}

#[test]
fn an_expandable_segment_grows_by_pages_and_shrinks_by_whole_ones() {
    let mut allocator = allocator(AllocatorSettings {
        expandable_segments: true,
        ..AllocatorSettings::default()
    });
    let first = allocator.allocate(30 * MIB, 0, 0).unwrap();
    let base = allocator.address(first);
    assert_eq!(calls(&allocator), [(DriverAction::SegmentMap, 40)]);
    // 10 MiB are left, so one page more.
    let second = allocator.allocate(25 * MIB, 0, 0).unwrap();
    assert_eq!(allocator.address(second), base + 30 * MIB);
    assert_eq!(calls(&allocator)[1], (DriverAction::SegmentMap, 20));
    free(&mut allocator, first);
    allocator.release_cached();
    assert_eq!(calls(&allocator)[2], (DriverAction::SegmentUnmap, 20));
    assert_eq!(
        allocator.driver_calls()[2].address,
        base,
        "the second page holds a part of the second block"
    );
    assert_eq!(allocator.totals().reserved_bytes, 40 * MIB);
    // The unmapped page and the free 10 MiB after it serve 25 MiB again.
    let third = allocator.allocate(25 * MIB, 0, 0).unwrap();
    assert_eq!(allocator.address(third), base);
    free(&mut allocator, second);
    free(&mut allocator, third);
    allocator.release_cached();
    assert_eq!(allocator.totals().reserved_bytes, 0);
}

#[test]
fn small_requests_of_expandable_segments_map_two_mebibytes() {
    let mut allocator = allocator(AllocatorSettings {
        expandable_segments: true,
        ..AllocatorSettings::default()
    });
    allocator.allocate(1000, 0, 0).unwrap();
    allocator.allocate(1000, 0, 0).unwrap();
    allocator.allocate(3 * MIB, 0, 0).unwrap();
    assert_eq!(
        calls(&allocator),
        [
            (DriverAction::SegmentMap, 2),
            (DriverAction::SegmentMap, 20)
        ]
    );
    assert_eq!(allocator.totals().allocated_bytes, 2048 + 3 * MIB);
}

#[test]
fn a_part_of_an_adopted_segment_is_never_released_alone() {
    let settings = AllocatorSettings {
        max_split_bytes: Some(64 * MIB),
        allowed_bytes: Some(150 * MIB),
        ..AllocatorSettings::default()
    };
    let mut allocator = allocator(settings);
    let segment = AdoptedSegment {
        address: 1 << 40,
        size: 100 * MIB,
        stream: 0,
        pool: 0,
        is_small: false,
    };
    let block = AdoptedBlock {
        address: 1 << 40,
        size: 4 * MIB,
        requested: 4 * MIB,
    };
    let held = allocator.adopt(segment, &[block]);
    assert_eq!(
        (
            allocator.totals().reserved_bytes,
            allocator.totals().allocated_bytes
        ),
        (100 * MIB, 4 * MIB)
    );
    // 96 MiB are free, but of a segment in use, and too large to be split for less than 64 MiB.
    assert!(allocator.allocate(60 * MIB, 0, 0).is_err());
    assert_eq!(allocator.totals().reserved_bytes, 100 * MIB);
    held.into_iter()
        .for_each(|block| free(&mut allocator, block));
    allocator.allocate(60 * MIB, 0, 0).unwrap();
    assert_eq!(
        calls(&allocator),
        [
            (DriverAction::SegmentFree, 100),
            (DriverAction::SegmentAlloc, 60)
        ]
    );
}
