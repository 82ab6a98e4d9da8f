//! `nilo snapshot leaks`.

use nilo_answer::snapshot::leaks::SnapshotLeaksAnswer;
use nilo_answer::snapshot::trace_place::chosen_device;

use super::file::{about_file, read_snapshot};
use crate::args::{SnapshotLeaksArgs, TextOrJson};
use crate::failure::{Failure, verdict_status};
use crate::screen::Screen;
use crate::text::json::write_json;
use crate::text::snapshot::leaks::write_snapshot_leaks;

pub(crate) fn run(args: SnapshotLeaksArgs) -> Result<u8, Failure> {
    let path = &args.input.file;
    let snapshot = read_snapshot(path)?;
    let device = chosen_device(&snapshot, args.input.gpu.device).map_err(about_file(path))?;
    let file = path.display().to_string();
    let range = args.range.range();
    let answer = SnapshotLeaksAnswer::of(file, &snapshot, device, &range, args.stacks)
        .map_err(about_file(path))?;
    let mut out = std::io::stdout().lock();
    let written = match args.format {
        TextOrJson::Json => write_json(&mut out, &answer),
        TextOrJson::Text => write_snapshot_leaks(&mut out, Screen::stdout(), &answer),
    };
    verdict_status(answer.exit_status(), written)
}
