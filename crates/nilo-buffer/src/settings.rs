//! What a replay buffer is made for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::element::ElementKind;
use crate::error::{BufferError, setting};
use crate::frame_encoder::FrameCodec;
use crate::frame_segment::MOST_STACKED;
use crate::row_chunk::RowShape;

/// Which axis of an observation has the frames of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StackAxis {
    /// The first, as in `(4, 84, 84)`.
    First,
    /// The last, as in `(84, 84, 4)`.
    Last,
}

/// One part of the observations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationSettings {
    /// Its name.
    pub name: String,
    /// Its numbers.
    pub kind: ElementKind,
    /// The shape of one observation, the whole stack.
    pub shape: Vec<usize>,
    /// Frames in an observation; 1 where it is no stack.
    pub stack: usize,
    /// Where the frames lie.
    pub stack_axis: StackAxis,
    /// How frames are compressed.
    pub codec: FrameCodec,
}

/// A column with one row for each transition: the action, and whatever else is to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSettings {
    /// Its name.
    pub name: String,
    /// Its numbers.
    pub kind: ElementKind,
    /// The shape of one row.
    pub shape: Vec<usize>,
}

/// What a replay buffer holds, and what it may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplaySettings {
    /// Transitions, those of all environments together.
    pub capacity: usize,
    /// Environments that step together.
    pub environments: usize,
    /// The parts of the observations, at least one.
    pub observations: Vec<ObservationSettings>,
    /// The other columns.
    pub columns: Vec<ColumnSettings>,
    /// How much priorities count when sampling by them; `None` for a buffer without.
    pub priority_exponent: Option<f32>,
    /// Bytes in memory; beyond, old chunks are compressed, then go to disk, then the oldest transitions leave.
    pub max_bytes: Option<usize>,
    /// Whether old rows may be compressed when memory is short.
    pub compress_cold_rows: bool,
    /// Where segments go that do not fit into memory.
    #[serde(skip)]
    pub spill_folder: Option<PathBuf>,
    /// Bytes for decoded frames and chunks.
    pub cache_bytes: usize,
}

/// The pieces of all logs that are being filled take this share of the budget, if they can be so small.
const OPEN_SHARE: usize = 4;
const MOST_ROW_BYTES: usize = 256 << 20;
const MOST_CAPACITY: usize = 1 << 40;
/// Priorities have a place for each transition of the full buffer, whatever the memory budget.
const MOST_PRIORITIES: usize = 1 << 27;
const MOST_ENVIRONMENTS: usize = 1 << 16;

impl ReplaySettings {
    /// Refuses what no buffer can be.
    pub fn check(&self) -> Result<(), BufferError> {
        if self.environments == 0 || self.environments > MOST_ENVIRONMENTS {
            return Err(setting(format!(
                "n_envs is {}; it must be 1 to {MOST_ENVIRONMENTS}",
                self.environments
            )));
        }
        if self.capacity < self.environments || self.capacity > MOST_CAPACITY {
            return Err(setting(format!(
                "the capacity is {} transitions; it must be at least one for each environment, of which there are {}",
                self.capacity, self.environments
            )));
        }
        if self.observations.is_empty() {
            return Err(setting("a buffer needs an observation"));
        }
        for observation in &self.observations {
            observation.check()?;
        }
        for column in &self.columns {
            row_shape(&column.name, column.kind, &column.shape)?;
        }
        if let Some(exponent) = self.priority_exponent
            && !(exponent.is_finite() && exponent >= 0.0)
        {
            return Err(setting(format!(
                "the priority exponent is {exponent}; it must be 0 or more"
            )));
        }
        if self.priority_exponent.is_some() && self.capacity > MOST_PRIORITIES {
            return Err(setting(format!(
                "a buffer with priorities holds at most {MOST_PRIORITIES} transitions"
            )));
        }
        Ok(())
    }

    /// Transitions of each environment.
    pub(crate) fn steps(&self) -> usize {
        self.capacity / self.environments
    }

    /// Bytes that the piece of a log that is being filled may take: it can neither be compressed nor go to disk.
    pub(crate) fn most_open_bytes(&self) -> usize {
        let Some(max_bytes) = self.max_bytes else {
            return usize::MAX;
        };
        let logs = self.observations.len() * (self.environments + 2) + self.columns.len() + 2;
        max_bytes / OPEN_SHARE / logs
    }

    /// Bytes of one transition as arrays of observations and next observations have it.
    pub fn raw_row_bytes(&self) -> usize {
        let observations: usize = self
            .observations
            .iter()
            .map(|one| 2 * bytes(one.kind, &one.shape))
            .sum();
        let columns: usize = self
            .columns
            .iter()
            .map(|one| bytes(one.kind, &one.shape))
            .sum();
        // The reward and, as Stable-Baselines3 has them, two flags of four bytes.
        observations + columns + 12
    }

    /// Bytes of one transition here if nothing can be compressed: each frame once.
    pub fn uncompressed_row_bytes(&self) -> usize {
        let observations: usize = self
            .observations
            .iter()
            .map(|one| bytes(one.kind, &one.shape) / one.stack + 10)
            .sum();
        let columns: usize = self
            .columns
            .iter()
            .map(|one| bytes(one.kind, &one.shape))
            .sum();
        observations
            + columns
            + 5
            + if self.priority_exponent.is_some() {
                5
            } else {
                0
            }
    }
}

impl ObservationSettings {
    fn check(&self) -> Result<(), BufferError> {
        row_shape(&self.name, self.kind, &self.shape)?;
        if self.stack == 0 || self.stack > MOST_STACKED {
            return Err(setting(format!(
                "the stack is {} frames; it must be 1 to {MOST_STACKED}",
                self.stack
            )));
        }
        let axis = match self.stack_axis {
            StackAxis::First => self.shape.first(),
            StackAxis::Last => self.shape.last(),
        };
        if self.stack > 1 && !axis.is_some_and(|size| size.is_multiple_of(self.stack)) {
            return Err(setting(format!(
                "{} has the shape {:?}, which does not divide into {} frames",
                self.name, self.shape, self.stack
            )));
        }
        Ok(())
    }

    /// Bytes of one observation.
    pub fn bytes(&self) -> usize {
        bytes(self.kind, &self.shape)
    }
}

fn bytes(kind: ElementKind, shape: &[usize]) -> usize {
    kind.size() * shape.iter().product::<usize>()
}

/// The shape of a row, within what can be stored.
pub(crate) fn row_shape(
    name: &str,
    kind: ElementKind,
    shape: &[usize],
) -> Result<RowShape, BufferError> {
    let elements = shape
        .iter()
        .try_fold(1_usize, |product, &size| product.checked_mul(size));
    match elements {
        Some(elements @ 1..) if elements <= MOST_ROW_BYTES / kind.size() => {
            Ok(RowShape { kind, elements })
        }
        _ => Err(setting(format!(
            "{name} has the shape {shape:?}; a row must have 1 byte to 256 MiB"
        ))),
    }
}
