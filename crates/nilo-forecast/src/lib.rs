//! The forecast: will memory run out, when, and how sure is that.
//!
//! `reading.rs` is what goes in, `risk.rs` what comes out, `forecaster.rs` the way between:
//! a `track` keeps a level's `envelope` (lower and upper edge at many time scales) and its `swings` (rises that were given back);
//! a `trend` is a rise of the lower edge at one scale by `theil_sen`, the `transient` the height that comes again above it;
//! `stairs.rs` finds growth in steps, and `scenario.rs` weighs these ways to the limit; `workers.rs` asks whether workers leak or end with an epoch;
//! `growth.rs` tells a leak from growth that ends, `standstill.rs` which growth has ended, `stretch.rs` how far it really went, `leak_ahead.rs` where a leak leads, `level_trend.rs` where a level went in one word, and `words.rs` says all of it in sentences.

mod calibration;
mod envelope;
mod forecaster;
mod gate;
mod growth;
mod leak_ahead;
mod level_trend;
mod reading;
mod risk;
mod scenario;
mod stairs;
mod standstill;
mod stretch;
mod swings;
mod theil_sen;
mod track;
mod transient;
mod trend;
pub mod words;
mod workers;

pub use forecaster::Forecaster;
pub use forecaster::LEAST_GROWTH_SHARE;
pub use growth::{Growth, GrowthKind, LOADING_SECS};
pub use leak_ahead::leak_ahead;
pub use level_trend::{LevelTrend, level_trend};
pub use reading::Reading;
pub use risk::{Cause, Forecast, RiskLevel};
