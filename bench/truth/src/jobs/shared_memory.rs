//! Workers that read shared memory which their parent has filled: each page is there already, whoever maps it.

use std::io;

use super::{MIB, fork_child, rest, wait_for};
use crate::region::Region;

const SHARED_BYTES: usize = 160 * MIB;
const OWN_BYTES: usize = 10 * MIB;
const WORKERS: usize = 24;
const EPOCHS: usize = 2;
/// Turns of a loop for each page, as work on its contents would take: a worker is read while it maps.
const WORK_PER_PAGE: u32 = 100;

pub(super) fn perform() -> io::Result<()> {
    let own = Region::anonymous(OWN_BYTES)?;
    (0..own.pages()).for_each(|page| own.write(page, 1));
    let shared = Region::shared_memory(SHARED_BYTES)?;
    (0..shared.pages()).for_each(|page| shared.write(page, 1));
    rest(4000);
    for _ in 0..EPOCHS {
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            workers.push(fork_child(|| {
                (0..shared.pages()).for_each(|page| {
                    shared.read(page);
                    (0..WORK_PER_PAGE).for_each(|turn| {
                        std::hint::black_box(turn);
                    });
                });
                rest(2000);
            })?);
        }
        wait_for(&workers);
        rest(400);
    }
    rest(4000);
    Ok(())
}
