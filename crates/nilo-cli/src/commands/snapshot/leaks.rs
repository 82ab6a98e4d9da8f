//! `nilo snapshot leaks`.

use nilo_answer::snapshot::leaks::SnapshotLeaksAnswer;
use nilo_answer::snapshot::trace_place::chosen_device;

use super::file::{about_file, read_snapshot};
use super::print::print_answer;
use crate::args::SnapshotLeaksArgs;
use crate::failure::{Failure, verdict_status};
use crate::text::snapshot::leaks::write_snapshot_leaks;

pub(crate) fn run(args: SnapshotLeaksArgs) -> Result<u8, Failure> {
    let path = &args.input.file;
    let snapshot = read_snapshot(path)?;
    let device = chosen_device(&snapshot, args.input.gpu.device).map_err(about_file(path))?;
    let file = path.display().to_string();
    let range = args.range.range();
    let answer = SnapshotLeaksAnswer::of(file, &snapshot, device, &range, args.stacks)
        .map_err(about_file(path))?;
    let written = print_answer(args.format, &answer, write_snapshot_leaks);
    verdict_status(answer.exit_status(), written)
}
