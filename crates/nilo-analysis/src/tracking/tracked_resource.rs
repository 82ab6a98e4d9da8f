//! One resource with its forecaster.

use nilo_forecast::{Forecast, Forecaster, Growth, LEAST_GROWTH_SHARE, Reading, RiskLevel};
use nilo_sample::units::to_secs;
use serde::Serialize;

use super::resource_verdict::ResourceVerdict;
use super::resources::Resource;

/// Growth below this share of the level is not worth a word where no limit is known.
const LEAST_GROWTH_OF_LEVEL: f64 = 0.05;

/// What is known of it so far.
#[derive(Debug, Clone, Default)]
pub(super) struct TrackedResource {
    pub(super) forecaster: Forecaster,
    pub(super) reading: Reading,
    /// The fullest reading since the last look at the risks.
    pub(super) fullest: Option<Reading>,
    pub(super) level: RiskLevel,
    pub(super) readings: u64,
    pub(super) first_nanos: u64,
    /// Only changes are written of it, so no row means that it stays as it was.
    pub(super) is_standing: bool,
}

/// A resource's risk became another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RiskChange {
    /// When, in nanoseconds since the run began.
    pub time_nanos: u64,
    /// Of what.
    pub resource: Resource,
    /// What it was before.
    pub before: RiskLevel,
    /// The forecast that changed it.
    pub forecast: Forecast,
    /// The reading that it rests on.
    #[serde(skip)]
    pub reading: Reading,
}

impl TrackedResource {
    pub(super) fn put(&mut self, resource: Resource, reading: Reading) -> Option<RiskChange> {
        self.forecaster.observe(&reading);
        if self.readings == 0 {
            self.first_nanos = reading.time_nanos;
        }
        self.readings += 1;
        self.reading = reading;
        self.is_standing = resource.is_written_on_change();
        self.see_level(reading);
        let forecast = *self.forecaster.forecast();
        if forecast.level == self.level {
            return None;
        }
        let before = std::mem::replace(&mut self.level, forecast.level);
        Some(RiskChange {
            time_nanos: reading.time_nanos,
            resource,
            before,
            forecast,
            reading,
        })
    }

    /// A level that thresholds are held against, whether or not it becomes a reading.
    pub(super) fn see_level(&mut self, reading: Reading) {
        let is_fuller = |fullest: Reading| reading.needed_bytes() > fullest.needed_bytes();
        if self.fullest.is_none_or(is_fuller) {
            self.fullest = Some(reading);
        }
    }

    /// The fullest reading since the last call. One that still stands is placed at `now_nanos`, one that is over has its own time.
    pub(super) fn take_fullest(&mut self, now_nanos: u64) -> Reading {
        let newest = Reading {
            time_nanos: now_nanos,
            ..self.reading
        };
        let fullest = self.fullest.take();
        fullest
            .filter(|fullest| fullest.needed_bytes() > newest.needed_bytes())
            .unwrap_or(newest)
    }

    pub(super) fn verdict(
        &self,
        resource: &Resource,
        least_growth_bytes: Option<f64>,
    ) -> ResourceVerdict {
        let least = least_growth_bytes.unwrap_or_else(|| self.least_growth_bytes());
        // The machine's view of a job is the job's own.
        let is_told_elsewhere = *resource == Resource::Host && self.reading.own_bytes.is_some();
        let growth = self.forecaster.growth(least).filter(|_| !is_told_elsewhere);
        let paused_growth = match growth {
            None if !is_told_elsewhere => self.forecaster.paused_growth(least),
            _ => None,
        };
        ResourceVerdict {
            paused_growth,
            ..self.verdict_of(resource, self.reading, growth)
        }
    }

    pub(super) fn least_growth_bytes(&self) -> f64 {
        match self.reading.limit_bytes {
            Some(limit) => LEAST_GROWTH_SHARE * limit,
            None => LEAST_GROWTH_OF_LEVEL * self.reading.used_bytes,
        }
    }

    pub(super) fn verdict_of(
        &self,
        resource: &Resource,
        reading: Reading,
        growth: Option<Growth>,
    ) -> ResourceVerdict {
        ResourceVerdict {
            resource: resource.clone(),
            forecast: *self.forecaster.forecast(),
            growth,
            paused_growth: None,
            growth_ahead: None,
            job_share: self.forecaster.job_share_of_growth(),
            odd_peers: Vec::new(),
            too_young: self.forecaster.is_too_young(),
            too_young_to_forecast: self.forecaster.is_too_young_to_forecast(),
            may_be_loading: self.forecaster.may_be_loading(),
            is_limit_given: false,
            led_to_end: false,
            readings: self.readings,
            watched_secs: to_secs(self.reading.time_nanos.saturating_sub(self.first_nanos)),
            judged_secs: self.forecaster.judged_secs(),
            reading,
        }
    }
}
