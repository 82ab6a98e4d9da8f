//! The header of a table: which cell of a row is what.

use crate::column_name::{ColumnMeaning, chosen_memory, meaning, words};
use crate::error::ImportError;
use crate::import::{Role, SourceFormat};
use crate::options::{ByteUnit, ImportOptions};

/// A header with more names than this is no header.
pub(crate) const MOST_NAMES: usize = 10_000;

/// More memory columns than this have to be chosen from.
const MOST_COLUMNS: usize = 256;

/// Where in a row everything stands.
#[derive(Debug)]
pub(crate) struct ColumnLayout {
    pub(crate) format: SourceFormat,
    pub(crate) names: Vec<String>,
    pub(crate) time: usize,
    /// Seconds in one unit of the time, where its name says it.
    pub(crate) time_unit_secs: Option<f64>,
    pub(crate) step: Option<usize>,
    pub(crate) phase: Option<usize>,
    /// Cells that tell tables apart, with a word for each.
    pub(crate) keys: Vec<(usize, &'static str)>,
    pub(crate) columns: Vec<ColumnPlan>,
    /// The mark of rows that were taken while the job was ending, in our own export.
    pub(crate) ending: Option<usize>,
}

/// A memory column to read.
#[derive(Debug, Clone)]
pub(crate) struct ColumnPlan {
    pub(crate) name: String,
    /// Its place in a row.
    pub(crate) cell: usize,
    pub(crate) role: Role,
    pub(crate) about: String,
    /// Bytes in one of its numbers.
    pub(crate) factor: f64,
    /// Neither the name nor the caller told the unit.
    pub(crate) unit_is_guessed: bool,
    percent: bool,
}

impl ColumnPlan {
    /// A column of a format that has no header.
    pub(crate) fn fixed(name: &str, role: Role) -> ColumnPlan {
        ColumnPlan {
            name: name.to_owned(),
            cell: 0,
            role,
            about: String::new(),
            factor: 1.0,
            unit_is_guessed: false,
            percent: false,
        }
    }
}

impl ColumnLayout {
    pub(crate) fn new(
        names: Vec<String>,
        line: u64,
        options: &ImportOptions,
    ) -> Result<ColumnLayout, ImportError> {
        if names.len() > MOST_NAMES {
            return Err(ImportError::TooManyColumns {
                line,
                columns: names.len(),
                most: MOST_NAMES,
            });
        }
        let format = format_of(&names);
        let beside_cpu = names
            .iter()
            .any(|name| words(name).iter().any(|w| w == "cpu"));
        let meanings: Vec<ColumnMeaning> =
            names.iter().map(|name| meaning(name, beside_cpu)).collect();
        let (time, time_unit_secs) = find_time(&names, &meanings, options)?;
        let place = |wanted: ColumnMeaning| meanings.iter().position(|found| *found == wanted);
        let keys = meanings
            .iter()
            .enumerate()
            .filter_map(|(cell, meaning)| match meaning {
                ColumnMeaning::Key(kind) => Some((cell, *kind)),
                _ => None,
            });
        let columns = find_columns(&names, &meanings, time, format, options)?;
        if columns.len() > MOST_COLUMNS {
            return Err(ImportError::TooManyColumns {
                line,
                columns: columns.len(),
                most: MOST_COLUMNS,
            });
        }
        let ending = names.iter().position(|name| name == "ending");
        Ok(ColumnLayout {
            format,
            time,
            time_unit_secs,
            step: place(ColumnMeaning::Step),
            phase: place(ColumnMeaning::Phase),
            keys: keys.collect(),
            columns,
            ending: ending.filter(|_| format == SourceFormat::Export),
            names,
        })
    }
}

/// The tools that are known by their headers.
fn format_of(names: &[String]) -> SourceFormat {
    let starts = |known: &[&str]| {
        names.len() >= known.len() && names.iter().zip(known).all(|(name, known)| name == known)
    };
    match () {
        () if starts(&["timestamp_seconds", "memory_mb", "cpu_percent"]) => match names.len() {
            3 => SourceFormat::MemoryLog,
            _ => SourceFormat::Export,
        },
        () if starts(&["Elapsed time", "CPU (%)", "Real (MB)"]) => SourceFormat::Psrecord,
        () if starts(&["elapsed_time", "nproc", "cpu", "mem_real"]) => SourceFormat::PsrecordCsv,
        () if names.iter().any(|name| name.ends_with(" [MiB]")) => SourceFormat::NvidiaSmi,
        () => SourceFormat::Csv,
    }
}

fn find_time(
    names: &[String],
    meanings: &[ColumnMeaning],
    options: &ImportOptions,
) -> Result<(usize, Option<f64>), ImportError> {
    let unit_of = |meaning: &ColumnMeaning| match meaning {
        ColumnMeaning::Time { unit_secs } => Some(*unit_secs),
        _ => None,
    };
    if let Some(asked) = &options.time_column {
        let place = find_name(names, asked)?;
        return Ok((place, unit_of(&meanings[place]).flatten()));
    }
    let found = meanings.iter().enumerate();
    let mut times = found.filter_map(|(place, meaning)| Some((place, unit_of(meaning)?)));
    times.next().ok_or_else(|| ImportError::NoTimeColumn {
        columns: list(names),
    })
}

fn find_columns(
    names: &[String],
    meanings: &[ColumnMeaning],
    time: usize,
    format: SourceFormat,
    options: &ImportOptions,
) -> Result<Vec<ColumnPlan>, ImportError> {
    let mut columns = Vec::new();
    for asked in &options.columns {
        let cell = find_name(names, asked)?;
        if cell == time {
            return Err(ImportError::TimeIsNoMemory {
                name: names[cell].clone(),
                columns: list(names),
            });
        }
        let mut plan = plan_of(names, cell, chosen_memory(&names[cell]), format, options);
        if plan.role == Role::Limit {
            plan.role = Role::Used;
        }
        columns.push(plan);
    }
    let chosen = !columns.is_empty();
    for (cell, meaning) in meanings.iter().enumerate() {
        let ColumnMeaning::Memory(memory) = meaning else {
            continue;
        };
        // What the driver keeps for itself is no memory of a job.
        let of_the_driver = format == SourceFormat::NvidiaSmi && names[cell].contains("reserved");
        let wanted = !chosen || memory.role == Role::Limit;
        let taken = cell == time || columns.iter().any(|plan: &ColumnPlan| plan.cell == cell);
        if wanted && !taken && !of_the_driver {
            columns.push(plan_of(names, cell, memory.clone(), format, options));
        }
    }
    // Percentages are a last resort.
    let amounts = |plan: &ColumnPlan| !plan.percent && plan.role != Role::Limit;
    if !chosen && columns.iter().any(amounts) {
        columns.retain(|plan| !plan.percent);
    }
    // A total without anything that it would be the limit of is the thing itself.
    if columns.iter().all(|plan| plan.role == Role::Limit) {
        let totals = columns
            .iter_mut()
            .filter(|plan| plan.name.to_lowercase().contains("total"));
        totals.for_each(|plan| plan.role = Role::Used);
    }
    if columns.iter().all(|plan| plan.role == Role::Limit) {
        let columns = list(names);
        return Err(ImportError::NoMemoryColumn { columns });
    }
    if let Some(plan) = columns.iter().find(|plan| plan.percent)
        && options.total_bytes.is_none()
    {
        return Err(ImportError::PercentOfWhat {
            column: plan.name.clone(),
        });
    }
    tell_apart(&mut columns);
    Ok(columns)
}

/// Columns of one name are named by their places as well.
fn tell_apart(columns: &mut [ColumnPlan]) {
    let names: Vec<String> = columns.iter().map(|plan| plan.name.clone()).collect();
    for plan in columns {
        if names.iter().filter(|name| **name == plan.name).count() > 1 {
            plan.name = format!("{} (column {})", plan.name, plan.cell + 1);
        }
    }
}

fn plan_of(
    names: &[String],
    cell: usize,
    memory: crate::column_name::MemoryName,
    format: SourceFormat,
    options: &ImportOptions,
) -> ColumnPlan {
    let of_format = match format {
        SourceFormat::PsrecordCsv => Some(ByteUnit::Mib),
        _ => None,
    };
    let unit = options.unit.or(memory.unit).or(of_format);
    let percent = memory.percent && options.unit.is_none();
    let factor = match (percent, options.total_bytes) {
        (true, Some(total)) => total as f64 / 100.0,
        _ => unit.map_or(1.0, ByteUnit::bytes),
    };
    ColumnPlan {
        name: names[cell].clone(),
        cell,
        role: memory.role,
        about: memory.about,
        factor,
        unit_is_guessed: unit.is_none() && !percent,
        percent,
    }
}

/// A column by the name that the caller gave: exactly, else in any case.
fn find_name(names: &[String], asked: &str) -> Result<usize, ImportError> {
    let exactly = names.iter().position(|name| name == asked);
    let loosely = || {
        names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(asked.trim()))
    };
    exactly
        .or_else(loosely)
        .ok_or_else(|| ImportError::UnknownColumn {
            name: asked.to_owned(),
            columns: list(names),
        })
}

/// The names for a sentence; not all of a thousand.
fn list(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown: Vec<String> = names
        .iter()
        .take(MOST)
        .map(|name| crate::error::beginning(name).replace(char::is_control, " "))
        .collect();
    match names.len().checked_sub(MOST + 1) {
        Some(rest) => format!("{} and {} more", shown.join(", "), rest + 1),
        None => shown.join(", "),
    }
}
