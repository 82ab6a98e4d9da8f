//! Which event allocated each live block.

use hashbrown::HashMap;

use super::layout::MemoryLayout;
use crate::snapshot::{GpuSnapshot, TraceAction};

/// The event of each block of a device that is alive after `last`, by the block's address; blocks from before the trace have none.
pub fn allocation_rows(
    snapshot: &GpuSnapshot,
    device: usize,
    layout: &MemoryLayout,
    last: Option<usize>,
) -> HashMap<u64, usize> {
    let mut rows = HashMap::new();
    let Some(last) = last else {
        return rows;
    };
    let mut wanted = layout.blocks().count();
    let start = snapshot.trace(device).start;
    for index in (start..=last).rev() {
        if wanted == 0 {
            break;
        }
        let row = snapshot.events.row(index);
        if row.action == TraceAction::Alloc
            && layout.is_live(row.address)
            && !rows.contains_key(&row.address)
        {
            rows.insert(row.address, index);
            wanted -= 1;
        }
    }
    rows
}
