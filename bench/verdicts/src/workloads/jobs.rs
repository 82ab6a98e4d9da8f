//! The kinds of job: which parts they have.

use super::parts::{
    Activations, Evaluation, Filling, FillingKind, Fluctuation, Garbage, Leak, Load, LoaderWorkers,
    MemoryComponent, StepIncreases,
};
use crate::random::Random;

/// A job before anybody gave it a limit.
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) parts: Vec<Box<dyn MemoryComponent>>,
    /// Seconds that it runs for if nothing ends it.
    pub(super) secs: f64,
    /// It grows until something ends it; otherwise it fits.
    pub(super) grows: bool,
    /// Whether it leaks; `None`: a matter of definition.
    pub(super) leak: Option<bool>,
    /// Whether its memory is that of workers.
    pub(super) in_workers: bool,
    /// Steps are made once everything is loaded.
    pub(super) loads_secs: f64,
    pub(super) step_secs: f64,
}

const SHORTEST_SECS: f64 = 90.0;
const LONGEST_SECS: f64 = 4.0 * 3600.0;

pub(super) fn draw(workload: u8, random: &mut Random) -> Workload {
    let secs = random.factor_between(SHORTEST_SECS, LONGEST_SECS);
    let (name, grows, leak) = match workload {
        1 => ("leak", true, Some(true)),
        2 => ("leak-under-garbage", true, Some(true)),
        3 => ("leak-after-cache", true, Some(true)),
        4 => ("leak-by-epoch", true, Some(true)),
        5 => ("leak-in-workers", true, Some(true)),
        6 => ("ramp-too-far", true, None),
        7 => ("ramp-that-ends", false, None),
        8 => ("cache-fills", false, Some(false)),
        9 => ("square-root", true, None),
        10 => ("workers-replaced", false, Some(false)),
        11 => ("evaluations", false, Some(false)),
        12 => ("shards-then-flat", false, Some(false)),
        13 => ("leak-accelerates", true, Some(true)),
        14 => ("leak-with-pauses", true, Some(true)),
        15 => ("heavy-noise", false, Some(false)),
        16 => ("logarithmic", false, Some(false)),
        _ => panic!("there is no workload {workload}; workloads are 1 to 16"),
    };
    let loads_secs = random.factor_between(0.002, 0.05) * secs;
    let mut parts = usual(secs, loads_secs, random);
    parts.extend(particular(workload, secs, random));
    Workload {
        name,
        parts,
        secs,
        grows,
        leak,
        in_workers: matches!(workload, 5 | 10),
        loads_secs,
        step_secs: random.factor_between(0.05, 5.0),
    }
}

/// What every job has: something loaded, activations, noise, often garbage and evaluations.
fn usual(secs: f64, loads_secs: f64, random: &mut Random) -> Vec<Box<dyn MemoryComponent>> {
    let pieces = random.count_between(1, 12);
    let mut parts: Vec<Box<dyn MemoryComponent>> = vec![
        Box::new(Load {
            pieces,
            every_secs: loads_secs / pieces as f64,
            clock_secs: 0.0,
        }),
        Box::new(Activations {
            height: random.factor_between(0.01, 0.6),
            spread: random.between(0.0, 0.12),
            begins_secs: loads_secs,
            clock_secs: 0.0,
        }),
        Box::new(Fluctuation {
            deviation: random.factor_between(0.000_5, 0.006),
            memory_secs: random.factor_between(0.5, 90.0),
            value: 0.0,
        }),
    ];
    if random.chance(0.4) {
        let threshold = random.factor_between(0.01, 0.15);
        parts.push(Box::new(garbage(threshold, secs, random)));
    }
    if random.chance(0.3) {
        let height = random.factor_between(0.05, 0.4);
        parts.push(Box::new(evaluation(height, secs, random)));
    }
    parts
}

fn garbage(threshold: f64, secs: f64, random: &mut Random) -> Garbage {
    let cycles = random.factor_between(8.0, 200.0);
    Garbage {
        a_second: threshold * cycles / secs,
        threshold,
        next_threshold: threshold,
        held: 0.0,
    }
}

fn evaluation(height: f64, secs: f64, random: &mut Random) -> Evaluation {
    let every_secs = secs / random.factor_between(3.0, 30.0);
    Evaluation {
        height,
        every_secs,
        takes_secs: every_secs * random.between(0.03, 0.3),
        next_secs: every_secs * random.between(0.5, 1.0),
        clock_secs: 0.0,
        now: height,
    }
}

