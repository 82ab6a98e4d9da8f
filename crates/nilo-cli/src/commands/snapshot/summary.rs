//! `nilo snapshot summary`.

use nilo_answer::snapshot::summary::{SnapshotSummaryAnswer, SummarizedSnapshot};

use super::file::{about_file, read_snapshot};
use crate::args::{SnapshotSummaryArgs, TextOrJson};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::json::write_json;
use crate::text::snapshot::summary::write_snapshot_summary;

pub(crate) fn run(args: SnapshotSummaryArgs) -> Result<u8, Failure> {
    let range = args.range.range();
    let mut snapshots = Vec::new();
    for path in &args.files {
        // One after another: of many ranks only the answers are kept.
        let snapshot = read_snapshot(path)?;
        let file = path.display().to_string();
        let summarized = SummarizedSnapshot::of(file, &snapshot, &range, args.stacks);
        snapshots.push(summarized.map_err(about_file(path))?);
    }
    let answer = SnapshotSummaryAnswer::new(snapshots);
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => write_json(&mut out, &answer)?,
        TextOrJson::Text => write_snapshot_summary(&mut out, Screen::stdout(), &answer)?,
    }
    Ok(0)
}
