//! `nilo snapshot`: GPU memory snapshots of PyTorch explained.

mod diff;
mod file;
mod flame;
mod html;
mod leaks;
mod print;
mod summary;
mod whatif;
mod why;

use crate::args::{SnapshotArgs, SnapshotVerb};
use crate::failure::Failure;

pub(crate) fn run(args: SnapshotArgs) -> Result<u8, Failure> {
    match args.verb {
        SnapshotVerb::Summary(args) => summary::run(args),
        SnapshotVerb::Why(args) => why::run(args),
        SnapshotVerb::Whatif(args) => whatif::run(args),
        SnapshotVerb::Leaks(args) => leaks::run(args),
        SnapshotVerb::Diff(args) => diff::run(args),
        SnapshotVerb::Flame(args) => flame::run(args),
        SnapshotVerb::Html(args) => html::run(args),
    }
}
