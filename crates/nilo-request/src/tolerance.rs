//! How many standard deviations above the mean of n runs to go, so that with 95 % confidence 95 % of all runs stay below.
//!
//! These are one-sided tolerance factors for a normal population: the 95 % point of a noncentral t distribution, over √n.

/// Factors for 2 to 30 runs, from the noncentral t distribution (SciPy's `nct.ppf(.95, n-1, z·√n)/√n`).
const FACTORS: [f64; 29] = [
    26.260, 7.656, 5.144, 4.203, 3.708, 3.399, 3.187, 3.031, 2.911, 2.815, 2.736, 2.671, 2.614,
    2.566, 2.524, 2.486, 2.453, 2.423, 2.396, 2.371, 2.349, 2.328, 2.309, 2.292, 2.275, 2.260,
    2.246, 2.232, 2.220,
];

/// The 95 % point of the normal distribution.
const Z: f64 = 1.644_853_627;

/// The factor for a number of runs; `None` for fewer than two, which have no spread.
pub(crate) fn tolerance_factor(runs: usize) -> Option<f64> {
    let listed = runs.checked_sub(2)?;
    if let Some(factor) = FACTORS.get(listed) {
        return Some(*factor);
    }
    // Natrella's approximation: 0.5 % too small at 31 and nearer beyond, which the last factor makes up for.
    let n = runs as f64;
    let a = 1.0 - Z * Z / (2.0 * (n - 1.0));
    let b = Z * Z - Z * Z / n;
    Some(1.005 * (Z + (Z * Z - a * b).sqrt()) / a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_factors() {
        for (runs, expected) in [
            (3, 7.656),
            (8, 3.187),
            (20, 2.396),
            (31, 2.208),
            (50, 2.065),
            (100, 1.927),
            (1000, 1.727),
        ] {
            let found = tolerance_factor(runs).unwrap();
            assert!((found / expected - 1.0).abs() < 0.006, "{runs}: {found}");
            assert!(found > expected - 0.0006, "{runs}: never too small");
        }
        assert_eq!(tolerance_factor(1), None);
        assert_eq!(tolerance_factor(0), None);
    }

    #[test]
    fn more_runs_need_fewer_deviations() {
        let factors: Vec<f64> = (2..200).filter_map(tolerance_factor).collect();
        assert!(factors.windows(2).all(|pair| pair[0] > pair[1]));
    }
}
