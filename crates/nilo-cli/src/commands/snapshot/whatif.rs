//! `nilo snapshot whatif`.

use nilo_answer::snapshot::whatif::SnapshotWhatIfAnswer;

use super::file::read_device;
use super::print::print_answer;
use crate::args::SnapshotWhatIfArgs;
use crate::failure::{Failure, warn};
use crate::text::snapshot::whatif::write_snapshot_whatif;

pub(crate) fn run(args: SnapshotWhatIfArgs) -> Result<u8, Failure> {
    let path = &args.input.file;
    let (snapshot, device) = read_device(path, args.input.gpu)?;
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
