//! What the reader takes from real and made-up snapshots.

mod support;

use nilo_allocator::SnapshotError;
use nilo_allocator::snapshot::{BlockUse, NO_STACK, TraceAction};
use support::{Object, event, frame, made_up, pickled, read, snapshot};

fn count(snapshot: &nilo_allocator::GpuSnapshot, action: TraceAction) -> usize {
    snapshot
        .events
        .actions()
        .iter()
        .filter(|one| **one == action)
        .count()
}

#[test]
fn a_real_snapshot_has_the_events_that_python_counts() {
    let varlen = snapshot("full-varlen");
    assert_eq!(varlen.events.len(), 48_641);
    assert_eq!(varlen.trace(0), 0..48_641);
    assert_eq!(count(&varlen, TraceAction::Alloc), 16_331);
    assert_eq!(count(&varlen, TraceAction::FreeRequested), 16_099);
    assert_eq!(count(&varlen, TraceAction::FreeCompleted), 16_099);
    assert_eq!(count(&varlen, TraceAction::SegmentAlloc), 112);
    assert_eq!(varlen.segments.len(), 112);
    let first = varlen.events.row(0);
    assert_eq!(
        (first.action, first.address, first.size),
        (TraceAction::SegmentAlloc, 139_838_196_023_296, 33_554_432)
    );
    assert_eq!(first.time_micros, 1_794_728_389_259_681);
    assert_eq!(varlen.stacks.stack(first.stack).count(), 8);
    assert_eq!(
        varlen.texts.get(varlen.stages[0].name),
        "Optimizer.step#AdamW.step"
    );
    assert!(varlen.stages[0].starts && !varlen.stages[1].starts);
    assert_eq!(varlen.settings, Default::default());
}

#[test]
fn segments_have_their_blocks_with_frames() {
    let oom = snapshot("full-fragmentation-oom");
    let segment = &oom.segments[0];
    assert_eq!(
        (segment.address, segment.total_size),
        (139_623_548_321_792, 20_971_520)
    );
    assert!(!segment.is_small && !segment.is_expandable);
    let blocks = oom.blocks_of(segment);
    assert_eq!(blocks.len(), 4);
    assert_eq!(
        (blocks[0].size, blocks[0].requested, blocks[0].usage),
        (3_145_728, 3_145_728, BlockUse::Allocated)
    );
    let frames: Vec<_> = oom.stacks.stack(blocks[0].stack).collect();
    assert_eq!(oom.texts.get(frames[0].name), "one");
    assert_eq!(oom.texts.get(frames[1].filename), "train.py");
    assert_eq!(frames[1].line, 77);
    for segment in &oom.segments {
        let blocks = oom.blocks_of(segment);
        assert_eq!(
            blocks.iter().map(|block| block.size).sum::<u64>(),
            segment.total_size
        );
    }
}

#[test]
fn every_protocol_gives_the_same_snapshot() {
    let four = snapshot("full-fragmentation-oom");
    for name in ["protocol-2", "protocol-3", "protocol-5"] {
        let other = snapshot(name);
        assert_eq!(other.events.len(), four.events.len(), "{name}");
        for index in 0..four.events.len() {
            let (left, right) = (four.events.row(index), other.events.row(index));
            assert_eq!(
                (left.action, left.address, left.size, left.time_micros),
                (right.action, right.address, right.size, right.time_micros)
            );
        }
        assert_eq!(other.stacks.stack_count(), four.stacks.stack_count());
        assert_eq!(other.blocks.len(), four.blocks.len());
    }
}

#[test]
fn zstd_and_plain_files_are_read_like_gzip() {
    let mut plain = Vec::new();
    std::io::Read::read_to_end(
        &mut flate2::read::GzDecoder::new(&support::bytes_of("full-steady.pickle.gz")[..]),
        &mut plain,
    )
    .unwrap();
    assert_eq!(read(&plain).unwrap().events.len(), 6780);
    assert_eq!(
        read(&zstd::encode_all(&plain[..], 1).unwrap())
            .unwrap()
            .events
            .len(),
        6780
    );
    let small = nilo_allocator::ReadOptions {
        max_decompressed_bytes: 1000,
    };
    let refused =
        nilo_allocator::GpuSnapshot::read(&support::bytes_of("full-steady.pickle.gz"), &small);
    assert!(matches!(
        refused,
        Err(SnapshotError::TooLarge { max_bytes: 1000 })
    ));
}

