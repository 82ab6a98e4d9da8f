//! What a file became: tables of numbers in bytes, with their times.
//!
//! [`crate::track`] looks at these tables as analysis wants them.

use nilo_sample::NO_STEP;

/// Which tool wrote the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceFormat {
    /// Any CSV file with a header, or columns between spaces.
    Csv,
    /// `nilo run --memory-log`.
    MemoryLog,
    /// `nilo export`.
    Export,
    /// `nilo export --long`.
    LongExport,
    /// `psrecord --log`.
    Psrecord,
    /// `psrecord --log-format csv`.
    PsrecordCsv,
    /// `mprof run`.
    Mprof,
    /// `nvidia-smi --format=csv`.
    NvidiaSmi,
}

impl SourceFormat {
    /// The tool, as a word for people.
    pub fn name(self) -> &'static str {
        match self {
            SourceFormat::Csv => "CSV",
            SourceFormat::MemoryLog => "a memory log of nilo",
            SourceFormat::Export => "an export of nilo",
            SourceFormat::LongExport => "a long export of nilo",
            SourceFormat::Psrecord | SourceFormat::PsrecordCsv => "psrecord",
            SourceFormat::Mprof => "mprof",
            SourceFormat::NvidiaSmi => "nvidia-smi",
        }
    }
}

/// A recording from elsewhere.
#[derive(Debug, Clone)]
pub struct Import {
    /// Which tool wrote it.
    pub format: SourceFormat,
    /// The command that was recorded, where the file says it.
    pub command: Option<String>,
    /// The zero of the times by the wall clock, in nanoseconds since 1970, where the file has dates.
    pub started_unix_nanos: Option<u64>,
    /// One table for each GPU or process that the file tells apart, otherwise one.
    pub tables: Vec<ImportedTable>,
    /// What it tells of the end of the job.
    pub job_end: JobEnd,
    /// Rows that did not count.
    pub dropped: Dropped,
    /// What a person should know about the reading, one sentence each.
    pub warnings: Vec<String>,
}

/// What a recording tells of the end of the job: rows of that time do not tell what it needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// Nothing: the file is of another tool.
    NotTold,
    /// The file ends with the job; which of its last rows are of that time has to be found out.
    WithFile,
    /// The rows of our own export that were taken while the job was ending are those from this time on.
    Marked(Option<u64>),
}

/// Rows of one GPU, one process or the whole file.
#[derive(Debug, Clone, Default)]
pub struct ImportedTable {
    /// Such as `gpu 0`; empty when the file tells nothing apart.
    pub name: String,
    /// Nanoseconds, never descending.
    pub times: Vec<u64>,
    /// Training steps, [`NO_STEP`] for rows without one; empty when the file has none.
    pub steps: Vec<i64>,
    /// Phases of the training step; empty when the file has none.
    pub phases: PhaseColumn,
    /// The memory columns.
    pub columns: Vec<ImportedColumn>,
}

/// One column of memory.
#[derive(Debug, Clone)]
pub struct ImportedColumn {
    /// Its name in the file.
    pub name: String,
    /// What its numbers are.
    pub role: Role,
    /// What the name speaks of besides memory: `host` of `host_rss_mb`, nothing of `rss`.
    pub(crate) about: String,
    /// Bytes; [`nilo_sample::ABSENT`] where nothing was measured.
    pub values: Vec<f64>,
}

/// What a memory column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Memory that is taken: resident, reserved, in use.
    Used,
    /// The part of a pool that is really filled: what an allocator of a GPU calls allocated.
    Held,
    /// How much there is, or may be taken.
    Limit,
}

/// A word for each row out of few words.
#[derive(Debug, Clone, Default)]
pub struct PhaseColumn {
    /// The words.
    pub names: Vec<String>,
    /// For each row the word's place in `names`; [`PhaseColumn::NONE`] for rows without one.
    pub of_row: Vec<u16>,
}

impl PhaseColumn {
    /// Stands for "no phase".
    pub const NONE: u16 = u16::MAX;

    /// The phase of a row.
    pub fn at(&self, row: usize) -> Option<&str> {
        let place = *self.of_row.get(row)?;
        self.names.get(usize::from(place)).map(String::as_str)
    }
}

impl ImportedTable {
    /// The step of a row.
    pub fn step(&self, row: usize) -> Option<i64> {
        self.steps.get(row).copied().filter(|step| *step != NO_STEP)
    }
}

/// Rows that did not count, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Times before that of the row above, or decades away from the first.
    pub out_of_order: u64,
    /// No time at all.
    pub without_time: u64,
    /// The header once more, as a restarted tool writes it.
    pub repeated_headers: u64,
    /// A last line that was cut off while it was written.
    pub torn: u64,
}

impl Dropped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.out_of_order + self.without_time + self.repeated_headers + self.torn
    }
}
