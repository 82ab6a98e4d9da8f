//! The job's own cgroup among those that were recorded.

use nilo_sample::{RecordedTable, Recording, Subject};

use crate::rate::minimum;

/// Whether a cgroup holds this job and nothing else: once somebody else was seen in it, it is not the job's alone.
pub fn is_owned(cgroup: &RecordedTable) -> bool {
    cgroup.series("owned").and_then(minimum) == Some(1.0)
}

/// The job's own cgroup: the deepest one that holds the job and nothing else.
pub fn owned_cgroup_table(recording: &Recording) -> Option<&RecordedTable> {
    let owned = recording
        .tables
        .iter()
        .filter(|table| matches!(table.spec.subject, Subject::Cgroup { .. }) && is_owned(table));
    owned.max_by_key(|table| match &table.spec.subject {
        Subject::Cgroup { path } => path.len(),
        _ => 0,
    })
}
