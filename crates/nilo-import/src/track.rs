//! A track: one memory over time with what belongs to it, the way analysis takes it.
//!
//! `allocated` belongs to the `reserved` of the same device, `memory.total` to `memory.used`.
//! What a name speaks of besides memory (`host` in `host_rss`, `cuda` in `cuda_reserved`) decides which belong together.

use nilo_sample::SeriesView;

use crate::import::{Import, ImportedColumn, ImportedTable, Role, SourceFormat};

/// One memory over time.
#[derive(Debug, Clone)]
pub struct MemorySeries<'a> {
    /// Table and column, such as `gpu 0 memory.used [MiB]`.
    pub name: String,
    /// Bytes taken.
    pub used: SeriesView<'a>,
    /// Bytes of them that are really filled, where the file tells.
    pub held: Option<SeriesView<'a>>,
    /// Bytes that may be taken, where the file tells.
    pub limit: Option<SeriesView<'a>>,
    /// Training steps, [`nilo_sample::NO_STEP`] for rows without one.
    pub steps: Option<&'a [i64]>,
    /// The table behind it; it has the phases.
    pub table: &'a ImportedTable,
}

impl Import {
    /// Every memory in the file, in the order of its columns.
    pub fn tracks(&self) -> Vec<MemorySeries<'_>> {
        let of_table = |table| tracks_of(table, self.format);
        self.tables.iter().flat_map(of_table).collect()
    }
}

fn tracks_of(table: &ImportedTable, format: SourceFormat) -> Vec<MemorySeries<'_>> {
    let series = |place: usize| SeriesView {
        times: &table.times,
        values: &table.columns[place].values,
    };
    // For each part the pool that it fills; a pool has one part.
    let mut pools: Vec<(usize, usize)> = Vec::new();
    for (part, column) in table.columns.iter().enumerate() {
        if let Some(pool) = pool_of(table, column)
            && !pools.iter().any(|(_, taken)| *taken == pool)
        {
            pools.push((part, pool));
        }
    }
    let is_part = |place: usize| pools.iter().any(|(part, _)| *part == place);
    let track = |(place, column): (usize, &ImportedColumn)| MemorySeries {
        name: format!("{} {}", table.name, column.name).trim().to_owned(),
        used: series(place),
        held: pools
            .iter()
            .find(|(_, pool)| *pool == place)
            .map(|(part, _)| series(*part)),
        limit: limit_of(table, column, format).map(series),
        steps: (!table.steps.is_empty()).then_some(&table.steps[..]),
        table,
    };
    let columns = table.columns.iter().enumerate();
    columns
        .filter(|(place, column)| column.role != Role::Limit && !is_part(*place))
        .map(track)
        .collect()
}

/// Words for a pool of which something else is a part, the likeliest first.
const POOLS: [&str; 4] = ["reserved", "pool", "segment", "used"];

fn pool_of(table: &ImportedTable, held: &ImportedColumn) -> Option<usize> {
    if held.role != Role::Held {
        return None;
    }
    POOLS.iter().find_map(|word| {
        table.columns.iter().position(|column| {
            column.role == Role::Used
                && column.about == held.about
                && column.name.to_ascii_lowercase().contains(word)
        })
    })
}

/// A limit about the same, else one without a word of its own, which is everybody's.
fn limit_of(table: &ImportedTable, used: &ImportedColumn, format: SourceFormat) -> Option<usize> {
    let find = |fits: &dyn Fn(&ImportedColumn) -> bool| {
        let mut columns = table.columns.iter();
        columns.position(|column| column.role == Role::Limit && fits(column))
    };
    // In our own table the limit is that of the job's cgroup, and the whole job is in it.
    find(&|limit| limit.about == used.about)
        .or_else(|| find(&|limit| limit.about.is_empty() || format == SourceFormat::Export))
}
