//! `nilo snapshot diff`.

use std::path::Path;

use nilo_answer::snapshot::diff::{ComparedSnapshot, SnapshotDiffAnswer};

use super::file::{about_file, read_device};
use super::print::print_answer;
use crate::args::SnapshotDiffArgs;
use crate::failure::Failure;
use crate::text::snapshot::diff::write_snapshot_diff;

pub(crate) fn run(args: SnapshotDiffArgs) -> Result<u8, Failure> {
    let range = args.answer.range.range();
    let compared = |path: &Path| -> Result<ComparedSnapshot, Failure> {
        let (snapshot, device) = read_device(path, args.gpu)?;
        let file = path.display().to_string();
        ComparedSnapshot::of(file, &snapshot, device, &range).map_err(about_file(path))
    };
    let (before, after) = (compared(&args.before)?, compared(&args.after)?);
    let answer = SnapshotDiffAnswer::of(before, after, args.stacks);
    print_answer(args.answer.format, &answer, write_snapshot_diff)?;
    Ok(0)
}
