//! What a tracker says of all its resources: each told once, and all of them agreed.

use nilo_forecast::{Cause, LOADING_SECS, Reading, RiskLevel, leak_ahead};

use super::resource_verdict::ResourceVerdict;
use super::resources::Resource;
use super::tracked_resource::TrackedResource;
use super::tracker::ResourceTracker;

impl ResourceTracker {
    /// What is to be said of every resource, the most dangerous first. `least_growth_bytes` replaces the usual threshold for growth.
    pub fn verdicts(&self, least_growth_bytes: Option<f64>) -> Vec<ResourceVerdict> {
        let mut verdicts: Vec<ResourceVerdict> = self
            .watched
            .iter()
            .map(|(resource, watched)| self.verdict(resource, watched, least_growth_bytes))
            .collect();
        tell_once(&mut verdicts);
        self.agree_on_leaks(&mut verdicts);
        verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.forecast.level));
        verdicts
    }

    /// Where every resource goes, with its fullest reading since the last call. Growth costs more to tell: it is looked for where a risk is said to come of it,
    /// so that whoever is warned hears the same word for it as from [`ResourceTracker::verdicts`].
    ///
    /// Newest readings are placed at the run's newest time: a level of which nothing more was written has stayed as it was.
    pub fn risks(&mut self) -> Vec<ResourceVerdict> {
        let times = self.watched.values().map(|it| it.reading.time_nanos);
        let now_nanos = times.max().unwrap_or(0);
        let fullest = self.watched.values_mut();
        let fullest: Vec<Reading> = fullest.map(|it| it.take_fullest(now_nanos)).collect();
        let looked_at = self.watched.iter().zip(fullest);
        let mut risks: Vec<ResourceVerdict> = looked_at
            .map(
                |((resource, watched), reading)| match self.is_growth_a_risk(resource) {
                    true => ResourceVerdict {
                        reading,
                        ..self.verdict(resource, watched, None)
                    },
                    false => watched.verdict_of(resource, reading, None),
                },
            )
            .collect();
        tell_once(&mut risks);
        self.agree_on_leaks(&mut risks);
        risks
    }

    /// Whether a risk is said to come of growth: of the resource's own, or of the machine's where a job without a limit leaks into it.
    fn is_growth_a_risk(&self, resource: &Resource) -> bool {
        let of_growth = |watched: &TrackedResource| {
            let forecast = watched.forecaster.forecast();
            forecast.level > RiskLevel::Low && forecast.cause == Some(Cause::Growth)
        };
        let is_risk = |resource: &Resource| self.watched.get(resource).is_some_and(of_growth);
        is_risk(resource) || *resource == Resource::Job && is_risk(&Resource::Host)
    }

    fn verdict(
        &self,
        resource: &Resource,
        watched: &TrackedResource,
        least: Option<f64>,
    ) -> ResourceVerdict {
        let mut verdict = watched.verdict(resource, least);
        let loading_secs = self.loading_secs.unwrap_or(LOADING_SECS) - self.prior_runtime.secs();
        verdict.may_be_loading = watched.forecaster.may_be_loading_for(loading_secs);
        // What is mapped and never touched is no leak; what is touched is the job's memory.
        if resource.is_of_addresses() || !self.latest.of_machine && verdict.is_growth_of_nobody() {
            verdict.growth = None;
            verdict.paused_growth = None;
        }
        if matches!(resource, Resource::Job | Resource::Track { .. }) {
            verdict.is_limit_given = self.latest.given_limit_bytes.is_some();
        }
        if *resource == Resource::Job {
            let now = verdict.reading.time_nanos;
            let ending = self.before_endings.filter(|before| before.is_now(now));
            verdict.look_before_the_end(ending, least);
            verdict.compare_peers(self.peers.odd(least, ending.is_some()));
        }
        let mut ran_out = self.ran_out.iter();
        verdict.led_to_end = ran_out.any(|ran_out| ran_out.is_led_to_by(resource));
        verdict
    }

    /// Whoever is told of a leak is told where it leads. A job without a limit of its own leaks into the machine's memory, whatever limit was given by hand.
    fn agree_on_leaks(&self, verdicts: &mut [ResourceVerdict]) {
        let is_unlimited_job = |verdict: &&ResourceVerdict| {
            let is_given = verdict.is_limit_given && !self.latest.has_own_limit();
            let is_unlimited = verdict.reading.limit().is_none() || is_given;
            verdict.resource == Resource::Job && is_unlimited
        };
        let of_job = verdicts.iter().find(is_unlimited_job);
        let of_job = of_job.and_then(|job| job.growth);
        for verdict in verdicts {
            let growth = match verdict.resource {
                Resource::Host => verdict.growth.or(of_job),
                _ => verdict.growth,
            };
            verdict.forecast = leak_ahead(&verdict.forecast, growth.as_ref(), &verdict.reading);
            verdict.growth_ahead = growth;
        }
    }
}

/// What the job writes to `/dev/shm` is its own growth, where its memory counts such files.
fn tell_once(verdicts: &mut [ResourceVerdict]) {
    let is_of_job = |verdict: &ResourceVerdict| {
        let growth = verdict.growth.filter(|growth| growth.is_in_tmpfs);
        verdict.resource == Resource::Job && growth.is_some()
    };
    if verdicts.iter().any(is_of_job) {
        let mut each = verdicts.iter_mut();
        if let Some(shared) = each.find(|verdict| verdict.resource == Resource::SharedMemory) {
            shared.growth = None;
        }
    }
}
