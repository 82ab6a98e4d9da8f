//! `nilo snapshot leaks`.

use nilo_answer::snapshot::leaks::SnapshotLeaksAnswer;

use super::file::{about_file, read_device};
use super::print::print_answer;
use crate::args::SnapshotLeaksArgs;
use crate::failure::{Failure, verdict_status};
use crate::text::snapshot::leaks::write_snapshot_leaks;

pub(crate) fn run(args: SnapshotLeaksArgs) -> Result<u8, Failure> {
    let path = &args.input.file;
    let (snapshot, device) = read_device(path, args.input.gpu)?;
    let file = path.display().to_string();
    let range = args.answer.range.range();
    let answer = SnapshotLeaksAnswer::of(file, &snapshot, device, &range, args.stacks)
        .map_err(about_file(path))?;
    let written = print_answer(args.answer.format, &answer, write_snapshot_leaks);
    verdict_status(answer.exit_status(), written)
}