#[test]
fn a_bomb_is_refused_whatever_it_is_packed_with() {
    let zeros = vec![0; 70 << 20];
    let mut gzip = Vec::new();
    let mut encoder = flate2::read::GzEncoder::new(&zeros[..], flate2::Compression::best());
    std::io::Read::read_to_end(&mut encoder, &mut gzip).unwrap();
    for (packed, name) in [
        (gzip, "gzip"),
        (zstd::encode_all(&zeros[..], 1).unwrap(), "zstd"),
    ] {
        let refused = read(&packed).map(|_| ()).unwrap_err();
        assert!(
            matches!(
                refused,
                SnapshotError::Disproportionate { format, max_bytes, .. }
                    if format == name && max_bytes == 64 << 20
            ),
            "{refused}"
        );
        let mut few = packed;
        few.truncate(few.len() / 2);
        let refused = read(&few).map(|_| ()).unwrap_err();
        assert!(
            matches!(refused, SnapshotError::Compression { .. }),
            "{refused}"
        );
    }
}

#[test]
fn equal_stacks_of_different_events_are_one() {
    let events = vec![event("alloc", 4096, 512), event("alloc", 8192, 512)];
    let made = read(&pickled(&made_up(vec![], events))).unwrap();
    assert_eq!(made.stacks.stack_count(), 1);
    assert_eq!(made.events.row(0).stack, made.events.row(1).stack);
}

#[test]
fn unknown_keys_and_missing_ones_are_no_problem() {
    let odd = Object::Dict(vec![
        (
            "brand_new",
            Object::Dict(vec![("deep", Object::List(vec![Object::None]))]),
        ),
        ("action", Object::Text("alloc")),
        ("addr", Object::Int((1 << 64) - 512)),
        ("size", Object::Int(7)),
    ]);
    let made = read(&pickled(&made_up(vec![], vec![odd]))).unwrap();
    let row = made.events.row(0);
    assert_eq!(
        (row.address, row.size, row.stack),
        (u64::MAX - 511, 7, NO_STACK)
    );
}

#[test]
fn the_oldest_files_are_a_list_of_segments_with_histories() {
    let history = Object::Dict(vec![
        ("addr", Object::Int(1)),
        ("real_size", Object::Int(500)),
        ("frames", Object::List(vec![frame("a.py", 3)])),
    ]);
    let block = |state, history| {
        Object::Dict(vec![
            ("size", Object::Int(1024)),
            ("state", Object::Text(state)),
            ("history", Object::List(history)),
        ])
    };
    let segment = Object::Dict(vec![
        ("device", Object::Int(0)),
        ("address", Object::Int(4096)),
        ("total_size", Object::Int(2048)),
        ("stream", Object::Int(0)),
        ("segment_type", Object::Text("small")),
        (
            "blocks",
            Object::List(vec![
                block("active_allocated", vec![history]),
                block("inactive", vec![]),
            ]),
        ),
    ]);
    let made = read(&pickled(&Object::List(vec![segment]))).unwrap();
    assert!(made.segments[0].is_small);
    let blocks = made.blocks_of(&made.segments[0]);
    assert_eq!((blocks[0].address, blocks[0].requested), (4096, 500));
    assert_eq!(made.stacks.stack(blocks[0].stack).count(), 1);
    assert_eq!(blocks[1].address, 5120);
}

#[test]
fn settings_are_read() {
    let settings = Object::Dict(vec![
        (
            "PYTORCH_CUDA_ALLOC_CONF",
            Object::Text("expandable_segments:True"),
        ),
        ("max_split_size", Object::Int(209_715_200)),
        ("garbage_collection_threshold", Object::Float(0.8)),
        ("expandable_segments", Object::Bool(true)),
        (
            "roundup_power2_divisions",
            Object::Dict(vec![("1", Object::Int(0)), ("4", Object::Int(8))]),
        ),
    ]);
    let top = Object::Dict(vec![
        ("segments", Object::List(vec![])),
        ("allocator_settings", settings),
    ]);
    let made = read(&pickled(&top)).unwrap().settings;
    assert_eq!(made.configuration, "expandable_segments:True");
    assert_eq!(made.max_split_bytes, Some(209_715_200));
    assert_eq!(made.garbage_collection_threshold, 0.8);
    assert!(made.expandable_segments);
    assert_eq!(made.roundup_power2_divisions[..3], [0, 0, 8]);
}
