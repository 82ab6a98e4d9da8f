//! `nilo monitor`: levels, warnings and leaks while something runs, and a profile of it at the end.

use std::io::Write;
use std::path::Path;

use nilo_answer::monitor::{MonitorEnd, MonitoredLeaks};

use crate::args::{MonitorArgs, TextOrJson};
use crate::commands::leak::least_bytes;
use crate::commands::oom::check_threshold;
use crate::commands::profile::write_report;
use crate::failure::{Failure, verdict_status};
use crate::live::{
    LeakThreshold, LevelDisplay, MonitorSettings, Reporter, Session, WatchTarget, WatchedSession,
    write_end,
};
use crate::recording::check_writable;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::leak::{LEAST_TIME, leak_in_words};
use crate::text::one_line::one_line;
use crate::text::profile::write_profile;
use crate::wrap::WrappingWriter;

const TEXT_CHARS: usize = 400;

/// Which parts are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MonitorParts {
    oom: bool,
    leak: bool,
    profile: bool,
}

impl MonitorParts {
    fn of(args: &MonitorArgs) -> MonitorParts {
        let all = args.all || !(args.oom || args.leak || args.profile);
        MonitorParts {
            oom: all || args.oom,
            leak: all || args.leak,
            profile: all || args.profile || args.output.is_some(),
        }
    }
}

pub(crate) fn run(args: MonitorArgs, settings: &Settings) -> Result<u8, Failure> {
    check_threshold(args.threshold)?;
    let least_bytes = least_bytes(args.leak_threshold)?;
    let parts = MonitorParts::of(&args);
    let target = WatchTarget::settle(&args.live)?;
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
        true => LevelDisplay::Off,
        false => LevelDisplay::Always,
    };
    let mut seen = session.watch(MonitorSettings {
        threshold_percent: parts.oom.then_some(args.threshold),
        leaks: parts.leak.then_some(LeakThreshold { least_bytes }),
        reporter: Reporter::new(args.format, levels, args.threshold),
    })?;
    let report = match parts.profile {
        true => Some(seen.profile()?),
        false => None,
    };
    let output = args.output.as_deref();
    let written = report
        .as_ref()
        .map_or(Ok(()), |report| write_report(report, output));
    if let Some(ran_out) = seen.ran_out().filter(|_| parts.oom) {
        seen.monitor.say_ran_out(&ran_out)?;
    }
    let found = match parts.leak {
        true => find_leaks(&mut seen, least_bytes)?,
        false => MonitoredLeaks::default(),
    };
    let end = MonitorEnd {
        further: Some(found.findings(report)),
        ..seen.end()
    };
    let status = end.exit_status();
    let told = match args.format {
        TextOrJson::Json => write_end(end).map_err(Failure::from),
        TextOrJson::Text => write_text(&end, &found, parts, output).map_err(Failure::from),
    };
    written?;
    verdict_status(status, told)
}

fn write_text(
    end: &MonitorEnd,
    found: &MonitoredLeaks,
    parts: MonitorParts,
    output: Option<&Path>,
) -> std::io::Result<()> {
    let mut out = WrappingWriter::new(std::io::stdout().lock(), Screen::stdout());
    let profile = end
        .further
        .as_ref()
        .and_then(|found| found.profile.as_ref());
    if let Some(report) = profile {
        write_profile(&mut out, report, output)?;
    }
    if parts.oom {
        writeln!(out, "Warnings: {}", count(end.warnings))?;
    }
    if parts.leak {
        let too_short = || format!("too short to tell ({LEAST_TIME})");
        let told = found.count().map_or_else(too_short, count);
        writeln!(out, "Leaks:    {told}")?;
    }
    let leaks = &found.leaks;
    let going_on = leaks.each.iter().map(|grown| leak_in_words(leaks, grown));
    let over = found.over.iter().map(|alert| alert.text.clone());
    for leak in going_on.chain(over) {
        writeln!(out, "  {}", one_line(&leak, TEXT_CHARS))?;
    }
    Ok(())
}

fn find_leaks(
    seen: &mut WatchedSession,
    least_bytes: Option<f64>,
) -> Result<MonitoredLeaks, Failure> {
    let told = std::mem::take(&mut seen.monitor.leaks);
    let mut diagnosis = seen.diagnosis();
    diagnosis.recording = Some(seen.load()?.0);
    Ok(MonitoredLeaks::of(&diagnosis, told, least_bytes))
}

fn count(number: u64) -> String {
    match number {
        0 => "none".to_owned(),
        number => number.to_string(),
    }
}
