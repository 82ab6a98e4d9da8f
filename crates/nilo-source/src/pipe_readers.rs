//! Who reads what we write into a pipe: `tee` and `less` of `nilo run -- COMMAND | tee log | less`.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nilo_sample::process::ProcessId;
use rustix::process::getpgrp;

use crate::ancestors::with_ancestors;
use crate::descendants::descendants_of;
use crate::linux::{ProcFolder, STAT_BYTES};
use crate::listing::process_id;
use crate::roots::Roots;

/// A pipe, by device and inode.
type Pipe = (u64, u64);

/// The processes of our process group that read this pipe of ours, and those that read what these write.
///
/// Neither our ancestors, who may wait for us, nor our descendants, which are the job, are among them. Empty where it is no pipe.
pub fn pipe_readers(roots: &Roots, output: impl AsFd) -> Vec<ProcessId> {
    let Some(pipe) = pipe_of_output(output) else {
        return Vec::new();
    };
    let own = std::process::id();
    let related = with_ancestors(roots, own);
    let below = BTreeSet::from_iter(descendants_of(roots, own));
    let others: Vec<u32> = group_members(roots)
        .into_iter()
        .filter(|pid| !related.contains(pid) && !below.contains(pid))
        .collect();
    let pipe_at = |pid: u32, descriptor: u32| {
        let path = roots.proc.join(format!("{pid}/fd/{descriptor}"));
        pipe_of(&std::fs::metadata(path).ok()?)
    };
    let (mut pipes, mut readers) = (vec![pipe], Vec::new());
    while let Some(pipe) = pipes.pop() {
        for &pid in &others {
            if !readers.contains(&pid) && pipe_at(pid, 0) == Some(pipe) {
                readers.push(pid);
                pipes.extend(pipe_at(pid, 1));
            }
        }
    }
    let known = readers.into_iter().map(|pid| process_id(roots, pid));
    known.flatten().collect()
}

fn group_members(roots: &Roots) -> Vec<u32> {
    let group = getpgrp().as_raw_pid().unsigned_abs();
    let Ok(proc) = ProcFolder::open(&roots.proc) else {
        return Vec::new();
    };
    let mut buffer = [0; STAT_BYTES];
    let mut pids = proc.pids();
    pids.retain(|pid| {
        let stat = proc.stat_of(*pid, &mut buffer);
        stat.is_some_and(|stat| stat.group == group)
    });
    pids
}

fn pipe_of_output(output: impl AsFd) -> Option<Pipe> {
    let file = std::fs::File::from(output.as_fd().try_clone_to_owned().ok()?);
    pipe_of(&file.metadata().ok()?)
}

fn pipe_of(file: &std::fs::Metadata) -> Option<Pipe> {
    let is_pipe = file.file_type().is_fifo();
    is_pipe.then(|| (file.dev(), file.ino()))
}
