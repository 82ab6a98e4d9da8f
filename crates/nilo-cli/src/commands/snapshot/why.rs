//! `nilo snapshot why`.

use nilo_answer::snapshot::why::SnapshotWhyAnswer;

use super::file::{about_file, read_snapshot};
use super::print::print_answer;
use crate::args::SnapshotWhyArgs;
use crate::failure::{Failure, verdict_status};
use crate::text::snapshot::why::write_snapshot_why;

pub(crate) fn run(args: SnapshotWhyArgs) -> Result<u8, Failure> {
    let snapshot = read_snapshot(&args.file)?;
    let file = args.file.display().to_string();
    let range = args.answer.range.range();
    let answer = SnapshotWhyAnswer::of(file, &snapshot, &range, args.last, args.stacks)
        .map_err(about_file(&args.file))?;
    let written = print_answer(args.answer.format, &answer, write_snapshot_why);
    verdict_status(answer.exit_status(), written)
}
