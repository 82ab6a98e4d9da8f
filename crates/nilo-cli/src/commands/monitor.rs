//! `nilo monitor`: levels, warnings and leaks while something runs, and a profile of it at the end.

use std::io::Write;

use nilo_analysis::lookout::Verdict;
use nilo_sample::units::to_secs;
use serde_json::json;

use crate::args::{MonitorArgs, TextOrJson};
use crate::commands::leak::{grown_first, is_leak, least_bytes};
use crate::commands::oom::check_threshold;
use crate::commands::profile::Report;
use crate::commands::run::check_writable;
use crate::failure::Failure;
use crate::live::{Leaks, Levels, Plan, Seen, Session, Target, Voice};
use crate::settings::Settings;
use crate::text::leak::leak_in_words;
use crate::text::one_line::one_line;
use crate::text::profile::write_profile;

const TEXT_CHARS: usize = 400;

/// Which parts are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    oom: bool,
    leak: bool,
    profile: bool,
}

impl Parts {
    fn of(args: &MonitorArgs) -> Parts {
        let all = args.all || !(args.oom || args.leak || args.profile);
        Parts {
            oom: all || args.oom,
            leak: all || args.leak,
            profile: all || args.profile || args.output.is_some(),
        }
    }
}

pub(crate) fn run(args: MonitorArgs, settings: &Settings) -> Result<u8, Failure> {
    check_threshold(args.threshold)?;
    let least_bytes = least_bytes(args.leak_threshold)?;
    let parts = Parts::of(&args);
    let target = Target::settle(&args.live)?;
    check_writable(args.output.as_deref(), "report")?;
    let session = Session {
        target,
        args: &args.live,
        place: &args.place,
        settings,
        duration_nanos: args.live.duration.filter(|nanos| *nanos > 0),
        is_kept: true,
    };
    let levels = match args.live.quiet || settings.quiet {
        true => Levels::Off,
        false => Levels::Always,
    };
    let mut seen = session.watch(Plan {
        threshold_percent: parts.oom.then_some(args.threshold),
        leaks: parts.leak.then_some(Leaks { least_bytes }),
        voice: Voice::new(args.format, levels),
    })?;
    let report = match parts.profile {
        true => Some(Report::of(&seen)?),
        false => None,
    };
    let output = args.output.as_deref();
    let written = report
        .as_ref()
        .map_or(Ok(()), |report| report.write(output));
    let warnings = seen.station.warnings;
    let leaks = match parts.leak {
        true => leaks(&mut seen, least_bytes),
        false => Vec::new(),
    };
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => {
            let end = json!({
                "event": "end", "secs": to_secs(seen.end_nanos()), "warnings": warnings, "leaks": leaks.len(),
                "ended": seen.is_over(), "oom_killed": seen.has_run_out(), "run": seen.run_path(), "profile": report,
            });
            writeln!(out, "{end}")?;
        }
        TextOrJson::Text => {
            if let Some(report) = &report {
                write_profile(&mut out, report, output)?;
            }
            if parts.oom {
                writeln!(out, "Warnings: {}", count(warnings))?;
            }
            if parts.leak {
                writeln!(out, "Leaks:    {}", count(leaks.len() as u64))?;
            }
            for leak in &leaks {
                writeln!(out, "  {}", one_line(leak, TEXT_CHARS))?;
            }
        }
    }
    written?;
    let found = warnings > 0 || !leaks.is_empty() || seen.has_run_out();
    Ok(u8::from(found))
}

/// What leaks at the end, as `nilo leak` would say, and what was told on the way and is over.
fn leaks(seen: &mut Seen, least_bytes: Option<f64>) -> Vec<String> {
    let told = std::mem::take(&mut seen.station.leaks);
    let mut verdicts = grown_first(&seen.outlook(), least_bytes);
    verdicts.retain(is_leak);
    let over = told.into_iter().filter(|alert| {
        let same = |verdict: &Verdict| verdict.resource.to_string() == alert.resource;
        !verdicts.iter().any(same)
    });
    let over: Vec<String> = over.map(|alert| alert.text).collect();
    verdicts.iter().map(leak_in_words).chain(over).collect()
}

fn count(number: u64) -> String {
    match number {
        0 => "none".to_owned(),
        number => number.to_string(),
    }
}
