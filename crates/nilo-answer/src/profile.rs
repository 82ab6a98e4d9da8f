//! What `nilo profile` answers: levels and statistics of a time of watching.

use nilo_analysis::profile::{Profile, ReadCounts, profile};
use nilo_analysis::summarize;
use nilo_analysis::summary::ProcessSummary;
use nilo_sample::units::to_secs;
use nilo_sample::{Ending, Recording};
use schemars::JsonSchema;
use serde::Serialize;

/// The value of [`ProfileAnswer::schema`].
pub const PROFILE_SCHEMA: &str = "nilo.profile/1";

/// A tree of a thousand workers is not listed whole.
const MOST_WATCHED: usize = 100;

/// The report; `devices` and `summary` are as `nilometer.memory.MemoryProfiler` writes them.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ProfileAnswer {
    /// `nilo.profile/1`.
    #[schemars(extend("const" = PROFILE_SCHEMA))]
    pub schema: &'static str,
    /// When it was made, in local time: `2026-11-15T07:55:30`.
    pub timestamp: String,
    /// How long it was measured.
    pub duration_secs: f64,
    /// How often.
    pub interval_secs: f64,
    /// Levels and statistics.
    #[serde(flatten)]
    pub profile: Profile,
    /// The processes, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watched: Vec<ProfiledProcess>,
    /// The folder of the run that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// What could not be measured.
    pub notes: Vec<String>,
}

/// One process of those that were measured.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct ProfiledProcess {
    /// PID.
    pub pid: u32,
    /// Recognisable name.
    pub name: String,
    /// Command line.
    pub command: String,
    /// The last resident memory.
    pub rss_bytes: Option<u64>,
    /// The largest.
    pub peak_rss_bytes: Option<u64>,
    /// When it left, if it did.
    pub ended_secs: Option<f64>,
}

/// What is known of a measurement beside its recording.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// When the report is made, in local time.
    pub timestamp: String,
    /// How long it took.
    pub duration_nanos: u64,
    /// How often was measured.
    pub interval_nanos: u64,
    /// How often each kind of thing was read.
    pub looks: ReadCounts,
    /// The folder of the run, where it is kept.
    pub run: Option<String>,
}

impl ProfileAnswer {
    /// The answer for a recording; `why_no_gpus` is asked where no GPU is in it.
    pub fn of(
        recording: &Recording,
        ending: &Ending,
        measurement: Measurement,
        why_no_gpus: impl FnOnce() -> Option<String>,
    ) -> ProfileAnswer {
        let profile = profile(recording, measurement.duration_nanos, &measurement.looks);
        let summary = summarize(recording, ending);
        let mut notes = Vec::new();
        if profile.devices.is_empty() {
            let held_nowhere = || "the processes hold no GPU memory".to_owned();
            notes.push(why_no_gpus().unwrap_or_else(held_nowhere));
        }
        notes.extend(summary.blind_spots);
        let processes = summary.processes.into_iter().take(MOST_WATCHED);
        ProfileAnswer {
            schema: PROFILE_SCHEMA,
            timestamp: measurement.timestamp,
            duration_secs: to_secs(measurement.duration_nanos),
            interval_secs: to_secs(measurement.interval_nanos),
            profile,
            watched: processes.map(ProfiledProcess::of).collect(),
            run: measurement.run,
            notes,
        }
    }
}

impl ProfiledProcess {
    fn of(process: ProcessSummary) -> ProfiledProcess {
        ProfiledProcess {
            pid: process.pid,
            name: process.name,
            command: process.command,
            rss_bytes: process.last_rss_bytes,
            peak_rss_bytes: process.peak_rss_bytes,
            ended_secs: process.ended_secs,
        }
    }
}
