//! Tables: rows of numbers with a time, the one shape in which everything measured travels.
//!
//! A table has a subject (the process tree, one process, a cgroup, the user's metrics) and named columns.
//! Every value is an `f64`: bytes stay exact up to 8 PiB and nanosecond counters up to 104 days, and readers need one code path.
//! What was not measured is [`ABSENT`], one particular NaN, so that it is never confused with zero or with a NaN that the user logged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::rows::{
    CgroupRow, GpuPhaseRow, GpuRow, HostRow, PhaseRow, ProcessDetailRow, ProcessRow, RecorderRow,
    SampledPhaseRow, ThroughputRow, TorchMemoryRow, TreeRow,
};
use crate::typed_row::TypedRow;

/// The value that means "not measured": a quiet NaN with its own payload (the bytes of `nilo`).
pub const ABSENT: f64 = f64::from_bits(0x7ff8_6e69_6c6f_0000);

/// Tells [`ABSENT`] from every other value, other NaNs included.
pub fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT.to_bits()
}

/// `None` becomes [`ABSENT`].
pub fn or_absent(value: Option<u64>) -> f64 {
    value.map_or(ABSENT, |value| value as f64)
}

/// What a column's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanos,
    /// A number of things.
    Count,
    /// A share between 0 and 1.
    Ratio,
    /// Whatever the user logged, and units that only the column's name tells, such as watts.
    Plain,
}

/// How a column behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnKind {
    /// A level that goes up and down.
    Gauge,
    /// A total that only grows while its subject lives; rates are computed on reading.
    Counter,
}

/// One named column of a table.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Column {
    /// Name with its unit, such as `rss_bytes`.
    pub name: String,
    /// What the numbers are.
    pub unit: Unit,
    /// Level or total.
    pub kind: ColumnKind,
}

impl Column {
    /// A level.
    pub fn gauge(name: &str, unit: Unit) -> Column {
        Column {
            name: name.to_owned(),
            unit,
            kind: ColumnKind::Gauge,
        }
    }

    /// A growing total.
    pub fn counter(name: &str, unit: Unit) -> Column {
        Column {
            name: name.to_owned(),
            unit,
            kind: ColumnKind::Counter,
        }
    }
}

/// Whom a table is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Subject {
    /// The whole process tree; one row a tick, always written.
    Tree,
    /// One process: what changes quickly.
    Process(ProcessId),
    /// One process: what is read about once a second.
    ProcessDetail(ProcessId),
    /// A memory cgroup.
    Cgroup {
        /// Path below the cgroup mount, such as `/slurm/uid_0/job_3`.
        path: String,
    },
    /// The machine.
    Host,
    /// The recorder itself.
    Recorder,
    /// A GPU, as its driver counts.
    Gpu {
        /// Its index on this machine, in the driver's order; a running number beyond the last GPU for a part of a divided one (MIG).
        index: u32,
    },
    /// Values that the user's program logged.
    Metrics {
        /// Group of names that are logged together.
        name: String,
    },
    /// A named part of the training step: one row each time that it ended.
    Phase {
        /// Its name; a part of another phase is written `outer/inner`.
        name: String,
    },
    /// How much training got through: running totals.
    Throughput {
        /// Which of the writer's trackers counted; they may count at the same time.
        #[serde(default, skip_serializing_if = "is_first")]
        tracker: u32,
    },
    /// GPU memory as PyTorch's allocator of one process counts it.
    TorchMemory {
        /// The device's index in that process.
        device: u32,
        /// The process, where it is another than the one that writes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// Something that a later version knows.
    #[serde(other)]
    Unknown,
}

/// What was recorded before trackers were told apart names none.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_first(tracker: &u32) -> bool {
    *tracker == 0
}

/// The declaration of a table; it precedes the table's first row in every file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Whom it is about.
    pub subject: Subject,
    /// Its columns, in the order of the values in a row.
    pub columns: Vec<Column>,
    /// When true, a row is written only when a value changed: a value holds until the next row or until the subject ends.
    #[serde(default)]
    pub hold: bool,
    /// The rank of the process that writes it, in a distributed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

