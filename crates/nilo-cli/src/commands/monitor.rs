//! `nilo monitor`: levels, warnings and leaks while something runs, and a profile of it at the end.

use std::io::Write;

use nilo_sample::Alert;
use nilo_sample::units::to_secs;
use serde_json::json;

use crate::args::{MonitorArgs, TextOrJson};
use crate::commands::leak::{AnswerResource, least_bytes};
use crate::commands::oom::check_threshold;
use crate::commands::profile::Report;
use crate::commands::run::check_writable;
use crate::failure::Failure;
use crate::growths::{Grown, Growths};
use crate::live::{Leaks, Levels, Plan, Reporter, Seen, Session, Target};
use crate::settings::Settings;
use crate::text::leak::{LEAST_TIME, leak_in_words};
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
        slack_nanos: 0,
        is_kept: true,
    };
    let levels = match args.live.quiet || settings.is_quiet() {
        true => Levels::Off,
        false => Levels::Always,
    };
    let mut seen = session.watch(Plan {
        threshold_percent: parts.oom.then_some(args.threshold),
        leaks: parts.leak.then_some(Leaks { least_bytes }),
        reporter: Reporter::new(args.format, levels, args.threshold),
    })?;
    let report = match parts.profile {
        true => Some(Report::of(&seen)?),
        false => None,
    };
    let output = args.output.as_deref();
    let written = report
        .as_ref()
        .map_or(Ok(()), |report| report.write(output));
    if let Some(ran_out) = seen.ran_out().filter(|_| parts.oom) {
        seen.monitor.say_ran_out(&ran_out)?;
    }
    let warnings = seen.monitor.warnings;
    let Found {
        leaks,
        over,
        too_short,
    } = match parts.leak {
        true => find_leaks(&mut seen, least_bytes)?,
        false => Found::default(),
    };
    let leak_count = leaks.each.len() + over.len();
    // Nothing found in a time in which nothing can be found is no answer.
    let told_leaks = (leak_count > 0 || !too_short).then_some(leak_count as u64);
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => {
            let each: Vec<AnswerResource<'_>> = leaks.each.iter().map(AnswerResource::of).collect();
            let end = json!({
                "event": "end", "secs": to_secs(seen.end_nanos()), "warnings": warnings,
                "leaks": told_leaks, "leaking": each, "grown_in": leaks.holders, "leaks_over": over,
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
                let too_short = || format!("too short to tell ({LEAST_TIME})");
                let told = told_leaks.map_or_else(too_short, count);
                writeln!(out, "Leaks:    {told}")?;
            }
            let going_on = leaks.each.iter().map(|grown| leak_in_words(&leaks, grown));
            for leak in going_on.chain(over.into_iter().map(|alert| alert.text)) {
                writeln!(out, "  {}", one_line(&leak, TEXT_CHARS))?;
            }
        }
    }
    written?;
    let found = warnings > 0 || leak_count > 0 || seen.has_run_out();
    Ok(u8::from(found))
}

/// What was found of leaks.
#[derive(Default)]
struct Found {
    /// What leaks at the end, as `nilo leak` would say.
    leaks: Growths,
    /// What was told on the way and is over.
    over: Vec<Alert>,
    /// Whether there was too little time to find any.
    too_short: bool,
}

fn find_leaks(seen: &mut Seen, least_bytes: Option<f64>) -> Result<Found, Failure> {
    let told = std::mem::take(&mut seen.monitor.leaks);
    let mut diagnosis = seen.diagnosis();
    diagnosis.recording = Some(seen.load()?.0);
    let mut growths = Growths::of(&diagnosis, least_bytes);
    let too_short = growths.is_too_short();
    growths.each.retain(Grown::is_leak);
    let goes_on = |alert: &Alert| {
        let mut leaks = growths.each.iter();
        leaks.any(|grown| grown.verdict.resource.to_string() == alert.resource)
    };
    let over = told.into_iter().filter(|alert| !goes_on(alert)).collect();
    Ok(Found {
        leaks: growths,
        over,
        too_short,
    })
}

fn count(number: u64) -> String {
    match number {
        0 => "none".to_owned(),
        number => number.to_string(),
    }
}
