//! Drawing numbers from a seed: every trace is a pure function of its shape and seed.

use std::f64::consts::TAU;

/// A seeded source of numbers in the forms that shapes need.
#[derive(Debug, Clone)]
pub struct Random {
    source: fastrand::Rng,
}

impl Random {
    /// Neighbouring seeds and shapes give unrelated sequences: the seed is scrambled first (splitmix64).
    pub fn new(shape: u8, seed: u64) -> Self {
        let mut mixed = seed.wrapping_mul(64).wrapping_add(u64::from(shape));
        mixed = mixed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self {
            source: fastrand::Rng::with_seed(mixed ^ (mixed >> 31)),
        }
    }

    /// Evenly between two numbers.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.source.f64()
    }

    /// Evenly between two numbers on a scale of factors: for rates and durations.
    pub fn factor_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    /// A whole number, both ends included.
    pub fn count_between(&mut self, low: usize, high: usize) -> usize {
        self.source.usize(low..=high)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.source.f64() < probability
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.source.usize(0..choices.len())]
    }

    /// From the normal distribution with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.source.f64()).ln()).sqrt();
        radius * (TAU * self.source.f64()).cos()
    }

    /// The waiting time for something that happens once in `mean` on average.
    pub fn waiting(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.source.f64()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_shape_other_ones() {
        let draw = |shape, seed| Random::new(shape, seed).between(0.0, 1.0);
        assert_eq!(draw(3, 7), draw(3, 7));
        assert_ne!(draw(3, 7), draw(4, 7));
        assert_ne!(draw(3, 7), draw(3, 8));
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut random = Random::new(0, 1);
        let numbers: Vec<f64> = (0..20_000).map(|_| random.normal()).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let square = numbers.iter().map(|number| number * number).sum::<f64>();
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((square / numbers.len() as f64 - 1.0).abs() < 0.05);
    }
}
