//! The 24 shapes that memory takes in training jobs, each a pure function of a seed.
//!
//! A shape draws its parameters over the range in which it is still that shape, whatever that means for a predictor.
//! Everything is a share of the limit; [`crate::sketch`] turns it into bytes and samples.

mod checkpoint;
mod copy_on_write;
mod evaluation;
mod gaps;
mod high_and_flat;
mod leak;
mod moving_limit;
mod neighbour;
mod page_cache;
mod plateau;
mod restart;
mod sawtooth;
mod spike;
mod stairs;
mod swap;
mod warm_up;
mod workers;

use crate::random::Random;
use crate::sampling::SamplingTimes;
use crate::sketch::Sketch;
use crate::trace::Trace;

/// How many shapes there are; they are numbered from 1.
pub const SHAPES: u8 = 24;

/// The trace of a shape for a seed. Panics if there is no such shape: check against [`SHAPES`] first.
pub fn draw(shape: u8, seed: u64) -> Trace {
    let mut random = Random::new(shape, seed);
    let sampling = SamplingTimes::draw(&mut random);
    sketch(shape, &mut random, sampling).render(seed, &mut random)
}

fn sketch(shape: u8, random: &mut Random, sampling: SamplingTimes) -> Sketch {
    match shape {
        1 => leak::steady(random, sampling),
        2 => leak::slow(random, sampling),
        3 => sawtooth::leaking(random, sampling),
        4 => sawtooth::flat(random, sampling),
        5 => plateau::warm_up(random, sampling),
        6 => stairs::caching(random, sampling),
        7 => spike::deadly(random, sampling),
        8 => spike::harmless(random, sampling),
        9 => evaluation::bumps(random, sampling),
        10 => workers::resetting(random, sampling),
        11 => workers::leaking(random, sampling),
        12 => stairs::fragmentation(random, sampling),
        13 => page_cache::growth(random, sampling),
        14 => plateau::logarithmic(random, sampling),
        15 => checkpoint::flat(random, sampling),
        16 => checkpoint::leaking(random, sampling),
        17 => copy_on_write::fits(random, sampling),
        18 => copy_on_write::too_much(random, sampling),
        19 => restart::restarts(random, sampling),
        20 => high_and_flat::noisy(random, sampling),
        21 => moving_limit::moving_limit(random, sampling),
        22 => gaps::gaps(random, sampling),
        23 => neighbour::grows(random, sampling),
        24 => swap::filling(random, sampling),
        _ => panic!("there is no shape {shape}; shapes are 1 to {SHAPES}"),
    }
}
