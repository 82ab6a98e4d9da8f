//! `nilo leak` of what runs: looks at processes for a while and names who grows.
//!
//! Of several programs each process is judged by itself too: together, one that swings would hide one that leaks.

use nilo_analysis::tracking::over_processes;
use nilo_answer::growths::{GrowthFindings, ResourceGrowth};
use nilo_sample::units::to_secs;
use nilo_sample::words::duration_in_words;

use crate::args::LeakArgs;
use crate::commands::leak::answer;
use crate::failure::Failure;
use crate::live::{LevelDisplay, MonitorSettings, Reporter, Session, WatchTarget};
use crate::settings::Settings;

/// The leak finder says nothing before this.
const LEAST_NANOS: u64 = 10_000_000_000;
/// A few cycles of a training loop.
const USUAL_NANOS: u64 = 30_000_000_000;
/// The first sample comes a moment after the start.
const SLACK_NANOS: u64 = 500_000_000;

pub(crate) fn run(
    args: &LeakArgs,
    least_bytes: Option<f64>,
    settings: &Settings,
) -> Result<u8, Failure> {
    let quiet = args.live.quiet || settings.is_quiet();
    let duration_nanos = match args.live.duration {
        None => Some(USUAL_NANOS),
        Some(0) => None,
        Some(nanos) if nanos < LEAST_NANOS => {
            let secs = duration_in_words(to_secs(nanos));
            return Err(
                Failure::new(format!("{secs} is too short to detect a leak"))
                    .hint("use at least 10 seconds, better 30; 0 means until Ctrl+C"),
            );
        }
        Some(nanos) => Some(nanos),
    };
    let session = Session {
        target: WatchTarget::settle_programs(&args.live)?,
        args: &args.live,
        place: &args.judged.place,
        settings,
        duration_nanos,
        slack_nanos: SLACK_NANOS,
        // Nobody asked to record whoever happens to run.
        is_kept: args.live.names_processes(),
    };
    let levels = match quiet {
        true => LevelDisplay::Off,
        false => LevelDisplay::OnTerminal,
    };
    let mut seen = session.watch(MonitorSettings {
        threshold_percent: None,
        leaks: None,
        reporter: Reporter::new(args.format, levels, 100.0),
    })?;
    let mut diagnosis = seen.diagnosis();
    diagnosis.recording = Some(seen.load()?.0);
    let mut growths = GrowthFindings::of(&diagnosis, least_bytes);
    if let (2.., Some(recording)) = (seen.target.pids.len(), &diagnosis.recording) {
        let each = over_processes(recording).verdicts(least_bytes);
        let grown = each.into_iter().filter(|verdict| verdict.growth.is_some());
        growths.each.extend(grown.map(|verdict| ResourceGrowth {
            verdict,
            below_threshold: None,
        }));
    }
    if growths.is_too_short() {
        // The first reading may have come late: a driver that opens, a process that starts.
        let secs = duration_in_words(growths.watched_secs());
        let what = match seen.is_over() {
            true => "it ended before that",
            false => "set a longer time with --duration",
        };
        return Err(Failure::new(format!(
            "{} was monitored for {secs}, which is too short to detect a leak",
            seen.target.label
        ))
        .hint(format!(
            "at least 10 seconds from the first sample are needed; {what}"
        )));
    }
    answer(&diagnosis, &growths, args)
}
