//! The allocated bytes of a moment by what they are (category) and by what the program was doing when it allocated them (phase).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::{LiveBlock, MemoryLayout, allocation_rows};
use schemars::JsonSchema;
use serde::Serialize;

use super::memory_category::{
    CategoryEvidence, DecidedCategory, MemoryCategory, category_of_annotation, category_of_stack,
};

/// What one category has of the allocated bytes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct HeldByCategory {
    /// What the bytes are.
    pub category: MemoryCategory,
    /// What decided it.
    pub decided_by: CategoryEvidence,
    /// The bytes of its blocks.
    pub bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Its part of all allocated bytes.
    pub share_ratio: f64,
}

/// What was allocated while one annotation was open.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct HeldByPhase {
    /// The innermost annotation (`record_function`, `Optimizer.step`) or the metadata of the event; `null` where none was open.
    pub phase: Option<String>,
    /// Where the name comes from.
    pub source: PhaseSource,
    /// The bytes of its blocks.
    pub bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Its part of all allocated bytes.
    pub share_ratio: f64,
}

/// Where the name of a phase comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseSource {
    /// `user_metadata` of the event.
    Metadata,
    /// An annotation that was open.
    Annotation,
    /// Neither.
    None,
}

/// Both.
#[derive(Debug, Default)]
pub(crate) struct HeldByKind {
    /// Most bytes first.
    pub(crate) categories: Vec<HeldByCategory>,
    /// Most bytes first; empty where the snapshot has neither annotations nor metadata.
    pub(crate) phases: Vec<HeldByPhase>,
}

impl HeldByKind {
    /// Adds up the blocks that are alive after an event.
    pub(crate) fn of(
        snapshot: &GpuSnapshot,
        device: usize,
        layout: &MemoryLayout,
        row: Option<usize>,
    ) -> Self {
        let rows = allocation_rows(snapshot, device, layout, row);
        let mut blocks: Vec<(&LiveBlock, Option<usize>)> = layout
            .blocks()
            .filter(|block| !block.pending)
            .map(|block| (block, rows.get(&block.address).copied()))
            .collect();
        blocks.sort_unstable_by_key(|(block, row)| (*row, block.address));
        let mut open = OpenStages::new(snapshot, device);
        let mut by_stack: HashMap<u32, DecidedCategory> = HashMap::new();
        let mut categories: HashMap<DecidedCategory, (u64, u64)> = HashMap::new();
        let mut phases: HashMap<(PhaseSource, u32), (u64, u64)> = HashMap::new();
        let mut total: u64 = 0;
        for (block, row) in blocks {
            total = total.saturating_add(block.size);
            let stage = row.and_then(|row| open.at(snapshot.events.time_micros(row)));
            let mut decided = *by_stack
                .entry(block.stack)
                .or_insert_with(|| category_of_stack(snapshot, block.stack));
            if decided.0 == MemoryCategory::Unknown
                && let Some(category) =
                    stage.and_then(|name| category_of_annotation(&snapshot.texts.get(name)))
            {
                decided = (category, CategoryEvidence::Annotation);
            }
            add(&mut categories, decided, block.size);
            let metadata = row.map(|row| snapshot.events.row(row).metadata);
            let metadata = metadata.filter(|text| !snapshot.texts.get(*text).is_empty());
            let phase = match (metadata, stage) {
                (Some(text), _) => (PhaseSource::Metadata, text),
                (None, Some(name)) => (PhaseSource::Annotation, name),
                (None, None) => (PhaseSource::None, u32::MAX),
            };
            add(&mut phases, phase, block.size);
        }
        let share = |bytes: u64| bytes as f64 / total.max(1) as f64;
        let has_phases = !snapshot.stages.is_empty()
            || phases
                .keys()
                .any(|(source, _)| *source != PhaseSource::None);
        let mut categories: Vec<HeldByCategory> = categories
            .into_iter()
            .map(|((category, decided_by), (bytes, blocks))| HeldByCategory {
                category,
                decided_by,
                bytes,
                blocks,
                share_ratio: share(bytes),
            })
            .collect();
        categories
            .sort_unstable_by_key(|held| (Reverse(held.bytes), held.category, held.decided_by));
        let mut phases: Vec<HeldByPhase> = phases
            .into_iter()
            .filter(|_| has_phases)
            .map(|((source, name), (bytes, blocks))| HeldByPhase {
                phase: (source != PhaseSource::None).then(|| snapshot.texts.get(name).into_owned()),
                source,
                bytes,
                blocks,
                share_ratio: share(bytes),
            })
            .collect();
        phases.sort_by(|one, other| {
            (Reverse(one.bytes), &one.phase).cmp(&(Reverse(other.bytes), &other.phase))
        });
        Self { categories, phases }
    }
}

fn add<K: Eq + Hash>(sums: &mut HashMap<K, (u64, u64)>, key: K, bytes: u64) {
    let (sum, blocks) = sums.entry(key).or_default();
    *sum = sum.saturating_add(bytes);
    *blocks += 1;
}

/// The annotations that are open, followed in the order of time.
struct OpenStages {
    /// Time, whether it begins, and the name; oldest first.
    marks: Vec<(u64, bool, u32)>,
    next: usize,
    open: Vec<u32>,
}

impl OpenStages {
    fn new(snapshot: &GpuSnapshot, device: usize) -> Self {
        let marks = snapshot.stages.iter();
        let mut marks: Vec<(u64, bool, u32)> = marks
            .filter(|mark| mark.device == device as u64)
            .map(|mark| (mark.time_micros, mark.starts, mark.name))
            .collect();
        marks.sort_by_key(|(time, ..)| *time);
        Self {
            marks,
            next: 0,
            open: Vec::new(),
        }
    }

    /// The innermost one at a time, which is never before the last one asked for.
    fn at(&mut self, time_micros: u64) -> Option<u32> {
        while let Some((time, starts, name)) = self.marks.get(self.next)
            && *time <= time_micros
        {
            match starts {
                true => self.open.push(*name),
                false => {
                    if let Some(place) = self.open.iter().rposition(|open| open == name) {
                        self.open.remove(place);
                    }
                }
            }
            self.next += 1;
        }
        self.open.last().copied()
    }
}
