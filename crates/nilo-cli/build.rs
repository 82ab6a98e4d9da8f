//! Does nothing: Cargo considers build-dependencies only of packages with a build script. Cargo.toml says what they are for.

#![allow(clippy::print_stdout)]

fn main() {
    // Without a line Cargo would run it again for every changed file, snapshots of tests included.
    println!("cargo::rerun-if-changed=build.rs");
}
