//! Frees that wait for another stream: how long they take is the GPU's doing, and the one thing of a trace that another run need not repeat.

use hashbrown::HashMap;

use crate::snapshot::{GpuSnapshot, TraceAction};

/// How many frees of a device completed only after the program had allocated again.
pub fn waiting_frees(snapshot: &GpuSnapshot, device: usize) -> usize {
    let mut allocations = 0_u64;
    let mut requested = HashMap::new();
    let mut waited = 0;
    for index in snapshot.trace(device) {
        let row = snapshot.events.row(index);
        match row.action {
            TraceAction::Alloc => allocations += 1,
            TraceAction::FreeRequested => drop(requested.insert(row.address, allocations)),
            TraceAction::FreeCompleted => {
                let before = requested.remove(&row.address);
                waited += usize::from(before.is_some_and(|before| before < allocations));
            }
            _ => {}
        }
    }
    waited
}
