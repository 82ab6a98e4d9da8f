//! The axis that memory and metrics share: time since the run began, or training steps.
//!
//! On an axis of steps, what was measured by the clock lies where training was at that time, in proportion between two steps.
//! Where steps begin again, what was measured goes back to the left: each pass is a line of its own.

use nilo_analysis::{MetricPoint, StepClock};

use crate::ticks::{time_ticks, value_ticks};

/// Where things lie across, as shares of the axis from 0 to 1.
#[derive(Debug, Clone)]
pub(crate) enum XAxis {
    Time {
        range_nanos: f64,
    },
    Steps {
        /// Times that ascend, and steps that ascend inside a pass.
        knots: Vec<(u64, f64)>,
        first: f64,
        last: f64,
    },
}

/// More passes than pixels (threads that share a metric) cannot be told apart: what was trained again counts when it was trained last.
const MOST_PASSES: usize = 1_000;

/// A tick: its place and what stands there.
pub(crate) struct XTick {
    pub(crate) share: f64,
    pub(crate) label: String,
}

impl XAxis {
    /// From the beginning up to a time.
    pub(crate) fn time(range_nanos: u64) -> XAxis {
        XAxis::Time {
            range_nanos: (range_nanos as f64).max(1.0),
        }
    }

    /// From the first to the last step; `None` without steps.
    pub(crate) fn steps(clock: &StepClock) -> Option<XAxis> {
        let passes = clock.passes();
        let changes = match passes.len() > MOST_PASSES {
            true => clock.ascending(),
            false => passes.concat(),
        };
        let knots: Vec<(u64, f64)> = changes
            .into_iter()
            .map(|(time_nanos, step)| (time_nanos, step as f64))
            .collect();
        let steps = || knots.iter().map(|(_, step)| *step);
        let (first, last) = (steps().reduce(f64::min)?, steps().reduce(f64::max)?);
        // A single step still has an axis to stand on.
        let last = if last > first { last } else { first + 1.0 };
        Some(XAxis::Steps { knots, first, last })
    }

    /// Makes room for steps outside of the axis; nothing on an axis of time.
    pub(crate) fn include_steps(&mut self, (from, to): (i64, i64)) {
        if let XAxis::Steps { first, last, .. } = self {
            *first = first.min(from as f64);
            *last = last.max(to as f64);
        }
    }

    /// Where a time lies.
    pub(crate) fn share(&self, time_nanos: u64) -> f64 {
        match self {
            XAxis::Time { range_nanos } => (time_nanos as f64 / range_nanos).clamp(0.0, 1.0),
            XAxis::Steps { knots, .. } => self.share_of_step(step_at(knots, time_nanos)),
        }
    }

    /// Where a logged value lies; on an axis of steps, nowhere without one.
    pub(crate) fn share_of(&self, point: &MetricPoint) -> Option<f64> {
        match self {
            XAxis::Time { .. } => Some(self.share(point.time_nanos)),
            XAxis::Steps { .. } => point.step.map(|step| self.share_of_step(step as f64)),
        }
    }

    fn share_of_step(&self, step: f64) -> f64 {
        match self {
            XAxis::Time { .. } => 0.0,
            XAxis::Steps { first, last, .. } => ((step - first) / (last - first)).clamp(0.0, 1.0),
        }
    }

    /// How often steps begin again or go back on the axis.
    pub(crate) fn restarts(&self) -> usize {
        match self {
            XAxis::Time { .. } => 0,
            XAxis::Steps { knots, .. } => knots
                .windows(2)
                .filter(|pair| pair[1].1 < pair[0].1)
                .count(),
        }
    }

    /// Why nothing between these times can be seen over steps.
    pub(crate) fn why_unseen(&self, from_nanos: u64, to_nanos: u64) -> Option<&'static str> {
        let XAxis::Steps { knots, .. } = self else {
            return None;
        };
        if from_nanos > knots.last()?.0 {
            return Some("all samples were taken after the last step");
        }
        let is_before = to_nanos < knots.first()?.0;
        is_before.then_some("all samples were taken before the first step")
    }

    /// Whether steps are drawn.
    pub(crate) fn is_steps(&self) -> bool {
        matches!(self, XAxis::Steps { .. })
    }

    /// The ticks, at most `most` and one at the beginning, and the axis' title.
    pub(crate) fn ticks(&self, most: usize) -> (Vec<XTick>, String) {
        match self {
            XAxis::Time { range_nanos } => {
                let (ticks, unit) = time_ticks(*range_nanos, most);
                let ticks = ticks.into_iter().map(|tick| XTick {
                    share: tick.at / range_nanos,
                    label: tick.label,
                });
                (ticks.collect(), format!("time ({unit})"))
            }
            XAxis::Steps { first, last, .. } => {
                let ticks = value_ticks(*first, *last, most);
                // There is nothing between two steps.
                let whole = ticks.into_iter().filter(|tick| tick.at.fract() == 0.0);
                let ticks = whole.map(|tick| XTick {
                    share: self.share_of_step(tick.at),
                    label: match tick.at.abs() < 1e7 {
                        // Minus zero is zero to people.
                        true => format!("{:.0}", tick.at + 0.0),
                        false => tick.label,
                    },
                });
                (ticks.collect(), "step".to_owned())
            }
        }
    }
}

/// The step at a time, straight between two knots, level outside of them and until the next pass begins.
fn step_at(knots: &[(u64, f64)], time_nanos: u64) -> f64 {
    let after = knots.partition_point(|(time, _)| *time <= time_nanos);
    match (
        after.checked_sub(1).and_then(|i| knots.get(i)),
        knots.get(after),
    ) {
        (Some((time, step)), Some((next_time, next_step))) if next_step > step => {
            let share = (time_nanos - time) as f64 / (next_time - time) as f64;
            step + share * (next_step - step)
        }
        (Some((_, step)), _) | (None, Some((_, step))) => *step,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_lies_between_the_steps_of_its_time() {
        let knots = vec![(10, 0.0), (20, 1.0), (40, 3.0)];
        let axis = XAxis::Steps {
            knots,
            first: 0.0,
            last: 4.0,
        };
        let shares = [0, 10, 15, 20, 30, 40, 99].map(|time| axis.share(time));
        assert_eq!(shares, [0.0, 0.0, 0.125, 0.25, 0.5, 0.75, 0.75]);
    }

    #[test]
    fn a_pass_ends_where_it_stopped_and_the_next_begins_at_its_own_step() {
        let axis = XAxis::Steps {
            knots: vec![(10, 0.0), (20, 4.0), (30, 0.0), (40, 4.0)],
            first: 0.0,
            last: 4.0,
        };
        let shares = [15, 20, 29, 30, 35, 40].map(|time| axis.share(time));
        assert_eq!(shares, [0.5, 1.0, 1.0, 0.0, 0.5, 1.0]);
        assert_eq!(axis.restarts(), 1);
        assert_eq!(axis.why_unseen(5, 99), None);
        assert!(axis.why_unseen(41, 99).is_some() && axis.why_unseen(1, 9).is_some());
    }

    #[test]
    fn ticks_of_steps_are_whole() {
        let axis = XAxis::Steps {
            knots: vec![],
            first: 0.0,
            last: 3.0,
        };
        let (ticks, title) = axis.ticks(10);
        let labels: Vec<&str> = ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!((labels, title.as_str()), (vec!["0", "1", "2", "3"], "step"));
    }
}
