//! `nilo snapshot summary`.

use nilo_answer::snapshot::summary::{SnapshotSummaryAnswer, SummarizedSnapshot};

use super::file::{about_file, read_snapshot};
use super::print::print_answer;
use crate::args::SnapshotSummaryArgs;
use crate::failure::Failure;
use crate::text::snapshot::summary::write_snapshot_summary;

pub(crate) fn run(args: SnapshotSummaryArgs) -> Result<u8, Failure> {
    let range = args.answer.range.range();
    let mut snapshots = Vec::new();
    for path in &args.files {
        // One after another: of many ranks only the answers are kept.
        let snapshot = read_snapshot(path)?;
        let file = path.display().to_string();
        let summarized = SummarizedSnapshot::of(file, &snapshot, &range, args.stacks);
        snapshots.push(summarized.map_err(about_file(path))?);
    }
    let answer = SnapshotSummaryAnswer::new(snapshots);
    print_answer(args.answer.format, &answer, write_snapshot_summary)?;
    Ok(0)
}
