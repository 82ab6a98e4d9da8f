//! The memory budget holds whatever is added and sampled, and nothing is dropped while something else can give way.

mod model;

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use model::{Environment, Model, Shape};
use nilo_buffer::{FrameCodec, ReplaySettings, ReplayStore, Returns, StackAxis};
use proptest::prelude::*;

const ONE_STEP: Returns = Returns {
    steps: 1,
    gamma: 0.99,
};

/// Adds so many steps and samples after every fourth. The budget is checked after each.
fn run(shape: &Shape, settings: ReplaySettings, steps: usize) -> (Model, ReplayStore) {
    let budget_bytes = settings.max_bytes.expect("a budget");
    let mut store = ReplayStore::new(settings).expect("valid settings");
    let mut model = Model::default();
    let mut environments: Vec<_> = (0..shape.environments as u64)
        .map(|seed| Environment::new(shape, seed))
        .collect();
    let mut random = Rng::with_seed(1);
    for step in 0..steps {
        model.step(&mut store, shape, &mut environments);
        assert!(store.heap_bytes() <= budget_bytes, "after {step} steps");
        if step % 4 == 0 {
            let rows = store.draw_uniform(32, &mut random).expect("not empty");
            model.compare_rows(&store, shape, ONE_STEP, &rows);
            assert!(store.heap_bytes() <= budget_bytes, "after {step} samples");
        }
    }
    model.compare(&store, shape, ONE_STEP);
    (model, store)
}

fn images(frame_bytes: usize, capacity: usize) -> Shape {
    Shape {
        environments: 1,
        stack: 4,
        frame_bytes,
        capacity,
        axis: StackAxis::First,
        codec: FrameCodec::Lz4,
    }
}

#[test]
fn sampling_drops_nothing_that_the_budget_has_room_for() {
    let shape = images(256, 2000);
    let settings = ReplaySettings {
        max_bytes: Some(600_000),
        cache_bytes: 16 << 20,
        ..shape.settings()
    };
    let (_, store) = run(&shape, settings, 5000);
    let statistics = store.statistics();
    assert_eq!(store.len(), 2000);
    assert_eq!(statistics.dropped_for_memory, 0);
    assert!(statistics.cache.entries > 0, "{statistics:?}");
}

#[test]
fn sampling_drops_nothing_while_there_is_a_spill_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let shape = images(256, 2000);
    let settings = ReplaySettings {
        max_bytes: Some(120_000),
        cache_bytes: 16 << 20,
        spill_folder: Some(folder.path().to_owned()),
        ..shape.settings()
    };
    let (_, store) = run(&shape, settings, 3000);
    let statistics = store.statistics();
    assert_eq!((store.len(), statistics.dropped_for_memory), (2000, 0));
    assert!(statistics.disk_bytes > 0, "{statistics:?}");
}

#[test]
fn frames_that_were_dropped_leave_the_cache() {
    let shape = images(256, 200);
    let settings = ReplaySettings {
        cache_bytes: 16 << 20,
        max_bytes: Some(100 << 20),
        ..shape.settings()
    };
    let (_, store) = run(&shape, settings, 3000);
    let statistics = store.statistics();
    assert!(
        statistics.cache.entries as u64 <= statistics.frames,
        "{statistics:?}"
    );
}

#[test]
fn a_spill_folder_that_cannot_be_written_to_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = ReplaySettings {
        spill_folder: Some(folder.path().join("missing")),
        ..images(256, 200).settings()
    };
    let refused = ReplayStore::new(settings).expect_err("no such folder");
    assert!(refused.to_string().contains("spill folder"), "{refused}");
}

#[test]
fn a_spill_folder_that_fails_later_drops_the_oldest_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let shape = images(256, 2000);
    let settings = ReplaySettings {
        max_bytes: Some(60_000),
        spill_folder: Some(folder.path().to_owned()),
        ..shape.settings()
    };
    let mut store = ReplayStore::new(settings).expect("valid settings");
    folder.close().expect("removed");
    let mut model = Model::default();
    let mut environments = [Environment::new(&shape, 1)];
    for _ in 0..1500 {
        model.step(&mut store, &shape, &mut environments);
    }
    model.compare(&store, &shape, ONE_STEP);
    assert!(store.dropped_here() > 0 && store.spill_failure().is_some());
    assert!(store.heap_bytes() <= 60_000);
}

/// What cannot leave memory: the latest observations, the pieces being filled, and the index, by a generous count.
fn least_bytes(shape: &Shape) -> usize {
    let frames = 3 * shape.stack + 40;
    let environment = frames * (shape.frame_bytes + 20) + 2000;
    shape.environments * environment + 60 * shape.capacity + 8000
}

fn shapes() -> impl Strategy<Value = Shape> {
    let codecs = [
        FrameCodec::Auto,
        FrameCodec::Raw,
        FrameCodec::Lz4,
        FrameCodec::Zstd,
        FrameCodec::Patch,
    ];
    (
        1_usize..4,
        1_usize..5,
        1_usize..400,
        8_usize..300,
        prop::sample::select(codecs.to_vec()),
    )
        .prop_map(
            |(environments, stack, frame_bytes, capacity, codec)| Shape {
                environments,
                stack,
                frame_bytes,
                capacity,
                axis: StackAxis::First,
                codec,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_budget_holds_while_threads_sample(
        shape in shapes(),
        steps in 1_usize..500,
        seed: u64,
        more_bytes in 0_usize..60_000,
        cache_bytes in prop_oneof![Just(0_usize), 1_usize..200_000],
        is_spilled: bool,
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let budget_bytes = least_bytes(&shape) + more_bytes;
        let settings = ReplaySettings {
            max_bytes: Some(budget_bytes),
            cache_bytes,
            spill_folder: is_spilled.then(|| folder.path().to_owned()),
            ..shape.settings()
        };
        let store = ReplayStore::new(settings).expect("valid settings");
        let shared = RwLock::new((Model::default(), store));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (shared, is_over, shape) = (&shared, &is_over, &shape);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(seed ^ thread);
                    while !is_over.load(Ordering::Relaxed) {
                        let (model, store) = &*shared.read().expect("no thread failed");
                        if let Ok(rows) = store.draw_uniform(16, &mut random) {
                            model.compare_rows(store, shape, ONE_STEP, &rows);
                        }
                        assert!(store.heap_bytes() <= budget_bytes);
                    }
                });
            }
            let mut environments: Vec<_> = (0..shape.environments as u64)
                .map(|index| Environment::new(&shape, seed ^ index << 40))
                .collect();
            for _ in 0..steps {
                let Ok(mut locked) = shared.write() else { break };
                let (model, store) = &mut *locked;
                model.step(store, &shape, &mut environments);
                assert!(store.heap_bytes() <= budget_bytes, "{} of {budget_bytes}", store.heap_bytes());
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let (model, store) = shared.into_inner().expect("no thread failed");
        model.compare(&store, &shape, ONE_STEP);
        if is_spilled {
            prop_assert_eq!(store.statistics().dropped_for_memory, 0);
            prop_assert_eq!(store.len(), (steps * shape.environments).min(store.capacity()));
        }
    }
}
