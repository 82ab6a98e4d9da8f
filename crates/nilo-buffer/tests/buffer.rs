//! Known answers of the whole buffer: what is stored once, what sampling draws, what statistics say, how files are replaced.

mod model;

use model::{Environment, Model, Shape, read};
use nilo_buffer::{
    BufferError, ColumnSettings, ElementKind, FrameCodec, LoadOptions, ObservationSettings,
    ReplaySettings, ReplayStore, Returns, StackAxis, Step,
};

const ONE_STEP: Returns = Returns {
    steps: 1,
    gamma: 0.99,
};

fn shape(stack: usize, frame_bytes: usize, capacity: usize) -> Shape {
    Shape {
        environments: 1,
        stack,
        frame_bytes,
        capacity,
        axis: StackAxis::First,
        codec: FrameCodec::Auto,
    }
}

fn filled(shape: &Shape, settings: ReplaySettings, steps: usize) -> (Model, ReplayStore) {
    let mut store = ReplayStore::new(settings).expect("valid settings");
    let mut model = Model::default();
    let mut environments = [Environment::new(shape, 7)];
    for _ in 0..steps {
        model.step(&mut store, shape, &mut environments);
    }
    (model, store)
}

/// Vectors of 17 `float32` and actions of 6, as HalfCheetah has them: episodes of 100 random steps.
fn vectors(settings: ReplaySettings, steps: usize) -> ReplayStore {
    let mut store = ReplayStore::new(settings).expect("valid settings");
    let mut random = fastrand::Rng::with_seed(2);
    let mut draw = |count: usize| -> Vec<u8> {
        (0..count)
            .flat_map(|_| random.f32().to_le_bytes())
            .collect()
    };
    let mut now = draw(17);
    for step in 0..steps {
        let next = draw(17);
        let is_over = step % 100 == 99;
        store
            .add(Step {
                observations: &[(&now, &next)],
                columns: &[&draw(6)],
                rewards: &[0.37 + step as f32],
                terminated: &[is_over],
                truncated: &[false],
            })
            .expect("sizes fit");
        now = if is_over { draw(17) } else { next };
    }
    store
}

fn vector_settings(capacity: usize) -> ReplaySettings {
    ReplaySettings {
        observations: vec![ObservationSettings {
            name: "observation".to_owned(),
            kind: ElementKind::F32,
            shape: vec![17],
            stack: 1,
            stack_axis: StackAxis::First,
            codec: FrameCodec::Auto,
        }],
        columns: vec![ColumnSettings {
            name: "action".to_owned(),
            kind: ElementKind::F32,
            shape: vec![6],
        }],
        ..shape(1, 1, capacity).settings()
    }
}

#[test]
fn random_vectors_take_two_fifths_less_than_arrays() {
    let store = vectors(vector_settings(100_000), 100_000);
    let statistics = store.statistics();
    assert_eq!(statistics.raw_bytes, 172 * 100_000);
    let share = statistics.memory_bytes as f64 / statistics.raw_bytes as f64;
    assert!(share <= 0.6, "{share}");
}

#[test]
fn a_frame_of_a_stack_is_stored_once() {
    let shape = shape(4, 1000, 10_000);
    let (_, store) = filled(&shape, shape.settings(), 2000);
    let frames = store.statistics().frames;
    // Resets bring up to four new frames, and the drawn environments reset once in six steps.
    assert!((2000..4000).contains(&frames), "{frames}");
}

#[test]
fn statistics_name_the_codec_of_each_column() {
    let shape = shape(4, 1000, 10_000);
    let (_, store) = filled(&shape, shape.settings(), 9000);
    let statistics = store.statistics();
    let codec = |name: &str| {
        statistics
            .columns
            .iter()
            .find(|column| column.name == name)
            .map(|column| column.codec.as_str())
    };
    assert_eq!(codec("observation"), Some("lz4"));
    assert_eq!(codec("reward"), Some("raw"));
    assert_eq!(codec("action"), Some("raw"));
    assert_eq!(
        statistics
            .columns
            .iter()
            .map(|column| column.raw_bytes)
            .sum::<usize>(),
        statistics.raw_bytes
    );
    assert!(
        statistics.memory_bytes * 5 < statistics.raw_bytes,
        "{statistics:?}"
    );
}

#[test]
fn a_budget_keeps_the_memory_below_it() {
    let shape = Shape {
        codec: FrameCodec::Raw,
        ..shape(1, 5000, 100_000)
    };
    let budget_bytes = 4 << 20;
    let settings = ReplaySettings {
        max_bytes: Some(budget_bytes),
        compress_cold_rows: false,
        ..shape.settings()
    };
    let (model, store) = filled(&shape, settings, 3000);
    let statistics = store.statistics();
    assert!(
        statistics.memory_bytes <= budget_bytes,
        "{}",
        statistics.memory_bytes
    );
    assert!(
        statistics.dropped_for_memory > 0 && store.len() > 300,
        "{statistics:?}"
    );
    model.compare(&store, &shape, ONE_STEP);
}

#[test]
fn a_spill_folder_keeps_every_transition() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = ReplaySettings {
        max_bytes: Some(2 << 20),
        spill_folder: Some(folder.path().to_owned()),
        ..vector_settings(100_000)
    };
    let store = vectors(settings, 60_000);
    let statistics = store.statistics();
    assert_eq!(store.len(), 60_000);
    assert!(statistics.disk_bytes > 2 << 20, "{statistics:?}");
    assert!(statistics.memory_bytes <= 2 << 20, "{statistics:?}");
}

