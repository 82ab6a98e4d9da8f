//! Memory in slots: the table of the planner has one column per slot, and every size is rounded up, so that no budget is exceeded.

use crate::chain::BlockChain;

/// How large a slot is, and how many the plan that keeps everything needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    /// Bytes of one slot.
    pub(crate) slot_bytes: u64,
    /// Slots for keeping everything, the input of the chain left out: the table needs no more.
    pub(crate) count: usize,
}

/// A second table covers the lowest fifth of the budgets, five times as exactly.
const FINER: u64 = 5;

impl Slots {
    /// Of all sizes with at most `most` slots, the one that loses least by rounding.
    ///
    /// Equal blocks lose nothing when a slot divides them; with a slot of a five-hundredth of the peak, 96 of them lose 15 %.
    pub(crate) fn choose(chain: &BlockChain, most: usize, kept_peak: u64) -> Slots {
        let most = most.max(1) as u64;
        let finest = kept_peak.div_ceil(most).max(1);
        // Twice the finest slot is worse than any useful one unless there are more blocks than slots.
        let step = (finest / 256).max(1);
        let mut best: Option<(u64, Slots)> = None;
        let mut slot_bytes = finest;
        loop {
            let count = slots_to_keep_all(chain, slot_bytes);
            let size = count.saturating_mul(slot_bytes);
            if count <= most && best.is_none_or(|(smallest, _)| size < smallest) {
                let count = count as usize;
                best = Some((size, Slots { slot_bytes, count }));
            }
            if slot_bytes >= 2 * finest && best.is_some() {
                break;
            }
            // Rounding needs up to a few slots a block: with fewer slots than that, the blocks decide how many there are.
            if slot_bytes > 2 * kept_peak.max(1) {
                let count = count as usize;
                best = Some((size, Slots { slot_bytes, count }));
                break;
            }
            slot_bytes += if slot_bytes < 2 * finest {
                step
            } else {
                slot_bytes
            };
        }
        best.expect("the loop ends with a choice").1
    }

    /// Smaller slots for smaller budgets only: where blocks are a few slots large, rounding costs most.
    pub(crate) fn finer(&self) -> Option<Slots> {
        let slot_bytes = self.slot_bytes.div_ceil(FINER);
        (slot_bytes < self.slot_bytes).then_some(Slots {
            slot_bytes,
            count: self.count,
        })
    }

    /// Slots that `bytes` need.
    pub(crate) fn of(&self, bytes: u64) -> usize {
        bytes.div_ceil(self.slot_bytes) as usize
    }
}

fn slots_to_keep_all(chain: &BlockChain, slot_bytes: u64) -> u64 {
    let last = chain.len() - 1;
    let mut need = 0;
    for block in (0..chain.len()).rev() {
        let own = chain
            .keep_forward_need(block, last)
            .max(chain.backward_need(block));
        let below = chain.kept_bytes(block).div_ceil(slot_bytes) + need;
        need = own.div_ceil(slot_bytes);
        if block < last {
            need = need.max(below);
        }
    }
    need
}
