//! `nilo snapshot summary`.

use nilo_answer::snapshot::summary::{SnapshotSummaryAnswer, SummarizedSnapshot};

use super::file::{about_file, answers_of, read_snapshot};
use super::print::print_answer;
use crate::args::SnapshotSummaryArgs;
use crate::failure::Failure;
use crate::text::snapshot::summary::write_snapshot_summary;

pub(crate) fn run(args: SnapshotSummaryArgs) -> Result<u8, Failure> {
    let range = args.answer.range.range();
    let found = answers_of(&args.files, |path, file| {
        let snapshot = read_snapshot(path)?;
        let summarized = SummarizedSnapshot::of(file, &snapshot, &range, args.stacks);
        summarized.map_err(about_file(path))
    })?;
    let answer = SnapshotSummaryAnswer::new(found.answers);
    print_answer(args.answer.format, &answer, write_snapshot_summary)?;
    Ok(found.status)
}
