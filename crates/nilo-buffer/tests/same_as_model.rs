//! What is read back is what was added: whatever the layout, the codec, the budget, and after saving and loading.

mod model;

use model::{Environment, Model, Shape};
use nilo_buffer::{FrameCodec, LoadOptions, ReplaySettings, ReplayStore, Returns, StackAxis};
use proptest::prelude::*;

const ONE_STEP: Returns = Returns {
    steps: 1,
    gamma: 0.99,
};

fn shapes() -> impl Strategy<Value = Shape> {
    let codecs = vec![
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
        any::<bool>(),
        prop::sample::select(codecs),
    )
        .prop_map(
            |(environments, stack, frame_bytes, capacity, is_first, codec)| Shape {
                environments,
                stack,
                frame_bytes,
                capacity,
                axis: if is_first {
                    StackAxis::First
                } else {
                    StackAxis::Last
                },
                codec,
            },
        )
}

fn run(
    shape: &Shape,
    settings: ReplaySettings,
    steps: usize,
    seed: u64,
    returns: Returns,
) -> (Model, ReplayStore) {
    let mut store = ReplayStore::new(settings).expect("valid settings");
    let mut model = Model::default();
    let mut environments: Vec<_> = (0..shape.environments as u64)
        .map(|index| Environment::new(shape, seed ^ index << 40))
        .collect();
    for step in 0..steps {
        model.step(&mut store, shape, &mut environments);
        if step % 97 == 3 {
            model.compare(&store, shape, returns);
        }
    }
    model.compare(&store, shape, returns);
    (model, store)
}

fn saved(store: &ReplayStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.write(&mut bytes, "a note").expect("writes to memory");
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_read_is_what_was_added(shape in shapes(), steps in 1_usize..600, seed: u64) {
        let (_, store) = run(&shape, shape.settings(), steps, seed, ONE_STEP);
        prop_assert_eq!(store.len(), (steps * shape.environments).min(store.capacity()));
    }

    #[test]
    fn returns_end_with_the_episode(shape in shapes(), steps in 1_usize..200, seed: u64, length in 2_usize..6) {
        run(&shape, shape.settings(), steps, seed, Returns { steps: length, gamma: 0.9 });
    }

    #[test]
    fn a_budget_drops_the_oldest_alone(shape in shapes(), steps in 1_usize..400, seed: u64, budget_bytes in 0_usize..60_000) {
        let settings = ReplaySettings { max_bytes: Some(budget_bytes), ..shape.settings() };
        let (_, store) = run(&shape, settings, steps, seed, ONE_STEP);
        prop_assert!(store.len() >= shape.environments);
    }

    #[test]
    fn what_is_on_disk_is_read_too(shape in shapes(), steps in 1_usize..400, seed: u64, budget_bytes in 0_usize..60_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = ReplaySettings {
            max_bytes: Some(budget_bytes),
            spill_folder: Some(folder.path().to_owned()),
            ..shape.settings()
        };
        run(&shape, settings, steps, seed, ONE_STEP);
    }

    #[test]
    fn a_loaded_buffer_goes_on_as_if_it_had_never_been_saved(shape in shapes(), steps in 1_usize..300, seed: u64) {
        let (mut model, store) = run(&shape, shape.settings(), steps, seed, ONE_STEP);
        let bytes = saved(&store);
        let (mut loaded, note) = ReplayStore::read_from(&bytes[..], bytes.len() as u64, &LoadOptions::default())
            .expect("a whole file");
        prop_assert_eq!(note, "a note");
        model.compare(&loaded, &shape, ONE_STEP);
        let mut environments: Vec<_> = (0..shape.environments as u64).map(|index| Environment::new(&shape, seed ^ index)).collect();
        for _ in 0..40 {
            model.step(&mut loaded, &shape, &mut environments);
        }
        model.compare(&loaded, &shape, ONE_STEP);
    }

    #[test]
    fn a_damaged_file_is_refused(steps in 1_usize..60, seed: u64, place: prop::sample::Index, change in 1_u8..) {
        let shape = Shape { environments: 1, stack: 2, frame_bytes: 30, capacity: 50, axis: StackAxis::First, codec: FrameCodec::Auto };
        let (_, store) = run(&shape, shape.settings(), steps, seed, ONE_STEP);
        let mut bytes = saved(&store);
        let place = place.index(bytes.len());
        let cut = ReplayStore::read_from(&bytes[..place], place as u64, &LoadOptions::default());
        prop_assert!(cut.is_err());
        bytes[place] ^= change;
        let damaged = ReplayStore::read_from(&bytes[..], bytes.len() as u64, &LoadOptions::default());
        prop_assert!(damaged.is_err(), "byte {} of {} changed", place, bytes.len());
    }
}
