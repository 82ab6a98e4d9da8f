//! A process that has mapped the same data twice, as two `np.memmap` of one file for training and validation do,
//! and workers that read it: the kernel's own figures of each process count such pages twice.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use super::{MIB, fork_child, rest, shared_file_in, wait_for};
use crate::region::Region;
use crate::settings::JobArgs;

const FILE_BYTES: usize = 200 * MIB;
const MEMORY_BYTES: usize = 100 * MIB;
const WORKERS: usize = 4;

pub(super) fn perform(job: &JobArgs) -> io::Result<()> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(shared_file_in(&job.folder))?;
    file.set_len(FILE_BYTES as u64)?;
    let memory = new_memory()?;
    let mut regions = Vec::new();
    for _ in 0..2 {
        let data = Region::shared_file(&file, FILE_BYTES)?;
        read_whole(&data);
        regions.push(data);
    }
    rest(2000);
    for _ in 0..2 {
        let data = Region::shared_descriptor(memory.as_raw_fd(), MEMORY_BYTES)?;
        (0..data.pages()).for_each(|page| data.write(page, 1));
        regions.push(data);
    }
    rest(2000);
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(fork_child(|| {
            regions.iter().for_each(read_whole);
            rest(2500);
        })?);
    }
    wait_for(&workers);
    rest(2000);
    Ok(())
}

fn read_whole(data: &Region) {
    (0..data.pages()).for_each(|page| {
        data.read(page);
    });
}

/// Memory behind a descriptor, without a file.
fn new_memory() -> io::Result<File> {
    // SAFETY: makes a descriptor, which is ours from then on.
    let memory = unsafe {
        let descriptor = libc::memfd_create(c"batches".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    memory.set_len(MEMORY_BYTES as u64)?;
    Ok(memory)
}
