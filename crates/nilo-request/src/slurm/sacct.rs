//! The output of `sacct`, as jobs with their steps.
//!
//! Fields are found by the names in the header, in any order; only `JobID` must be there.
//! A job has one line for its allocation, which has no memory, and one for each step (`3.batch`, `3.extern`, `3.0`), which has.

use nilo_sample::units::MIB;
use serde::Serialize;
use thiserror::Error;

use crate::slurm::sacct_cell::{Per, parse_elapsed_secs, parse_exit, parse_size, parse_state};
use crate::slurm::sacct_layout::read_header;
use crate::slurm::sacct_tres::{gpu_count, gpu_memory_bytes, gpu_utilization_percent};

/// A job, as Slurm accounts for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SlurmJob {
    /// As users name it: `3`, `7_1` in an array.
    pub id: String,
    /// The plain number, where the listing has it.
    pub raw_id: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// In one word, such as `COMPLETED`.
    pub state: String,
    /// Exit code and signal.
    pub exit: Option<(u32, u32)>,
    /// Memory asked for on each node.
    pub requested_bytes: Option<u64>,
    /// How long it ran.
    pub elapsed_secs: Option<u64>,
    /// How many nodes it has.
    pub nodes: Option<u32>,
    /// GPUs that it was given, on all nodes (`AllocTRES`, otherwise `ReqTRES`).
    pub gpus: Option<u32>,
    /// Its steps.
    pub steps: Vec<SlurmStep>,
}

/// A step of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SlurmStep {
    /// `batch`, `extern`, `0`.
    pub id: String,
    /// In one word.
    pub state: String,
    /// Exit code and signal; `0:125` is an OOM kill.
    pub exit: Option<(u32, u32)>,
    /// The largest resident memory of a task that Slurm saw.
    pub max_rss_bytes: Option<u64>,
    /// How many tasks it has.
    pub tasks: Option<u32>,
    /// The most GPU memory of a task that Slurm saw (`TRESUsageInMax`); `None` where it gathers none.
    pub max_gpu_memory_bytes: Option<u64>,
    /// The highest GPU utilization of a task that it saw, added up over its GPUs.
    pub max_gpu_utilization_percent: Option<u32>,
}

impl SlurmStep {
    /// Whether Slurm counted an OOM kill in it.
    pub fn ran_out_of_memory(&self) -> bool {
        self.state == "OUT_OF_MEMORY" || self.exit == Some((0, 125))
    }
}

/// Text that is no listing of `sacct`.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SacctError {
    /// There is nothing in it.
    #[error("the sacct output is empty")]
    Empty,
    /// `sacct` itself said that it has nothing.
    #[error("sacct returned nothing: accounting is disabled on this cluster")]
    Disabled,
    /// The first line does not name the fields.
    #[error("line 1 is not a sacct header with a JobID field")]
    NoHeader,
    /// A line with another number of fields than the header.
    #[error("line {line} has {fields} fields, the header has {names}")]
    FieldCount {
        /// Which.
        line: usize,
        /// Its fields.
        fields: usize,
        /// Those of the header.
        names: usize,
    },
    /// A field that cannot be read.
    #[error("line {line}, {field}: cannot be read: {text:?}")]
    BadField {
        /// Which line.
        line: usize,
        /// Which field.
        field: &'static str,
        /// What is there.
        text: String,
    },
}

impl SacctError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            SacctError::Disabled => {
                "omit --sacct; only the cluster's administrators can enable accounting"
            }
            _ => {
                "create the file with `sacct -P -o JobID,JobName,State,ReqMem,MaxRSS,Elapsed,ExitCode,NNodes,NTasks,AllocTRES,TRESUsageInMax -j JOB`"
            }
        }
    }
}

