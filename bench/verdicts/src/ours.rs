//! Everything that competes: our forecaster, then the rivals.

use nilo_forecast::{Forecast, Forecaster, GrowthKind, Reading, RiskLevel};

use crate::baselines::{PredictorFactory, baselines};
use crate::predictor::{HORIZON_SECS, Predictor, PredictorOutput};
use crate::trace::TracePoint;

/// In the order of the tables.
pub fn predictors() -> Vec<PredictorFactory> {
    let ours: PredictorFactory = Box::new(|| Box::new(Nilometer::default()));
    std::iter::once(ours).chain(baselines()).collect()
}

/// The forecaster of `nilo-analysis`, as the recorder uses it.
#[derive(Default)]
struct Nilometer {
    forecaster: Forecaster,
    limit_bytes: f64,
}

/// Growth below this share of the limit is nobody's concern.
const LEAST_GROWTH: f64 = 0.01;

impl Predictor for Nilometer {
    fn name(&self) -> &'static str {
        "nilometer"
    }

    fn observe(&mut self, point: &TracePoint) {
        if point
            .mark
            .as_deref()
            .is_some_and(|mark| mark.contains("epoch"))
        {
            self.forecaster.boundary();
        }
        self.limit_bytes = point.limit_bytes.unwrap_or(self.limit_bytes);
        self.forecaster.observe(&Reading {
            time_nanos: point.time_nanos,
            used_bytes: point.used_bytes,
            limit_bytes: point.limit_bytes,
            held_bytes: point.held_bytes,
            reclaimable_bytes: point.reclaimable_bytes,
            children_bytes: point.children_bytes,
            own_bytes: point.own_bytes,
            swap_used_bytes: point.swap_used_bytes,
            swap_total_bytes: point.swap_total_bytes,
            pressure_full: point.pressure_full,
            step: point.step,
            ..Reading::default()
        });
    }

    fn judge(&mut self) -> PredictorOutput {
        let forecast = self.forecaster.forecast();
        PredictorOutput {
            seconds: forecast.seconds,
            seconds_low: forecast.seconds_low,
            seconds_high: forecast.seconds_high,
            confidence: forecast.confidence * share_within(forecast, HORIZON_SECS),
            alarm: forecast.level >= RiskLevel::High,
        }
    }

    fn leak(&mut self) -> Option<bool> {
        let growth = self.forecaster.growth(LEAST_GROWTH * self.limit_bytes);
        Some(growth.is_some_and(|growth| growth.kind == GrowthKind::Leak))
    }
}

/// How much of the forecast's interval lies within the horizon, on a logarithmic scale and with the tenth beyond each end.
fn share_within(forecast: &Forecast, horizon_secs: f64) -> f64 {
    let (Some(low), Some(high)) = (forecast.seconds_low, forecast.seconds_high) else {
        return 0.0;
    };
    let place = (horizon_secs / low).ln() / (high / low).ln().max(1e-9);
    (0.1 + 0.8 * place).clamp(0.0, 1.0)
}
