//! `nilo snapshot leaks`.

use nilo_answer::snapshot::leaks::SnapshotLeaksAnswer;

use super::file::{about_file, answers_of, read_device};
use super::print::print_each;
use crate::args::SnapshotLeaksArgs;
use crate::failure::{Failure, verdict_status};
use crate::text::snapshot::leaks::write_snapshot_leaks;

pub(crate) fn run(args: SnapshotLeaksArgs) -> Result<u8, Failure> {
    let range = args.answer.range.range();
    let found = answers_of(&args.files, |path, file| {
        let (snapshot, device) = read_device(path, args.gpu)?;
        let answer = SnapshotLeaksAnswer::of(file, &snapshot, device, &range, args.stacks);
        answer.map_err(about_file(path))
    })?;
    let verdicts = found.answers.iter().map(SnapshotLeaksAnswer::exit_status);
    let status = verdicts.max().unwrap_or(0).max(found.status);
    let written = print_each(
        &args.answer,
        &args.files,
        &found.answers,
        write_snapshot_leaks,
    );
    verdict_status(status, written)
}
