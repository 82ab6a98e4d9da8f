//! `nilo profile`: measure for a while, then report levels and statistics.

use std::path::Path;

use nilo_analysis::profile::{Profile, profile};
use nilo_analysis::summarize;
use nilo_runfile::unix_nanos;
use nilo_sample::units::to_secs;
use serde::Serialize;

use crate::args::{ProfileArgs, TextOrJson};
use crate::commands::run::check_writable;
use crate::failure::Failure;
use crate::live::{Levels, Plan, Reporter, Seen, Session, Target, why_no_gpus};
use crate::settings::Settings;
use crate::text::json::write_json;
use crate::text::profile::write_profile;

const USUAL_NANOS: u64 = 60_000_000_000;
/// A tree of a thousand workers is not listed whole.
const MOST_WATCHED: usize = 100;

/// The report; `devices` and `summary` are as `nilometer.memory.MemoryProfiler` writes them.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    schema: &'static str,
    timestamp: String,
    pub(crate) duration_secs: f64,
    interval_secs: f64,
    #[serde(flatten)]
    pub(crate) profile: Profile,
    /// The processes, largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) watched: Vec<Watched>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    /// What could not be measured.
    pub(crate) notes: Vec<String>,
}

/// One process of those that were looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Watched {
    pub(crate) pid: u32,
    pub(crate) name: String,
    command: String,
    rss_bytes: Option<u64>,
    pub(crate) peak_rss_bytes: Option<u64>,
    ended_secs: Option<f64>,
}

pub(crate) fn run(args: ProfileArgs, settings: &Settings) -> Result<u8, Failure> {
    let target = Target::settle(&args.live)?;
    check_writable(args.output.as_deref(), "report")?;
    let quiet = args.live.quiet || settings.is_quiet();
    let duration_nanos = match args.live.duration {
        None => Some(USUAL_NANOS),
        Some(0) => None,
        asked => asked,
    };
    let session = Session {
        target,
        args: &args.live,
        place: &args.place,
        settings,
        duration_nanos,
        slack_nanos: 0,
        is_kept: true,
    };
    let levels = match quiet {
        true => Levels::Off,
        false => Levels::OnTerminal,
    };
    let seen = session.watch(Plan {
        threshold_percent: None,
        leaks: None,
        reporter: Reporter::new(args.format, levels, 100.0),
    })?;
    let report = Report::of(&seen)?;
    let written = report.write(args.output.as_deref());
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => {
            write_json(&mut out, &report)?;
        }
        TextOrJson::Text => write_profile(&mut out, &report, args.output.as_deref())?,
    }
    written.map(|()| 0)
}

impl Report {
    pub(crate) fn of(seen: &Seen) -> Result<Report, Failure> {
        let (recording, ending) = seen.load()?;
        let profile = profile(&recording, seen.end_nanos(), seen.looks);
        let summary = summarize(&recording, &ending);
        let mut notes = Vec::new();
        if profile.devices.is_empty() {
            let held_nowhere = || "the processes hold no GPU memory".to_owned();
            notes.push(why_no_gpus().unwrap_or_else(held_nowhere));
        }
        notes.extend(summary.blind_spots);
        let watched = summary.processes.into_iter().take(MOST_WATCHED);
        Ok(Report {
            schema: "nilo.profile/1",
            timestamp: local_time(),
            duration_secs: to_secs(seen.end_nanos()),
            interval_secs: to_secs(seen.interval_nanos),
            profile,
            watched: watched
                .map(|process| Watched {
                    pid: process.pid,
                    name: process.name,
                    command: process.command,
                    rss_bytes: process.last_rss_bytes,
                    peak_rss_bytes: process.peak_rss_bytes,
                    ended_secs: process.ended_secs,
                })
                .collect(),
            run: seen.run_path(),
            notes,
        })
    }

    /// Writes the file, if one is asked for.
    pub(crate) fn write(&self, path: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = path else { return Ok(()) };
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text + "\n").map_err(|error| {
            let sentence = format!("cannot write the report {}: {error}", path.display());
            Failure::new(sentence).hint("--format json prints it instead")
        })
    }
}

/// As Python's `datetime.now().isoformat(timespec="seconds")`.
fn local_time() -> String {
    let now = jiff::Timestamp::from_nanosecond(i128::from(unix_nanos())).unwrap_or_default();
    now.to_zoned(jiff::tz::TimeZone::system())
        .strftime("%Y-%m-%dT%H:%M:%S")
        .to_string()
}
