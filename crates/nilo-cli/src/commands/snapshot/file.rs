//! The file of a snapshot: mapped, not copied, and read without running anything in it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nilo_allocator::{GpuSnapshot, PickleError, ReadOptions, SnapshotError};
use nilo_answer::snapshot::problem::SnapshotProblem;
use nilo_answer::snapshot::trace_place::chosen_device;

use crate::args::SnapshotGpu;
use crate::failure::Failure;

/// Reads a snapshot.
pub(crate) fn read_snapshot(path: &Path) -> Result<GpuSnapshot, Failure> {
    let about = |error: std::io::Error| {
        Failure::new(format!("cannot read {}: {error}", path.display()))
            .hint("name a file that torch.cuda.memory._dump_snapshot wrote")
    };
    let mut file = File::open(path).map_err(about)?;
    let metadata = file.metadata().map_err(about)?;
    if metadata.is_dir() {
        return Err(about(std::io::ErrorKind::IsADirectory.into()));
    }
    if metadata.is_file() && metadata.len() == 0 {
        return Err(Failure::new(format!("{} is empty", path.display()))
            .hint("the program may have been killed while it was written, or the disk was full"));
    }
    let options = ReadOptions::default();
    let read = if metadata.is_file() {
        // SAFETY: the map is only read, and dropped before this returns. A file that another program cuts off in between
        // ends us with SIGBUS, as it would any program that maps files; snapshots are written once.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(about)?;
        GpuSnapshot::read(&map, &options)
    } else {
        // A pipe, as in `<(ssh node cat snapshot.pickle)`.
        let mut bytes = Vec::new();
        let mut bounded = (&mut file).take(options.max_decompressed_bytes);
        bounded.read_to_end(&mut bytes).map_err(about)?;
        GpuSnapshot::read(&bytes, &options)
    };
    read.map_err(|error| {
        let hint = hint(&error);
        Failure::new(format!("{}: {error}", path.display())).hint(hint)
    })
}

/// Reads a snapshot, and finds the device in it to answer for.
pub(crate) fn read_device(path: &Path, gpu: SnapshotGpu) -> Result<(GpuSnapshot, usize), Failure> {
    let snapshot = read_snapshot(path)?;
    let device = chosen_device(&snapshot, gpu.device).map_err(about_file(path))?;
    Ok((snapshot, device))
}

/// Says of which file a question cannot be answered.
pub(crate) fn about_file(path: &Path) -> impl FnOnce(SnapshotProblem) -> Failure + '_ {
    move |problem| {
        let hint = problem.hint();
        Failure::new(format!("{}: {problem}", path.display())).hint(hint)
    }
}

fn hint(error: &SnapshotError) -> &'static str {
    match error {
        SnapshotError::Pickle(PickleError::Truncated { .. }) => {
            "the file is incomplete: the program may have been killed while it was written, or the disk was full"
        }
        SnapshotError::Pickle(PickleError::RunsCode { .. }) => {
            "nothing was run; do not open this file with pickle.load, and ask where it comes from"
        }
        SnapshotError::Compression { .. } => "the file is damaged or incomplete; copy it again",
        SnapshotError::TooLarge { .. } => {
            "decompress it first, if it is a snapshot; uncompressed files may have any size"
        }
        SnapshotError::Pickle(_) | SnapshotError::NotASnapshot { .. } => {
            "name a file that torch.cuda.memory._dump_snapshot wrote"
        }
    }
}
