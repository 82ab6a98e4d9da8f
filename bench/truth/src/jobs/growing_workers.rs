//! Many workers of a parent in huge pages, each of which takes a little memory of its own in small ones.

use std::io;

use super::{MIB, fork_child, rest, wait_for};
use crate::region::Region;

const INHERITED_BYTES: usize = 100 * MIB;
const OWN_BYTES: usize = MIB;
const WORKERS: usize = 300;

pub(super) fn perform() -> io::Result<()> {
    let inherited = Region::huge(INHERITED_BYTES)?;
    (0..inherited.pages()).for_each(|page| inherited.write(page, 1));
    rest(2500);
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(fork_child(|| {
            let Ok(own) = Region::anonymous(OWN_BYTES) else {
                return;
            };
            (0..own.pages()).for_each(|page| own.write(page, 1));
            rest(5000);
        })?);
    }
    wait_for(&workers);
    rest(2500);
    Ok(())
}
