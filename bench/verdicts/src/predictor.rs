//! What competes: something that sees one series point by point and can be asked at any time how it will go on.

use crate::trace::TracePoint;

/// An alarm means that the limit is expected within this time; a confidence is the probability of it.
pub const HORIZON_SECS: f64 = 600.0;

/// A forecaster of one series.
pub trait Predictor {
    /// As it appears in tables.
    fn name(&self) -> &'static str;

    /// Whether it forecasts OOMs; one that only finds leaks is left out of those tables.
    fn forecasts(&self) -> bool {
        true
    }

    /// Takes in the next point, in ascending time.
    fn observe(&mut self, point: &TracePoint);

    /// What is expected after the points seen so far. Asked at regular times, every ten seconds in most traces.
    fn judge(&mut self) -> PredictorOutput;

    /// Whether the series leaks, asked once after its last point; `None`: this predictor does not say.
    fn leak(&mut self) -> Option<bool> {
        None
    }
}

/// What a predictor says at one time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PredictorOutput {
    /// Until the limit is reached; `None`: not in sight, or the predictor does not say when.
    pub seconds: Option<f64>,
    /// Lower end of the interval that should hold the true time in four of five cases.
    pub seconds_low: Option<f64>,
    /// Its upper end; may be infinite.
    pub seconds_high: Option<f64>,
    /// Probability of an OOM within [`HORIZON_SECS`], 0 to 1.
    pub confidence: f64,
    /// Whether a person would be told.
    pub alarm: bool,
}
