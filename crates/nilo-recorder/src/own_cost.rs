//! What recording itself costs, written every few seconds, more often in the first, and at the end.

use std::time::Duration;

use nilo_runfile::{RowSink, TableId};
use nilo_sample::rows::RecorderRow;
use nilo_sample::table::or_absent;
use nilo_sample::{ABSENT, TableSpec, TypedRow};
use nilo_source::own_peak_rss_bytes;

use crate::pace::Pace;

const LONGEST_INTERVAL_NANOS: u64 = 5_000_000_000;
/// Who is killed within seconds has told what it cost until half of then, or a second before.
const SHORTEST_INTERVAL_NANOS: u64 = 1_000_000_000;

/// What our own cost is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnCost {
    /// The whole process is ours.
    Process,
    /// We are a thread of the job: its time is ours, its memory cannot be told apart.
    Thread,
}

/// Writes our own cost.
#[derive(Debug)]
pub(crate) struct OwnCostRows {
    table: TableId,
    measured_on: OwnCost,
    first_nanos: Option<u64>,
    next_nanos: u64,
}

impl OwnCostRows {
    pub(crate) fn new(writer: &mut impl RowSink) -> OwnCostRows {
        OwnCostRows {
            table: writer.define(&TableSpec::recorder()),
            measured_on: OwnCost::Process,
            first_nanos: None,
            next_nanos: 0,
        }
    }

    pub(crate) fn measure_on(&mut self, own_cost: OwnCost) {
        self.measured_on = own_cost;
    }

    /// Writes a row where one is due. `helper_cpu_nanos` was spent by threads that read for us.
    pub(crate) fn tick(
        &mut self,
        writer: &mut impl RowSink,
        now_nanos: u64,
        pace: &Pace,
        helper_cpu_nanos: u64,
        last: bool,
    ) {
        if now_nanos < self.next_nanos && !last {
            return;
        }
        let since_first = now_nanos.saturating_sub(*self.first_nanos.get_or_insert(now_nanos));
        self.next_nanos =
            now_nanos + since_first.clamp(SHORTEST_INTERVAL_NANOS, LONGEST_INTERVAL_NANOS);
        let (rss_bytes, cpu_nanos) = match self.measured_on {
            OwnCost::Process => (
                or_absent(own_peak_rss_bytes()),
                cpu_nanos(libc::CLOCK_PROCESS_CPUTIME_ID),
            ),
            OwnCost::Thread => (
                ABSENT,
                cpu_nanos(libc::CLOCK_THREAD_CPUTIME_ID) + helper_cpu_nanos,
            ),
        };
        let row = RecorderRow {
            rss_bytes,
            cpu_nanos: cpu_nanos as f64,
            ticks: pace.ticks() as f64,
            late_ticks: pace.late_ticks() as f64,
            dropped_samples: writer.dropped() as f64,
            interval_nanos: pace.interval_nanos() as f64,
        };
        writer.append(self.table, now_nanos, None, &row.values());
    }
}

/// CPU time of this process or thread.
fn cpu_nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists on every system and the structure is ours.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use nilo_runfile::RowBuffer;

    use super::*;

    /// A recorder that is killed writes no last row.
    #[test]
    fn half_of_the_time_is_told_at_any_moment_after_the_first_second() {
        const TENTH: u64 = 100_000_000;
        let mut rows = RowBuffer::new("recorder-1", 0);
        let mut cost = OwnCostRows::new(&mut rows);
        let pace = Pace::new(0, TENTH);
        let mut told = Vec::new();
        for tick in 0..200 {
            cost.tick(&mut rows, tick * TENTH, &pace, 0, false);
            let new = rows.take().tables.into_iter().flat_map(|it| it.times);
            told.extend(new);
            let last = told.last().copied().unwrap();
            let unknown = tick * TENTH - last;
            assert!(tick < 10 || last > 0, "{told:?}");
            assert!(unknown <= last.clamp(10 * TENTH, 50 * TENTH), "{told:?}");
        }
        assert!(told.len() < 10, "{told:?}");
    }
}
