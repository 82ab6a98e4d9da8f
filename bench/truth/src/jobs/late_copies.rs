//! Workers that rewrite what they inherited long after they were forked, each epoch more, and leave soon after.

use std::io;

use super::{MIB, fork_child, rest, wait_for};
use crate::region::Region;

const INHERITED_BYTES: usize = 300 * MIB;
const WORKERS: usize = 6;
/// What each worker of an epoch rewrites.
const REWRITTEN_BYTES: [usize; 4] = [25 * MIB, 25 * MIB, 25 * MIB, 45 * MIB];

pub(super) fn perform() -> io::Result<()> {
    let inherited = Region::anonymous(INHERITED_BYTES)?;
    (0..inherited.pages()).for_each(|page| inherited.write(page, 1));
    rest(2500);
    let share = inherited.pages() / WORKERS;
    for bytes in REWRITTEN_BYTES {
        let rewritten = share * bytes / (INHERITED_BYTES / WORKERS);
        let mut workers = Vec::new();
        for worker in 0..WORKERS {
            workers.push(fork_child(|| {
                rest(2000);
                let first = worker * share;
                (first..first + rewritten).for_each(|page| inherited.write(page, 2));
                rest(600);
            })?);
        }
        wait_for(&workers);
        rest(300);
    }
    rest(2500);
    Ok(())
}
