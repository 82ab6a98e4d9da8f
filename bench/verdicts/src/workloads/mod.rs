//! The second generator: training jobs simulated part by part (see [`parts`]), with a limit chosen afterwards.
//!
//! It shares nothing with [`crate::shapes`] but the numbers of chance: no curve is drawn, jobs last from ninety seconds to four hours, samples come
//! unevenly and some are missing, noise has heavy tails, and the limit is what somebody gave the job: enough with a margin, or not enough.

mod jobs;
mod parts;
mod watched;

use crate::random::Random;
use crate::trace::Trace;

/// How many kinds of job there are; they are numbered from 1.
pub const WORKLOADS: u8 = 16;

/// Added to a kind's number so that its chances are not those of a shape.
const APART: u8 = 100;

/// The trace of a job for a seed. Panics if there is no such kind: check against [`WORKLOADS`] first.
pub fn simulate(workload: u8, seed: u64) -> Trace {
    let mut random = Random::new(APART + workload, seed);
    let job = jobs::draw(workload, &mut random);
    watched::watch(workload, seed, job, &mut random)
}
