//! What `nilo leak` answers: what grows without end.

use nilo_analysis::findings::MemoryHolder;
use nilo_analysis::tracking::{GrowingPeer, Resource};
use nilo_forecast::{Growth, GrowthKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::diagnosis::{DiagnosedSource, Diagnosis};
use crate::growths::{GrowthFindings, ResourceGrowth};

/// The value of [`LeakAnswer::schema`].
pub const LEAK_SCHEMA: &str = "nilo.leak/1";

/// What grows without end.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct LeakAnswer {
    /// `nilo.leak/1`.
    #[schemars(extend("const" = LEAK_SCHEMA))]
    pub schema: &'static str,
    /// What was judged.
    #[serde(flatten)]
    pub about: DiagnosedSource,
    /// Growth below this is ignored, in units of 2^20 bytes.
    pub threshold_mb: Option<f64>,
    /// Whether anything leaks.
    pub leak: bool,
    /// The processes that hold the growth of the job's memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grown_in: Vec<MemoryHolder>,
    /// Everything that was looked at, leaks first.
    pub resources: Vec<LeakResource>,
}

/// Something that may leak.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct LeakResource {
    /// Its name, such as `job memory`.
    pub name: String,
    /// What it is.
    pub resource: Resource,
    /// Whether only the job's own part of it is looked at, where everybody on the machine uses it.
    pub job_part_only: bool,
    /// What its growth is; `null` where it does not grow.
    pub kind: Option<GrowthKind>,
    /// How fast it grows.
    pub growth_bytes_per_sec: Option<f64>,
    /// In four of five cases faster than this ...
    pub growth_low_bytes_per_sec: Option<f64>,
    /// ... and slower than this.
    pub growth_high_bytes_per_sec: Option<f64>,
    /// By how much it has grown.
    pub grown_bytes: Option<f64>,
    /// Over how long a time.
    pub grown_over_secs: Option<f64>,
    /// Growth that the threshold leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_threshold: Option<Growth>,
    /// Growth that stopped before the end, too short a time to tell whether it would go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_growth: Option<PausedGrowth>,
    /// Processes that grow while others that do the same work stand still.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub odd_peers: Vec<GrowingPeer>,
    /// Whether the growth ended in running out of memory.
    pub led_to_end: bool,
    /// What counts against the limit and cannot be given back.
    pub used_bytes: f64,
    /// The limit, where one is known.
    pub limit_bytes: Option<f64>,
    /// Whether it was watched for too short a time to tell.
    pub too_short: bool,
    /// How often it was read.
    pub readings: u64,
    /// Over how long a time.
    pub watched_secs: f64,
}

/// Growth that stood still at the end.
#[derive(Debug, Clone, Copy, JsonSchema, Serialize)]
pub struct PausedGrowth {
    /// By how much it had grown.
    pub grown_bytes: f64,
    /// Over how long a time.
    pub grown_over_secs: f64,
    /// For how long it has stood still since.
    pub stood_still_secs: f64,
}

impl PausedGrowth {
    fn of(growth: Growth) -> PausedGrowth {
        PausedGrowth {
            grown_bytes: growth.grown_bytes,
            grown_over_secs: growth.lasted_secs,
            stood_still_secs: growth.paused_secs,
        }
    }
}

impl LeakAnswer {
    /// The answer for a diagnosis with its growths.
    pub fn of(
        diagnosis: &Diagnosis,
        growths: &GrowthFindings,
        threshold_mb: Option<f64>,
    ) -> LeakAnswer {
        LeakAnswer {
            schema: LEAK_SCHEMA,
            about: diagnosis.about(),
            threshold_mb,
            leak: growths.has_leaks(),
            grown_in: growths.holders.clone(),
            resources: growths.each.iter().map(LeakResource::of).collect(),
        }
    }
}

impl LeakResource {
    /// What is said of a resource.
    pub fn of(grown: &ResourceGrowth) -> LeakResource {
        let verdict = &grown.verdict;
        let growth = verdict.growth;
        LeakResource {
            name: verdict.resource.to_string(),
            resource: verdict.resource.clone(),
            job_part_only: verdict.is_of_job_alone(),
            kind: growth.map(|growth| growth.kind),
            growth_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec),
            growth_low_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec_low),
            growth_high_bytes_per_sec: growth.map(|growth| growth.bytes_per_sec_high),
            grown_bytes: growth.map(|growth| growth.grown_bytes),
            grown_over_secs: growth.map(|growth| growth.lasted_secs),
            below_threshold: grown.below_threshold,
            paused_growth: verdict
                .paused_growth
                .filter(|_| growth.is_none() && grown.below_threshold.is_none())
                .map(PausedGrowth::of),
            odd_peers: verdict.odd_peers.clone(),
            led_to_end: verdict.led_to_end && growth.is_some(),
            used_bytes: verdict.reading.needed_bytes(),
            limit_bytes: verdict.reading.limit_bytes,
            too_short: verdict.too_young,
            readings: verdict.readings,
            watched_secs: verdict.watched_secs,
        }
    }
}