fn leak(secs: f64, random: &mut Random) -> Leak {
    Leak {
        a_second: random.factor_between(0.3, 5.0) / secs,
        begins_secs: 0.03 * secs,
        wandering: random.factor_between(0.001, 0.02),
        acceleration: 0.0,
        pauses: None,
        clock_secs: 0.0,
        pace: 1.0,
        kept: 0.0,
    }
}

fn steps(height: f64, count: usize, secs: f64, random: &mut Random) -> StepIncreases {
    let every_secs = secs / count as f64;
    StepIncreases {
        height,
        uneven: (random.between(0.0, 0.25), random.between(0.0, 0.3)),
        growth: 1.0,
        every_secs,
        most: usize::MAX,
        next_secs: random.between(0.3, 1.5) * every_secs,
        made: 0,
        clock_secs: 0.0,
        held: 0.0,
    }
}

fn filling(kind: FillingKind, size: f64, time_secs: f64) -> Filling {
    Filling {
        kind,
        size,
        time_secs,
        clock_secs: 0.0,
    }
}

/// What makes a job the kind that it is.
fn particular(workload: u8, secs: f64, random: &mut Random) -> Vec<Box<dyn MemoryComponent>> {
    match workload {
        2 => {
            let threshold = random.factor_between(0.1, 0.6);
            let garbage = garbage(threshold, secs, random);
            vec![Box::new(leak(secs, random)), Box::new(garbage)]
        }
        3 => {
            let fills_secs = random.between(0.1, 0.3) * secs;
            let size = random.between(0.1, 0.8);
            vec![
                Box::new(filling(FillingKind::Saturating, size, fills_secs)),
                Box::new(leak(secs, random)),
            ]
        }
        4 => {
            let count = random.count_between(12, 60);
            let height = random.factor_between(0.5, 4.0) / count as f64;
            vec![Box::new(steps(height, count, secs, random))]
        }
        6 | 7 => {
            let count = random.count_between(6, 24);
            let ends = workload == 7;
            let height = random.factor_between(0.5, 4.0) / count as f64;
            // A ramp that ends takes up the first part of the job, one that does not all of it.
            let lasts_secs = if ends { random.between(0.1, 0.5) } else { 1.0 } * secs;
            let most = if ends {
                random.count_between(3, count)
            } else {
                usize::MAX
            };
            let growth = if random.chance(0.25) {
                random.between(1.3, 2.0)
            } else {
                1.0
            };
            vec![Box::new(StepIncreases {
                most,
                growth,
                ..steps(height, count, lasts_secs, random)
            })]
        }
        8 | 16 => {
            let kind = match workload {
                8 => FillingKind::Saturating,
                _ => FillingKind::Logarithmic,
            };
            let fills_secs = random.between(0.2, 1.5) * secs;
            vec![Box::new(filling(
                kind,
                random.factor_between(0.3, 3.0),
                fills_secs,
            ))]
        }
        9 => {
            let size = random.factor_between(0.5, 4.0);
            vec![Box::new(filling(FillingKind::SquareRoot, size, secs))]
        }
        10 => {
            let epoch_secs = secs / random.factor_between(2.0, 25.0);
            vec![Box::new(LoaderWorkers {
                height: random.factor_between(0.1, 1.5),
                epoch_secs,
                ends_secs: epoch_secs,
                clock_secs: 0.0,
            })]
        }
        11 => {
            let height = random.factor_between(0.2, 1.5);
            vec![Box::new(evaluation(height, secs, random))]
        }
        12 => Vec::new(),
        13 => vec![Box::new(Leak {
            acceleration: random.between(0.5, 3.0) / secs,
            ..leak(secs, random)
        })],
        14 => {
            let cycle_secs = secs / random.factor_between(6.0, 40.0);
            let works = random.between(0.5, 0.9);
            vec![Box::new(Leak {
                pauses: Some((works * cycle_secs, (1.0 - works) * cycle_secs)),
                ..leak(secs, random)
            })]
        }
        15 => vec![Box::new(Fluctuation {
            deviation: random.factor_between(0.01, 0.05),
            memory_secs: random.factor_between(1.0, 300.0),
            value: 0.0,
        })],
        _ => vec![Box::new(leak(secs, random))],
    }
}