/// Reads a listing, with bars (`sacct -P`) or in columns.
pub fn parse_sacct(text: &str) -> Result<Vec<SlurmJob>, SacctError> {
    let mut lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .peekable();
    let (_, header) = lines.next().ok_or(SacctError::Empty)?;
    if header.contains("accounting storage is disabled") {
        return Err(SacctError::Disabled);
    }
    let below = lines.peek().map(|(_, line)| *line);
    let (names, layout) = read_header(header, below)?;
    let mut jobs: Vec<SlurmJob> = Vec::new();
    for (place, line) in lines {
        let is_rule = line.chars().all(|c| c == '-' || c == ' ');
        if is_rule {
            continue;
        }
        let row = SacctRow {
            line: place + 1,
            names: &names,
            fields: layout.fields(line),
        };
        if row.fields.len() != names.len() {
            return Err(SacctError::FieldCount {
                line: row.line,
                fields: row.fields.len(),
                names: names.len(),
            });
        }
        row.add_to(&mut jobs)?;
    }
    Ok(jobs)
}

struct SacctRow<'a> {
    line: usize,
    names: &'a [String],
    fields: Vec<&'a str>,
}

impl SacctRow<'_> {
    /// A field that is there and not empty.
    fn field(&self, name: &str) -> Option<&str> {
        let place = self
            .names
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name))?;
        self.fields
            .get(place)
            .copied()
            .filter(|text| !text.is_empty())
    }

    fn parsed<T>(
        &self,
        field: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, SacctError> {
        let Some(text) = self.field(field) else {
            return Ok(None);
        };
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None => Err(SacctError::BadField {
                line: self.line,
                field,
                text: text.chars().take(40).collect(),
            }),
        }
    }

    fn add_to(&self, jobs: &mut Vec<SlurmJob>) -> Result<(), SacctError> {
        let id = self.field("JobID").unwrap_or_default();
        let (job, step) = match id.split_once('.') {
            Some((job, step)) => (job, Some(step)),
            None => (id, None),
        };
        // Lines of a job follow each other.
        if jobs.last().is_none_or(|last| last.id != job) {
            jobs.push(SlurmJob {
                id: job.to_owned(),
                ..SlurmJob::default()
            });
        }
        let Some(found) = jobs.last_mut() else {
            return Ok(());
        };
        if let Some(raw) = self.field("JobIDRaw") {
            let raw = raw.split_once('.').map_or(raw, |(job, _)| job);
            found.raw_id = Some(raw.to_owned());
        }
        let state = parse_state(self.field("State").unwrap_or_default());
        let exit = self.parsed("ExitCode", parse_exit)?;
        let count = |text: &str| text.parse::<u32>().ok();
        if let Some(step) = step {
            found.steps.push(SlurmStep {
                id: step.to_owned(),
                state,
                exit,
                max_rss_bytes: self
                    .parsed("MaxRSS", |text| parse_size(text, 1))?
                    .map(|(bytes, _)| bytes),
                tasks: self.parsed("NTasks", count)?,
                max_gpu_memory_bytes: self.field("TRESUsageInMax").and_then(gpu_memory_bytes),
                max_gpu_utilization_percent: self
                    .field("TRESUsageInMax")
                    .and_then(gpu_utilization_percent),
            });
            return Ok(());
        }
        found.name = self.field("JobName").map(str::to_owned);
        found.state = state;
        found.exit = exit;
        found.elapsed_secs = self.parsed("Elapsed", parse_elapsed_secs)?;
        found.nodes = self.parsed("NNodes", count)?;
        found.gpus = ["AllocTRES", "ReqTRES"]
            .into_iter()
            .find_map(|field| gpu_count(self.field(field)?));
        found.requested_bytes = self.requested_bytes(found.nodes.unwrap_or(1))?;
        Ok(())
    }

    /// Memory for each node. What was asked for each CPU cannot be added up without their number.
    fn requested_bytes(&self, nodes: u32) -> Result<Option<u64>, SacctError> {
        let Some((bytes, per)) = self.parsed("ReqMem", |text| parse_size(text, MIB))? else {
            return Ok(None);
        };
        let nodes = u64::from(nodes.max(1));
        let cpus = self
            .field("AllocCPUS")
            .or_else(|| self.field("NCPUS"))
            .and_then(|text| text.parse::<u64>().ok());
        Ok(match per {
            Per::Node => Some(bytes),
            Per::Job => Some(bytes / nodes),
            Per::Cpu => cpus
                .and_then(|cpus| bytes.checked_mul(cpus))
                .map(|all| all / nodes),
        })
    }
}
