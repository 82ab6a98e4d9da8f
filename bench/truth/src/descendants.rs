//! Which processes belong to a job: all below the recorder, without the recorder's own helpers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Living processes below `top` whose program is not `recorder`.
pub fn job_processes(top: u32, recorder: &Path) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![top];
    while let Some(pid) = open.pop() {
        open.extend(children.get(&pid).into_iter().flatten());
        if pid != top && program_of(pid).is_some_and(|program| program != recorder) {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}

/// Minor faults of children that these processes have waited for.
pub fn faults_of_ended_children(processes: &[u32]) -> u64 {
    // Fields after the name: the state is the first.
    processes.iter().filter_map(|&pid| stat_field(pid, 8)).sum()
}

fn parent_of(pid: u32) -> Option<u32> {
    stat_field(pid, 1)?.try_into().ok()
}

/// A number of `/proc/PID/stat`, counted from the state.
fn stat_field(pid: u32, index: usize) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = &stat[stat.rfind(')')? + 1..];
    fields.split_whitespace().nth(index)?.parse().ok()
}

fn program_of(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}
