//! `nilo snapshot whatif`.

use nilo_answer::snapshot::trace_place::chosen_device;
use nilo_answer::snapshot::whatif::SnapshotWhatIfAnswer;

use super::file::{about_file, read_snapshot};
use super::print::print_answer;
use crate::args::SnapshotWhatIfArgs;
use crate::failure::{Failure, warn};
use crate::text::snapshot::whatif::write_snapshot_whatif;

pub(crate) fn run(args: SnapshotWhatIfArgs) -> Result<u8, Failure> {
    let path = &args.input.file;
    let snapshot = read_snapshot(path)?;
    let device = chosen_device(&snapshot, args.input.gpu.device).map_err(about_file(path))?;
    let change = args.change();
    let file = path.display().to_string();
    let answer = SnapshotWhatIfAnswer::of(file, &snapshot, device, &change, args.limit);
    if change.garbage_collection_threshold.is_some() && answer.limit_bytes.is_none() {
        warn(
            "garbage_collection_threshold is a part of a limit, and the snapshot shows none: it has no effect in the replay; name one with --limit",
        );
    }
    print_answer(args.format, &answer, write_snapshot_whatif)?;
    Ok(0)
}
