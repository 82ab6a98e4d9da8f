//! `nilo snapshot why`.

use nilo_answer::snapshot::why::SnapshotWhyAnswer;

use super::file::{about_file, read_snapshot};
use crate::args::{SnapshotWhyArgs, TextOrJson};
use crate::failure::{Failure, verdict_status};
use crate::screen::Screen;
use crate::text::json::write_json;
use crate::text::snapshot::why::write_snapshot_why;

pub(crate) fn run(args: SnapshotWhyArgs) -> Result<u8, Failure> {
    let snapshot = read_snapshot(&args.file)?;
    let file = args.file.display().to_string();
    let range = args.range.range();
    let answer = SnapshotWhyAnswer::of(file, &snapshot, &range, args.last, args.stacks)
        .map_err(about_file(&args.file))?;
    let mut out = std::io::stdout().lock();
    let written = match args.format {
        TextOrJson::Json => write_json(&mut out, &answer),
        TextOrJson::Text => write_snapshot_why(&mut out, Screen::stdout(), &answer),
    };
    verdict_status(answer.exit_status(), written)
}
