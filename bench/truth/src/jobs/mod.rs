//! The jobs: process trees as trainings have them, and one that does everything in random order.

mod double_maps;
mod epochs;
mod forks;
mod growing_workers;
mod late_copies;
mod random;
mod shared_file;
mod shared_memory;
mod short_workers;

pub(crate) use shared_file::path_in as shared_file_in;

use std::time::Duration;

use crate::settings::{JobArgs, JobKind};

/// Bytes of a mebibyte.
pub const MIB: usize = 1 << 20;
/// The file that the shared-file job and its stranger map.
pub const SHARED_FILE_BYTES: usize = 400 * MIB;

/// Does the job; returns when it is over.
pub fn perform(job: &JobArgs) -> anyhow::Result<bool> {
    match job.kind {
        JobKind::Epochs => epochs::perform()?,
        JobKind::Forks => forks::perform(job.forks)?,
        JobKind::SharedFile => shared_file::perform(job)?,
        JobKind::SharedMemory => shared_memory::perform()?,
        JobKind::ShortWorkers => short_workers::perform()?,
        JobKind::LateCopies => late_copies::perform()?,
        JobKind::GrowingWorkers => growing_workers::perform()?,
        JobKind::DoubleMaps => double_maps::perform(job)?,
        JobKind::Random | JobKind::Busy => random::perform(job)?,
        JobKind::Command => anyhow::bail!("a command is no job of the harness"),
    }
    Ok(true)
}

/// Waits without using the processor.
fn rest(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Monotonic time, the same in every process.
pub fn monotonic_nanos() -> u64 {
    nilo_runfile::monotonic_nanos()
}

/// Forks; the child performs `work` and exits.
fn fork_child(work: impl FnOnce()) -> std::io::Result<i32> {
    // SAFETY: jobs have one thread when they fork, so the child may go on as it likes.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            work();
            // SAFETY: ends this process without running the parent's clean-up a second time.
            unsafe { libc::_exit(0) }
        }
        pid => Ok(pid),
    }
}

/// Waits for children that were forked.
fn wait_for(children: &[i32]) {
    for &child in children {
        // SAFETY: waits for our own child and wants no status.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}
