//! A job under a limit, as somebody watches it: samples come unevenly, some are missing, and what happens between them kills all the same.

use super::jobs::Workload;
use crate::random::Random;
use crate::trace::{NANOS_PER_SEC, Trace, TraceOutcome, TracePoint};

/// The level of a job, tick by tick, beyond its end for those that grow.
struct LevelCurve {
    tick_secs: f64,
    levels: Vec<f64>,
}

/// Ticks of a job; more would cost without showing more.
const TICKS: usize = 6000;
/// A job that grows is followed for so many times its length.
const FOLLOWED: usize = 3;
/// Share of the jobs that grow whose limit is too small.
const TOO_SMALL: f64 = 0.65;
const PAGE_BYTES: f64 = 4096.0;
const MIB: f64 = 1_048_576.0;

impl LevelCurve {
    fn follow(job: &mut Workload, random: &mut Random) -> LevelCurve {
        let tick_secs = (job.secs / TICKS as f64).max(0.05);
        let ticks = (job.secs / tick_secs) as usize;
        let followed = if job.grows { FOLLOWED * ticks } else { ticks };
        let levels = (0..followed)
            .map(|_| {
                let parts = job.parts.iter_mut();
                let held: f64 = parts.map(|part| part.advance(tick_secs, random)).sum();
                held.max(0.01)
            })
            .collect();
        LevelCurve { tick_secs, levels }
    }

    fn highest(&self, ticks: usize) -> f64 {
        self.levels[..ticks].iter().copied().fold(0.0, f64::max)
    }

    fn first_at(&self, level: f64) -> Option<usize> {
        self.levels.iter().position(|here| *here >= level)
    }
}

pub(super) fn watch(workload: u8, seed: u64, mut job: Workload, random: &mut Random) -> Trace {
    let course = LevelCurve::follow(&mut job, random);
    let ticks = (job.secs / course.tick_secs) as usize;
    let limit = if job.grows && random.chance(TOO_SMALL) {
        course.highest((random.between(0.25, 1.0) * ticks as f64) as usize + 1)
    } else {
        course.highest(ticks) * random.factor_between(1.03, 2.0)
    };
    let reached = course.first_at(limit);
    let oom = reached.filter(|tick| *tick < ticks);
    let end = oom.unwrap_or(ticks - 1);
    let limit_bytes = random.factor_between(256.0 * MIB, 80.0 * 1024.0 * MIB);
    let limit_bytes = (limit_bytes / PAGE_BYTES).round() * PAGE_BYTES;
    let nanos = |tick: usize| (tick as f64 * course.tick_secs * NANOS_PER_SEC) as u64;
    let tells_steps = random.chance(0.4);
    let tells_children = random.chance(0.5);
    let samples = sampled(end, course.tick_secs, random);
    let points = samples.iter().map(|&tick| {
        let share = (course.levels[tick] / limit).min(if Some(tick) == oom { 1.0 } else { 0.999 });
        let used_bytes = (share * limit_bytes / PAGE_BYTES).round() * PAGE_BYTES;
        let secs = tick as f64 * course.tick_secs;
        let children_bytes = tells_children.then(|| match job.in_workers {
            true => (used_bytes - 0.8 * limit_bytes / limit).max(0.0),
            false => 0.1 * used_bytes,
        });
        TracePoint {
            time_nanos: nanos(tick),
            used_bytes,
            limit_bytes: Some(limit_bytes),
            children_bytes,
            step: tells_steps.then(|| ((secs - job.loads_secs).max(0.0) / job.step_secs) as i64),
            ..TracePoint::default()
        }
    });
    let watched_secs = end as f64 * course.tick_secs;
    Trace {
        name: format!("{workload:02}-{}/{seed}", job.name),
        shape: Some(workload),
        seed,
        points: points.collect(),
        truth: TraceOutcome {
            oom_at_nanos: oom.map(nanos),
            unpredictable: false,
            limit_reached_after_end_nanos: reached.filter(|_| oom.is_none()).map(nanos),
            leak: job.leak,
            leak_cycles: Some((0.9 * watched_secs / job.step_secs) as u32),
            expected: "".into(),
        },
    }
}

/// The ticks at which somebody looked, the last of them at the end.
fn sampled(end: usize, tick_secs: f64, random: &mut Random) -> Vec<usize> {
    let secs = end as f64 * tick_secs;
    let fitting = [0.2, 0.5, 2.0, 10.0, 30.0]
        .into_iter()
        .filter(|interval| secs / interval >= 150.0);
    let fitting: Vec<f64> = fitting.collect();
    let interval_secs = match fitting.as_slice() {
        [] => tick_secs,
        some => random.pick(some).max(tick_secs),
    };
    let uneven = random.between(0.0, 0.5);
    let missing = random.pick(&[0.0, 0.0, 0.02, 0.2]);
    let mut ticks = vec![0];
    let mut at_secs = 0.0;
    loop {
        at_secs += interval_secs * random.between(1.0 - uneven, 1.0 + uneven);
        let tick = (at_secs / tick_secs) as usize;
        if tick >= end {
            break;
        }
        if tick > ticks[ticks.len() - 1] && !random.chance(missing) {
            ticks.push(tick);
        }
    }
    ticks.push(end);
    ticks
}
