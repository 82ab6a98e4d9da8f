//! Worker processes that grow: a leak, or an epoch whose end gives everything back?
//!
//! The first workers of a program show no difference yet. Three things speak for an epoch: a growth like this was given back before,
//! the program marks its epochs, or the growth slows down, as that of data that are copied bit by bit does.
//! Where none of them does and the limit is minutes away, it is called a leak. An even first epoch that ends just below the limit is the price.

use super::forecaster::Forecaster;
use super::track::Projection;
use super::trend::Trend;

/// Growth that may end with the epoch alarms only this near ...
const RESET_HORIZON_SECS: f64 = 150.0;
/// ... nearer still, where the program marks its epochs, ...
const EPOCH_HORIZON_SECS: f64 = 100.0;
/// ... and is believed this much.
pub(super) const MAY_RESET: f64 = 0.75;
/// Leaks that kill within this time of their beginning are called leaks; slower growth may be that of a long epoch.
/// At 3000 there were three more false alarms on the 80 calm traces with workers among the tuning seeds, and no more hits.
const KILLS_WITHIN_SECS: f64 = 600.0;
/// The second half of the workers' life brought at least this share of what the first one did. 0.96 scores the same.
const EVEN: f64 = 0.93;

impl Forecaster {
    /// How near the limit must be for an alarm about workers, on the growth alone.
    pub(super) fn workers_horizon_secs(&self) -> f64 {
        match self.last_boundary_secs {
            Some(_) => EPOCH_HORIZON_SECS,
            None => RESET_HORIZON_SECS,
        }
    }

    /// Whether workers that have leaked for so long kill soon, and nothing says that they end before.
    pub(super) fn is_leak_of_workers(&mut self, projection: &Projection, lasted_secs: f64) -> bool {
        lasted_secs + projection.secs <= KILLS_WITHIN_SECS
            && self.last_boundary_secs.is_none()
            && !self.workers_gave_back(&projection.trend)
            && self.workers_grow_evenly()
    }

    /// Whether earlier workers grew like this and ended.
    fn workers_gave_back(&self, trend: &Trend) -> bool {
        self.children
            .as_ref()
            .is_some_and(|children| children.swings.has_released(&children.rise(trend)))
    }

    /// Whether workers have grown at one pace for as long as they have lived.
    fn workers_grow_evenly(&mut self) -> bool {
        let Some(children) = &mut self.children else {
            return false;
        };
        let widest = children.envelope.scales().last();
        let life = widest.and_then(|scale| children.finder.rise(scale, 0.0, 0));
        life.is_some_and(|life| life.pace >= EVEN)
    }
}
