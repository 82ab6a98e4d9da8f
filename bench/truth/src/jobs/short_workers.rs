//! Workers that live for a few samples only: each rewrites part of what it inherited, and leaves.

use std::io;

use super::{MIB, fork_child, rest, wait_for};
use crate::region::Region;

const INHERITED_BYTES: usize = 300 * MIB;
const REWRITTEN_BYTES: usize = 30 * MIB;
const WORKERS: usize = 6;
const EPOCHS: usize = 25;
/// How long the workers of an epoch live: one to three samples.
const LIVES_MILLIS: [u64; 4] = [200, 120, 150, 250];

pub(super) fn perform() -> io::Result<()> {
    let inherited = Region::anonymous(INHERITED_BYTES)?;
    (0..inherited.pages()).for_each(|page| inherited.write(page, 1));
    let rewritten = inherited.pages() / (INHERITED_BYTES / REWRITTEN_BYTES);
    rest(2500);
    for epoch in 0..EPOCHS {
        let mut workers = Vec::new();
        for worker in 0..WORKERS {
            workers.push(fork_child(|| {
                let first = worker * rewritten;
                (first..first + rewritten).for_each(|page| inherited.write(page, 2));
                rest(LIVES_MILLIS[epoch % LIVES_MILLIS.len()]);
            })?);
        }
        wait_for(&workers);
        rest(150);
    }
    rest(2500);
    Ok(())
}
