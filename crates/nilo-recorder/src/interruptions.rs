//! What breaks the time axis: ticks that come far too late, and a wall clock that is set.

use nilo_runfile::{RowSink, monotonic_nanos, unix_nanos};
use nilo_sample::Event;

use crate::pace::Pace;

/// A pause is no gap below this, however short the interval.
const SHORTEST_GAP_NANOS: u64 = 1_000_000_000;
/// A wall clock that moves this much against the monotonic one was set.
const CLOCK_JUMP_NANOS: i128 = 500_000_000;

/// Looks for interruptions at each tick.
#[derive(Debug)]
pub(crate) struct Interruptions {
    clock_offset: i128,
}

impl Interruptions {
    pub(crate) fn new() -> Interruptions {
        Interruptions {
            clock_offset: clock_offset(),
        }
    }

    /// `last_tick_nanos` is 0 before the first tick.
    pub(crate) fn tick(
        &mut self,
        writer: &mut impl RowSink,
        last_tick_nanos: u64,
        now_nanos: u64,
        pace: &Pace,
    ) {
        let silence = now_nanos.saturating_sub(last_tick_nanos);
        let longest = (5 * pace.interval_nanos()).max(SHORTEST_GAP_NANOS);
        if last_tick_nanos > 0 && silence > longest {
            let gap = Event::Gap {
                nanos: silence,
                reason: "the recorder was stopped or got no CPU time".to_owned(),
            };
            writer.event(now_nanos, &gap);
        }
        let offset = clock_offset();
        let moved = offset - self.clock_offset;
        if moved.abs() > CLOCK_JUMP_NANOS {
            let seconds = moved as f64 / 1e9;
            writer.event(now_nanos, &Event::ClockJump { seconds });
            self.clock_offset = offset;
        }
    }
}

/// Wall clock less monotonic clock.
fn clock_offset() -> i128 {
    i128::from(unix_nanos()) - i128::from(monotonic_nanos())
}