#[test]
fn rows_that_compress_are_compressed_before_anything_leaves() {
    let shape = Shape {
        codec: FrameCodec::Raw,
        ..shape(1, 200, 3000)
    };
    let settings = ReplaySettings {
        max_bytes: Some(350_000),
        cache_bytes: 150_000,
        ..shape.settings()
    };
    let mut store = ReplayStore::new(settings).expect("valid settings");
    let mut now = vec![0; 200];
    for step in 0..2000_u32 {
        let mut next = vec![0; 200];
        next[..4].copy_from_slice(&step.to_le_bytes());
        store
            .add(Step {
                observations: &[(&now, &next)],
                columns: &[&[0; 16]],
                rewards: &[1.0],
                terminated: &[false],
                truncated: &[false],
            })
            .expect("sizes fit");
        now = next;
    }
    assert_eq!(store.len(), 2000);
    let rows: Vec<u64> = (1..2000).collect();
    let batch = read(&store, &rows, ONE_STEP);
    for (row, observation) in rows.iter().zip(batch.observations.chunks_exact(200)) {
        assert_eq!(observation[..4], (*row as u32 - 1).to_le_bytes());
    }
    let cache = store.statistics().cache;
    assert!(cache.hits > 0, "{cache:?}");
    assert_eq!(store.statistics().dropped_for_memory, 0);
}

#[test]
fn priorities_decide_how_often_a_transition_is_drawn() {
    let shape = shape(1, 3, 100);
    let settings = ReplaySettings {
        priority_exponent: Some(1.0),
        ..shape.settings()
    };
    let (_, mut store) = filled(&shape, settings, 250);
    let rows: Vec<u64> = store.rows().collect();
    assert_eq!(rows, (150..250).collect::<Vec<_>>());
    let priorities: Vec<f32> = rows
        .iter()
        .map(|row| if *row < 160 { 9.0 } else { 1.0 })
        .collect();
    store.set_priorities(&rows, &priorities).expect("positive");
    let (drawn, weights) = store
        .draw_prioritized(1800, 1.0, &mut fastrand::Rng::with_seed(1))
        .expect("not empty");
    let often = drawn.iter().filter(|row| **row < 160).count();
    assert!((880..=920).contains(&often), "{often}");
    for (row, weight) in drawn.iter().zip(weights) {
        let expected = if *row < 160 { 1.0 / 9.0 } else { 1.0 };
        assert!((weight - expected).abs() < 1e-6);
    }
    assert!(matches!(
        store.set_priorities(&[200], &[0.0]),
        Err(BufferError::Priority(_))
    ));
    assert!(
        store.set_priorities(&[3, 1_000_000], &[1.0, 1.0]).is_ok(),
        "those that have left are passed over"
    );
}

#[test]
fn priorities_survive_saving() {
    let shape = shape(1, 3, 100);
    let settings = ReplaySettings {
        priority_exponent: Some(0.5),
        ..shape.settings()
    };
    let (_, mut store) = filled(&shape, settings, 150);
    store.set_priorities(&[100], &[1e6]).expect("positive");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("buffer");
    store.save(&path, "").expect("saves");
    let (loaded, _) = ReplayStore::load(&path, &LoadOptions::default()).expect("loads");
    let draw = |store: &ReplayStore| {
        store
            .draw_prioritized(50, 0.4, &mut fastrand::Rng::with_seed(1))
            .expect("not empty")
    };
    assert_eq!(draw(&loaded), draw(&store));
}

#[test]
fn a_saved_file_may_be_read_by_whom_the_umask_says() {
    use std::os::unix::fs::PermissionsExt;
    let shape = shape(1, 3, 100);
    let (_, store) = filled(&shape, shape.settings(), 10);
    let folder = tempfile::tempdir().expect("a folder");
    let (saved, plain) = (folder.path().join("buffer"), folder.path().join("plain"));
    store.save(&saved, "").expect("saves");
    std::fs::write(&plain, "").expect("writes");
    let mode = |path| {
        std::fs::metadata(path)
            .expect("is there")
            .permissions()
            .mode()
    };
    assert_eq!(mode(&saved), mode(&plain));
}

#[test]
fn a_failed_save_leaves_the_old_file_and_no_other() {
    let shape = shape(1, 3, 100);
    let (_, store) = filled(&shape, shape.settings(), 10);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("buffer");
    store.save(&path, "first").expect("saves");
    store.save(&path, "second").expect("replaces");
    assert_eq!(
        ReplayStore::load(&path, &LoadOptions::default())
            .expect("loads")
            .1,
        "second"
    );
    let nowhere = folder.path().join("missing/buffer");
    assert!(matches!(
        store.save(&nowhere, ""),
        Err(BufferError::Io { .. })
    ));
    assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 1);
}

#[test]
fn wrong_sizes_and_unknown_rows_are_refused() {
    let shape = shape(2, 4, 100);
    let mut store = ReplayStore::new(shape.settings()).expect("valid settings");
    assert!(matches!(
        store.draw_uniform(4, &mut fastrand::Rng::with_seed(1)),
        Err(BufferError::Empty)
    ));
    let refused = store.add(Step {
        observations: &[(&[0; 8], &[0; 7])],
        columns: &[&[0; 16]],
        rewards: &[0.0],
        terminated: &[false],
        truncated: &[false],
    });
    assert_eq!(
        refused.expect_err("too short").to_string(),
        "next observation has 7 bytes; 8 are expected"
    );
    assert!(store.is_empty());
    let none = ReplaySettings {
        capacity: 0,
        ..shape.settings()
    };
    assert!(matches!(
        ReplayStore::new(none),
        Err(BufferError::Setting(_))
    ));
}
