//! A DataLoader's shape: a parent that holds the dataset forks workers for each epoch, and they leave again.

use std::io;

use super::{MIB, fork_child, rest, wait_for};
use crate::region::Region;

const DATASET_BYTES: usize = 400 * MIB;
const WORKER_BYTES: usize = 10 * MIB;
const WORKERS: usize = 6;
const EPOCHS: usize = 3;

pub(super) fn perform() -> io::Result<()> {
    let dataset = Region::anonymous(DATASET_BYTES)?;
    (0..dataset.pages()).for_each(|page| dataset.write(page, 1));
    rest(1500);
    for _ in 0..EPOCHS {
        let mut workers = Vec::new();
        for worker in 0..WORKERS {
            workers.push(fork_child(|| {
                let Ok(batch) = Region::anonymous(WORKER_BYTES) else {
                    return;
                };
                (0..batch.pages()).for_each(|page| batch.write(page, 1));
                (0..dataset.pages()).for_each(|page| {
                    dataset.read(page);
                });
                // They leave one after the other, as workers do whose data runs out.
                rest(4000 + 30 * worker as u64);
            })?);
        }
        wait_for(&workers);
        rest(2000);
    }
    Ok(())
}
