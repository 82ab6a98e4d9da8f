//! The file of a snapshot: mapped, not copied, and read without running anything in it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

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
        let max_bytes = options.max_decompressed_bytes;
        let mut bytes = Vec::new();
        let mut bounded = (&mut file).take(max_bytes.saturating_add(1));
        bounded.read_to_end(&mut bytes).map_err(about)?;
        match bytes.len() as u64 > max_bytes {
            true => {
                let sentence = format!("{} has more than {max_bytes} bytes", path.display());
                return Err(Failure::new(sentence)
                    .hint("write it to a file first; files may have any size"));
            }
            false => GpuSnapshot::read(&bytes, &options),
        }
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

/// What was answered for several files.
pub(crate) struct FileAnswers<T> {
    pub(crate) answers: Vec<T>,
    /// 0, or the status of what went wrong with the others.
    pub(crate) status: u8,
}

/// Answers for one file after another: of many ranks only the answers are kept.
/// A rank that was killed leaves half a file: that is told, and the others are answered for. Where there is no answer at all, that is the failure.
pub(crate) fn answers_of<T>(
    paths: &[PathBuf],
    answer: impl Fn(&Path, String) -> Result<T, Failure>,
) -> Result<FileAnswers<T>, Failure> {
    // A name that is mistyped is no damage.
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        read_snapshot(missing)?;
    }
    let mut answers = Vec::new();
    let mut failures = Vec::new();
    for path in paths {
        match answer(path, path.display().to_string()) {
            Ok(answer) => answers.push(answer),
            Err(failure) => failures.push(failure),
        }
    }
    let last = failures.pop_if(|_| answers.is_empty());
    let status = failures.iter().map(Failure::report).max().unwrap_or(0);
    match last {
        Some(failure) => Err(failure),
        None => Ok(FileAnswers { answers, status }),
    }
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
        SnapshotError::TooLarge { .. } | SnapshotError::Disproportionate { .. } => {
            "decompress it first, if it is a snapshot; uncompressed files may have any size"
        }
        SnapshotError::OutOfMemory { .. } => {
            "decompress it first, with zcat or zstd -d: an uncompressed file is read in place"
        }
        SnapshotError::Pickle(_) | SnapshotError::NotASnapshot { .. } => {
            "name a file that torch.cuda.memory._dump_snapshot wrote"
        }
    }
}
