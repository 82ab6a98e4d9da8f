//! The job's own cgroup among those that were recorded.

use nilo_sample::{RecordedTable, Recording, Subject};

use crate::rate::minimum;

/// The deepest cgroup that holds this job and nothing else.
pub fn owned_cgroup_table(recording: &Recording) -> Option<&RecordedTable> {
    let owned = recording.tables.iter().filter(|table| {
        matches!(table.spec.subject, Subject::Cgroup { .. })
            && table
                .series("owned")
                .is_some_and(|series| minimum(series) == Some(1.0))
    });
    owned.max_by_key(|table| match &table.spec.subject {
        Subject::Cgroup { path } => path.len(),
        _ => 0,
    })
}
