//! `nilo snapshot why`.

use nilo_answer::snapshot::why::SnapshotWhyAnswer;

use super::file::{about_file, answers_of, read_snapshot};
use super::print::print_each;
use crate::args::SnapshotWhyArgs;
use crate::failure::{Failure, verdict_status};
use crate::text::snapshot::why::write_snapshot_why;

pub(crate) fn run(args: SnapshotWhyArgs) -> Result<u8, Failure> {
    let range = args.answer.range.range();
    let found = answers_of(&args.files, |path, file| {
        let snapshot = read_snapshot(path)?;
        let answer = SnapshotWhyAnswer::of(file, &snapshot, &range, args.last, args.stacks);
        answer.map_err(about_file(path))
    })?;
    let verdicts = found.answers.iter().map(SnapshotWhyAnswer::exit_status);
    let status = verdicts.max().unwrap_or(0).max(found.status);
    let written = print_each(
        &args.answer,
        &args.files,
        &found.answers,
        write_snapshot_why,
    );
    verdict_status(status, written)
}
