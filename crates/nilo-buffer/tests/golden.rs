//! Files of format version 1 stay readable: one was written when the version was made, and says what it said then.

mod model;

use std::path::{Path, PathBuf};

use model::{Environment, Model, Shape};
use nilo_buffer::{FrameCodec, LoadOptions, ReplaySettings, ReplayStore, Returns, StackAxis};

const SHAPE: Shape = Shape {
    environments: 2,
    stack: 3,
    frame_bytes: 40,
    capacity: 120,
    axis: StackAxis::Last,
    codec: FrameCodec::Patch,
};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/buffer-v1")
}

/// What the file was made of; the environments draw the same with every version of this test.
fn made() -> (Model, ReplayStore) {
    let settings = ReplaySettings {
        priority_exponent: Some(0.6),
        ..SHAPE.settings()
    };
    let mut store = ReplayStore::new(settings).expect("valid settings");
    let mut model = Model::default();
    let mut environments = [Environment::new(&SHAPE, 1), Environment::new(&SHAPE, 2)];
    for _ in 0..90 {
        model.step(&mut store, &SHAPE, &mut environments);
    }
    store
        .set_priorities(&[100, 101], &[3.0, 0.5])
        .expect("positive");
    (model, store)
}

#[test]
fn a_file_of_version_1_is_read() {
    let (model, store) = made();
    if std::env::var_os("WRITE_GOLDEN_FILE").is_some() {
        store.save(&path(), "version 1").expect("saves");
    }
    let (loaded, note) = ReplayStore::load(&path(), &LoadOptions::default()).expect("a whole file");
    assert_eq!(note, "version 1");
    model.compare(
        &loaded,
        &SHAPE,
        Returns {
            steps: 1,
            gamma: 1.0,
        },
    );
    let draw = |store: &ReplayStore| {
        store
            .draw_prioritized(50, 0.4, &mut fastrand::Rng::with_seed(1))
            .expect("not empty")
    };
    assert_eq!(draw(&loaded), draw(&store));
}