impl TableSpec {
    /// The position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn of<R: TypedRow>(subject: Subject, hold: bool) -> TableSpec {
        TableSpec {
            subject,
            columns: R::columns(),
            hold,
            rank: None,
        }
    }

    /// The process tree, each tick.
    pub fn tree() -> TableSpec {
        TableSpec::of::<TreeRow>(Subject::Tree, false)
    }

    /// What changes quickly in a process, each tick on which it changed.
    pub fn process(id: ProcessId) -> TableSpec {
        TableSpec::of::<ProcessRow>(Subject::Process(id), true)
    }

    /// What is read about once a second in a process.
    pub fn process_detail(id: ProcessId) -> TableSpec {
        TableSpec::of::<ProcessDetailRow>(Subject::ProcessDetail(id), true)
    }

    /// A memory cgroup.
    pub fn cgroup(path: &str) -> TableSpec {
        let path = path.to_owned();
        TableSpec::of::<CgroupRow>(Subject::Cgroup { path }, true)
    }

    /// The machine.
    pub fn host() -> TableSpec {
        TableSpec::of::<HostRow>(Subject::Host, true)
    }

    /// Values that the user's program logs together, by their names.
    pub fn metrics<'a>(group: &str, names: impl IntoIterator<Item = &'a str>) -> TableSpec {
        let columns = names
            .into_iter()
            .map(|name| Column::gauge(name, Unit::Plain));
        TableSpec {
            subject: Subject::Metrics {
                name: group.to_owned(),
            },
            columns: columns.collect(),
            hold: false,
            rank: None,
        }
    }

    /// A phase of the training step; a row's time is the phase's end.
    pub fn phase(name: &str) -> TableSpec {
        let name = name.to_owned();
        TableSpec::of::<PhaseRow>(Subject::Phase { name }, false)
    }

    /// A phase that is timed in some steps only.
    pub fn sampled_phase(name: &str) -> TableSpec {
        let name = name.to_owned();
        TableSpec::of::<SampledPhaseRow>(Subject::Phase { name }, false)
    }

    /// A phase whose GPU memory is known within bounds.
    pub fn gpu_phase(name: &str) -> TableSpec {
        let name = name.to_owned();
        TableSpec::of::<GpuPhaseRow>(Subject::Phase { name }, false)
    }

    /// Totals of one of the program's trackers; rates are computed on reading.
    pub fn throughput(tracker: u32) -> TableSpec {
        TableSpec::of::<ThroughputRow>(Subject::Throughput { tracker }, false)
    }

    /// GPU memory of one process by PyTorch's account.
    pub fn torch_memory(device: u32) -> TableSpec {
        TableSpec::of::<TorchMemoryRow>(Subject::TorchMemory { device, pid: None }, false)
    }

    /// The same of another process, for whoever writes what it told.
    pub fn torch_memory_of(pid: u32, device: u32) -> TableSpec {
        let pid = Some(pid);
        TableSpec::of::<TorchMemoryRow>(Subject::TorchMemory { device, pid }, false)
    }

    /// A GPU by its driver's account.
    pub fn gpu(index: u32) -> TableSpec {
        TableSpec::of::<GpuRow>(Subject::Gpu { index }, true)
    }

    /// The recorder's own cost.
    pub fn recorder() -> TableSpec {
        TableSpec::of::<RecorderRow>(Subject::Recorder, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_no_other_nan() {
        assert!(ABSENT.is_nan());
        assert!(is_absent(ABSENT));
        assert!(!is_absent(f64::NAN));
        assert!(!is_absent(0.0));
    }

    #[test]
    fn table_specs_survive_json() {
        let id = ProcessId {
            pid: 7,
            start_ticks: 99,
        };
        for spec in [
            TableSpec::tree(),
            TableSpec::process(id),
            TableSpec::cgroup("/a"),
            TableSpec::host(),
            TableSpec::metrics("metrics", ["loss", "grad/norm"]),
            TableSpec::phase("step/forward"),
            TableSpec::sampled_phase("step/backward"),
            TableSpec::gpu_phase("step/optimizer"),
            TableSpec::throughput(0),
            TableSpec::throughput(2),
            TableSpec::torch_memory(1),
            TableSpec::gpu(3),
        ] {
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<TableSpec>(&text).unwrap(), spec);
        }
    }

    #[test]
    fn the_first_tracker_is_written_as_when_there_was_one() {
        let text = r#"{"type":"throughput"}"#;
        let first = Subject::Throughput { tracker: 0 };
        assert_eq!(serde_json::from_str::<Subject>(text).unwrap(), first);
        assert_eq!(serde_json::to_string(&first).unwrap(), text);
    }

    #[test]
    fn a_subject_from_the_future_is_unknown_not_an_error() {
        let spec: TableSpec =
            serde_json::from_str(r#"{"subject":{"type":"quantum"},"columns":[]}"#).unwrap();
        assert_eq!(spec.subject, Subject::Unknown);
    }
}
