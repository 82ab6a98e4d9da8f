//! What a buffer holds, and what that takes.

use crate::cache::CacheCounts;
use crate::codec::ByteCodec;
use crate::observation_log::FrameStore;
use crate::observations::ObservationColumn;
use crate::replay::ReplayStore;
use crate::row_chunk::RowEncoding;
use crate::rows::RowLog;

/// Transitions from which on the size of a full buffer is predicted by what they take.
const ROWS_FOR_PROJECTION: usize = 1000;

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnStatistics {
    /// Its name.
    pub name: String,
    /// How most of it is stored.
    pub codec: String,
    /// Bytes as plain arrays would have them, next observations included.
    pub raw_bytes: usize,
    /// Bytes that it takes, in memory and on disk.
    pub stored_bytes: usize,
    /// What the trial measured: a codec, and the share of the bytes that it leaves.
    pub trial: Vec<(&'static str, f64)>,
}

/// The whole buffer.
#[derive(Debug, Clone)]
pub struct ReplayStatistics {
    /// Transitions stored.
    pub transitions: usize,
    /// The most it holds.
    pub capacity: usize,
    /// Transitions added so far.
    pub added: u64,
    /// Transitions that left because memory was short.
    pub dropped_for_memory: u64,
    /// Frames stored.
    pub frames: u64,
    /// Bytes as plain arrays would have them.
    pub raw_bytes: usize,
    /// Bytes in memory.
    pub memory_bytes: usize,
    /// Bytes on disk.
    pub disk_bytes: usize,
    /// Bytes that the full buffer will take.
    pub projected_bytes: usize,
    /// The cache of decoded frames and chunks.
    pub cache: CacheCounts,
    /// Each column.
    pub columns: Vec<ColumnStatistics>,
}

impl ReplayStore {
    /// What it holds, and what that takes.
    pub fn statistics(&self) -> ReplayStatistics {
        let rows = self.len();
        let observations = self
            .observations
            .iter()
            .map(|column| observation_statistics(column, rows));
        let columns = self
            .columns
            .iter()
            .zip(&self.settings.columns)
            .map(|(log, settings)| row_statistics(&settings.name, log, rows));
        let others =
            [("reward", &self.rewards, 4), ("flags", &self.flags, 8)].map(|(name, log, raw)| {
                ColumnStatistics {
                    raw_bytes: raw * rows,
                    ..row_statistics(name, log, rows)
                }
            });
        let logs = self
            .observations
            .iter()
            .flat_map(|column| &column.environments);
        ReplayStatistics {
            transitions: rows,
            capacity: self.capacity(),
            added: self.next,
            dropped_for_memory: self.dropped_for_memory,
            frames: logs.map(|log| log.store.len()).sum(),
            raw_bytes: self.settings.raw_row_bytes() * rows,
            memory_bytes: self.heap_bytes(),
            disk_bytes: self.disk_bytes(),
            projected_bytes: self.projected_bytes(),
            cache: self.cache.counts(),
            columns: observations.chain(columns).chain(others).collect(),
        }
    }

    /// Bytes that the full buffer will take, in memory and on disk: by what is stored, or before that by what nothing can exceed.
    pub fn projected_bytes(&self) -> usize {
        let uncompressed = self
            .settings
            .uncompressed_row_bytes()
            .saturating_mul(self.capacity());
        let rows = self.len();
        if rows < ROWS_FOR_PROJECTION.min(self.capacity()) {
            return uncompressed;
        }
        let held = (self.stored_heap_bytes() + self.disk_bytes()) as f64;
        (held / rows as f64 * self.capacity() as f64) as usize
    }
}

fn observation_statistics(column: &ObservationColumn, rows: usize) -> ColumnStatistics {
    let (codec, trial) = match column.environments.first().map(|log| &log.store) {
        Some(FrameStore::Frames(log)) => {
            let share = |bytes: usize, raw: usize| bytes as f64 / raw.max(1) as f64;
            let trial = log
                .trial()
                .filter(|trial| trial.raw_bytes > 0)
                .map(|trial| {
                    vec![
                        ("patch", share(trial.patch_bytes, trial.raw_bytes)),
                        ("lz4", share(trial.lz4_bytes, trial.raw_bytes)),
                        ("zstd", share(trial.zstd_bytes, trial.raw_bytes)),
                    ]
                });
            (log.codec().name().to_owned(), trial.unwrap_or_default())
        }
        Some(FrameStore::Rows(log)) => (row_codec(log), row_trial(log)),
        None => (String::new(), Vec::new()),
    };
    ColumnStatistics {
        name: column.settings.name.clone(),
        codec,
        raw_bytes: 2 * column.settings.bytes() * rows,
        stored_bytes: column.heap_bytes() + column.disk_bytes(),
        trial,
    }
}

fn row_statistics(name: &str, log: &RowLog, rows: usize) -> ColumnStatistics {
    ColumnStatistics {
        name: name.to_owned(),
        codec: row_codec(log),
        raw_bytes: log.shape().bytes() * rows,
        stored_bytes: log.heap_bytes() + log.disk_bytes(),
        trial: row_trial(log),
    }
}

/// How the oldest chunk is stored: what is compressed is compressed from there on.
fn row_codec(log: &RowLog) -> String {
    let Some(chunk) = log.chunks().next() else {
        return "raw".to_owned();
    };
    let encoding = match chunk.encoding {
        RowEncoding::Plain => None,
        RowEncoding::Constant => Some("constant".to_owned()),
        RowEncoding::Narrow(kind) => Some(kind.numpy_name().to_owned()),
    };
    match (encoding, chunk.codec) {
        (None, codec) => codec.name().to_owned(),
        (Some(encoding), ByteCodec::Raw) => encoding,
        (Some(encoding), codec) => format!("{encoding}+{}", codec.name()),
    }
}

fn row_trial(log: &RowLog) -> Vec<(&'static str, f64)> {
    log.trial()
        .map(|trial| {
            vec![(
                trial.codec.name(),
                trial.stored_bytes as f64 / trial.raw_bytes.max(1) as f64,
            )]
        })
        .unwrap_or_default()
}
