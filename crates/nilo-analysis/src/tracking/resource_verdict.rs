//! What is to be said of a resource.

use nilo_forecast::{Cause, Forecast, Growth, GrowthKind, Reading, words};
use nilo_sample::words::rate_in_words;
use serde::Serialize;

use super::before_endings::BeforeEndings;
use super::peers::GrowingPeer;
use super::resources::Resource;
use super::tracked_resource::TrackedResource;

/// The longest time, to a tenth of a second, that is less than the ten seconds without which there is no verdict.
const JUST_TOO_SHORT_SECS: f64 = 9.9;
/// A job that did less than this share of a growth does not grow.
const NO_PART: f64 = 0.05;
/// Most of a growth.
const MOSTLY: f64 = 0.5;

/// What is to be said of a resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResourceVerdict {
    /// Of what.
    pub resource: Resource,
    /// Where it goes.
    pub forecast: Forecast,
    /// Whether what is held grows without end.
    pub growth: Option<Growth>,
    /// Where it does not: growth that stopped a moment ago, too short a time to say whether it would go on.
    #[serde(skip)]
    pub paused_growth: Option<Growth>,
    /// The growth that leads to its limit, if it goes on: its own, or on the machine that of a job without a limit.
    #[serde(skip)]
    pub growth_ahead: Option<Growth>,
    /// In a cgroup that others are in too: the job's share of the growth that the forecast rests on.
    #[serde(skip)]
    pub job_share: Option<f64>,
    /// Processes of the job that grow while others of their kind stand still.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub odd_peers: Vec<GrowingPeer>,
    /// Whether it was watched for too short a time to call any growth a leak.
    pub too_young: bool,
    /// Whether it was watched for too short a time to forecast where it goes.
    #[serde(skip)]
    pub too_young_to_forecast: bool,
    /// Whether the program may still be loading what it works with.
    pub may_be_loading: bool,
    /// Whether its limit was given by hand, so that a level above it means that the limit is wrong.
    #[serde(skip)]
    pub is_limit_given: bool,
    /// Whether its growth ended in running out of memory.
    pub led_to_end: bool,
    /// How many readings this rests on.
    pub readings: u64,
    /// From the first of them to the newest.
    pub watched_secs: f64,
    /// The time that judgements rest on: from the second reading on, gaps cut out.
    #[serde(skip)]
    pub judged_secs: f64,
    /// The newest reading.
    #[serde(skip)]
    pub reading: Reading,
}

impl ResourceVerdict {
    /// Of something that no reading is there of.
    pub fn unmeasured(resource: Resource) -> ResourceVerdict {
        let nothing = TrackedResource::default();
        nothing.verdict_of(&resource, Reading::default(), None)
    }

    /// Whether it is not known who makes it grow: everybody on a machine writes to `/dev/shm`.
    pub(crate) fn is_growth_of_nobody(&self) -> bool {
        self.resource == Resource::SharedMemory && self.reading.own_bytes.is_none()
    }

    /// Whether it is said to fill, and not known by whom.
    pub(crate) fn is_filler_unknown(&self) -> bool {
        let cause = self.forecast.cause;
        let is_filling = cause.is_some_and(|cause| cause != Cause::AboveLimit);
        is_filling && self.is_growth_of_nobody()
    }

    /// Why its forecast says what it says; in a cgroup that others are in too with the job's part of it.
    pub(crate) fn reason_in_words(&self) -> String {
        // A resource that was read a moment ago has a limit and no forecast yet.
        let used_share = self.reading.used_share();
        let forecast = &Forecast {
            used_share: used_share.or(self.forecast.used_share),
            ..self.forecast
        };
        if forecast.cause.is_none() && used_share.is_some() {
            return self.reason_without_forecast(forecast);
        }
        let grower = self.resource.grower(forecast, &self.reading);
        let share = self.job_share.zip(forecast.bytes_per_sec);
        let Some((share, rate)) = share.filter(|_| forecast.cause != Some(Cause::Leak)) else {
            return words::reason(forecast, &grower);
        };
        let told = match forecast.cause {
            // Who it is follows here.
            Some(Cause::Neighbour) => Forecast {
                cause: Some(Cause::Growth),
                ..*forecast
            },
            _ => *forecast,
        };
        let told = words::reason(&told, &grower);
        let own_rate = share * rate;
        match share < NO_PART {
            true => format!("{told}, this job does not"),
            false => format!(
                "{told}, this job by {}",
                rate_in_words(own_rate, own_rate, own_rate)
            ),
        }
    }

