//! The rivals: what monitors do today, under one rule for alarms.
//!
//! They see `used_bytes` and `limit_bytes` and nothing else, as their originals do.
//! None of them has a notion of probability: their confidence is 1 while they expect the limit within the horizon, else 0.

mod growth;
mod line;
mod linear;
mod rule;
mod slope;
mod threshold;

pub use growth::FirstToLastGrowth;
pub use linear::Linear;
pub use slope::Slope;
pub use threshold::Threshold;

use crate::predictor::Predictor;

/// Makes a fresh predictor for each trace.
pub type PredictorFactory = Box<dyn Fn() -> Box<dyn Predictor>>;

fn maker<P: Predictor + 'static>(make: impl Fn() -> P + 'static) -> PredictorFactory {
    Box::new(move || Box::new(make()))
}

/// Every rival, in the order of the tables.
pub fn baselines() -> Vec<PredictorFactory> {
    vec![
        maker(Threshold::default),
        maker(|| Linear::new("OLS 60 s", 60.0)),
        maker(|| Linear::new("OLS 60 s, used > 60 %", 60.0).above(0.6)),
        maker(|| Linear::new("OLS 600 s", 600.0)),
        maker(|| Linear::new("OLS 600 s, used > 60 %", 600.0).above(0.6)),
        maker(|| Linear::new("OLS 600 s, R² ≥ 0.8", 600.0).explaining(0.8)),
        maker(|| {
            Linear::new("node-mixin: OLS 600 s, > 60 %, for 3 min", 600.0)
                .above(0.6)
                .pending(180.0)
        }),
        maker(FirstToLastGrowth::default),
        maker(Slope::default),
    ]
}
