//! Many forked processes, each of which writes some of what it inherited.

use std::io;

use super::{MIB, fork_child, rest, wait_for};
use crate::region::Region;

const INHERITED_BYTES: usize = 12 * MIB;
/// Written by each child, so copied for it: about what an interpreter touches after a fork.
const WRITTEN_PAGES: usize = 160;

pub(super) fn perform(count: u32) -> io::Result<()> {
    let inherited = Region::anonymous(INHERITED_BYTES)?;
    (0..inherited.pages()).for_each(|page| inherited.write(page, 1));
    rest(1500);
    let mut children = Vec::new();
    for child in 0..count as usize {
        children.push(fork_child(|| {
            for page in 0..WRITTEN_PAGES {
                inherited.write((child * 7 + page * 3) % inherited.pages(), 2);
            }
            rest(12_000);
        })?);
    }
    wait_for(&children);
    rest(2500);
    Ok(())
}