    /// Nothing is forecast. That is not to say that nothing grows: whoever asks about leaks hears of the same growth.
    fn reason_without_forecast(&self, forecast: &Forecast) -> String {
        match &self.growth_ahead {
            Some(growth) => {
                let is_of_job = self.resource == Resource::Host && self.growth.is_none();
                let grower = match is_of_job {
                    true => &Resource::Job,
                    false => &self.resource,
                };
                words::growth_without_forecast(growth, &grower.to_string())
            }
            None if self.too_young_to_forecast => {
                words::too_short_to_forecast(&self.resource.to_string())
            }
            None => words::reason(forecast, &self.resource.grower(forecast, &self.reading)),
        }
    }

    /// Whether what grows are files in `/dev/shm` or another tmpfs.
    pub(crate) fn grows_in_tmpfs(&self) -> bool {
        let growth = self.growth.as_ref();
        self.resource == Resource::SharedMemory || growth.is_some_and(|growth| growth.is_in_tmpfs)
    }

    /// Whether most of its growth is shared memory that processes map, without a file that somebody could delete.
    pub fn grows_in_shared_mappings(&self) -> bool {
        let growth = self.growth.filter(|growth| !growth.is_in_tmpfs);
        let mapped = self.reading.shared_mapping_bytes;
        growth
            .zip(mapped)
            .is_some_and(|(growth, mapped)| mapped >= MOSTLY * growth.grown_bytes)
    }

    /// A job whose processes are ending is judged as it was before.
    pub(super) fn look_before_the_end(
        &mut self,
        before: Option<BeforeEndings>,
        least_bytes: Option<f64>,
    ) {
        let Some(before) = before else { return };
        let kind = |growth: &Option<Growth>| growth.map(|growth| growth.kind);
        let large = |growth: &Growth| least_bytes.is_none_or(|least| growth.grown_bytes >= least);
        if kind(&before.growth) > kind(&self.growth) {
            self.growth = before.growth.filter(large);
        }
    }

    /// Whether only the job's own part of something that everybody on the machine uses is looked at.
    pub fn is_of_job_alone(&self) -> bool {
        let is_everybodys = matches!(
            self.resource,
            Resource::Host | Resource::Gpu { .. } | Resource::SharedMemory
        );
        is_everybodys && self.reading.own_bytes.is_some()
    }

    /// For how long that part is known, where it is too short a time although the resource was watched for longer.
    pub fn job_part_secs(&self) -> Option<f64> {
        let is_known_later = self.watched_secs >= JUST_TOO_SHORT_SECS;
        let is_short = self.too_young && self.is_of_job_alone() && is_known_later;
        is_short.then_some(self.judged_secs)
    }

    /// What is said of growth that [may be loading](ResourceVerdict::growth_may_be_loading), by everybody who speaks of it.
    pub fn loading_in_words(&self) -> Option<&'static str> {
        let is_stepping = self.reading.step.is_some();
        self.growth_may_be_loading()
            .then(|| words::may_be_loading(is_stepping))
    }

    /// How long it was watched, as it is told: never as long as would be enough where it was too short.
    pub fn told_secs(&self) -> f64 {
        match self.too_young && self.watched_secs > self.judged_secs {
            // Ten seconds, or what is written as ten, would be enough.
            true if self.watched_secs >= JUST_TOO_SHORT_SECS => {
                self.judged_secs.min(JUST_TOO_SHORT_SECS)
            }
            _ => self.watched_secs,
        }
    }

    /// Whether its growth may be the loading of what the program works with. That is said with the verdict, and nobody is alerted of it.
    pub fn growth_may_be_loading(&self) -> bool {
        let may_end = self.may_be_loading && !self.led_to_end;
        may_end && self.growth.is_some() && self.odd_peers.is_empty()
    }

    /// One process that grows among peers that do not is a leak, even where the sum of all does not show it yet.
    pub(super) fn compare_peers(&mut self, odd_peers: Vec<GrowingPeer>) {
        let Some(fastest) = odd_peers.first() else {
            return;
        };
        let theirs = |sum: fn(&GrowingPeer) -> f64| odd_peers.iter().map(sum).sum::<f64>();
        let grown_bytes = theirs(|odd| odd.grown_bytes);
        match &mut self.growth {
            Some(growth) if grown_bytes >= 0.5 * growth.grown_bytes => {
                growth.kind = GrowthKind::Leak;
            }
            Some(_) => {}
            None => {
                self.growth = Some(Growth {
                    kind: GrowthKind::Leak,
                    bytes_per_sec: theirs(|odd| odd.bytes_per_sec),
                    bytes_per_sec_low: theirs(|odd| odd.bytes_per_sec_low),
                    bytes_per_sec_high: theirs(|odd| odd.bytes_per_sec_high),
                    grown_bytes,
                    lasted_secs: fastest.compared_secs,
                    paused_secs: 0.0,
                    is_in_tmpfs: false,
                    level_bytes: None,
                });
            }
        }
        self.odd_peers = odd_peers;
    }
}
