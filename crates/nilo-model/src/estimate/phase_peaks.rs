//! The most that tensors take in each phase: where several GPUs share the work, another phase may have the highest peak.

use std::collections::BTreeMap;

use nilo_allocator::replay::TapeEvent;

use crate::dry_run::memory::{Memory, Purpose, StepPhase};

/// The peak of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhasePeak {
    /// What tensors took then, rounded as the allocator does.
    pub allocated_bytes: u64,
    /// What it was for, without what the allocator rounds up.
    pub parts: BTreeMap<Purpose, u64>,
}

/// The allocator's smallest block.
const BLOCK_BYTES: u64 = 512;

/// The peaks of the phases of a dry run.
pub(super) fn phase_peaks(memory: &Memory) -> BTreeMap<StepPhase, PhasePeak> {
    let events = memory.events();
    let mut sizes = Vec::new();
    let mut standing = 0_u64;
    let mut highest: BTreeMap<StepPhase, (u64, usize)> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        match event {
            TapeEvent::Allocate { id, bytes } => {
                let rounded = bytes.next_multiple_of(BLOCK_BYTES);
                let place = *id as usize;
                sizes.resize(sizes.len().max(place + 1), 0);
                sizes[place] = rounded;
                standing += rounded;
                let phase = memory.phase_of_event(index);
                let known = highest.entry(phase).or_default();
                if standing > known.0 {
                    *known = (standing, index);
                }
            }
            TapeEvent::Free { id } => standing -= sizes[*id as usize],
        }
    }
    let peak = |(phase, (allocated_bytes, index)): (StepPhase, (u64, usize))| {
        let parts = memory.standing_after(index);
        (
            phase,
            PhasePeak {
                allocated_bytes,
                parts,
            },
        )
    };
    highest.into_iter().map(peak).collect()
}
