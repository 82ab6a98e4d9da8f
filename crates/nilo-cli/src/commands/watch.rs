//! `nilo watch`: record processes that already run.

use std::collections::HashMap;

use nilo_recorder::{
    WatchEnd, WatchSettings, stored_command_line, stored_message, watch_processes,
};
use nilo_sample::RunMode;
use nilo_source::{ProcessListing, Roots, list_processes, process_id};

use crate::alerts::settle_alerts;
use crate::args::WatchArgs;
use crate::failure::{Failure, note};
use crate::recording::{
    check_writable, create_folder, describe, explain, interval, open_log, report,
};
use crate::settings::{Settings, decide_privacy};
use crate::target_match::{ALL_TOGETHER, match_name};
use crate::text::deferred_warnings::DeferredWarnings;
use crate::text::live_line::LiveLine;

/// A job that was started without nilo is looked at less often.
const WATCH_INTERVAL_NANOS: u64 = 1_000_000_000;

pub(crate) fn run(args: WatchArgs, settings: &Settings) -> Result<u8, Failure> {
    let sampling = &args.sampling;
    let quiet = sampling.quiet || settings.is_quiet();
    decide_privacy(settings, sampling.privacy());
    let interval_nanos = interval(sampling, settings, WATCH_INTERVAL_NANOS)?;
    let deferred = DeferredWarnings::default();
    let alerts = settle_alerts(&args.alerts, &settings.alerts, quiet, &deferred)?;
    let roots = Roots::default();
    let listing = list_processes(&roots);
    let pids = match &args.name_pattern {
        Some(pattern) => match_name(&listing, pattern, args.all, ALL_TOGETHER)?,
        None => args.pid.clone(),
    };
    for &pid in &pids {
        process_id(&roots, pid).map_err(|error| explain(error.into()))?;
    }
    let log = open_log(sampling.memory_log.as_deref())?;
    check_writable(sampling.json.as_deref(), "summary")?;
    let by_pid: HashMap<u32, &ProcessListing> = listing
        .iter()
        .map(|process| (process.id.pid, process))
        .collect();
    let named: Vec<String> = pids
        .iter()
        .filter_map(|pid| Some(stored_command_line(&by_pid.get(pid)?.info)))
        .collect();
    let given = args.run_name.clone().filter(|name| !name.is_empty());
    let name = given
        .clone()
        .or_else(|| Some(by_pid.get(pids.first()?)?.info.name.clone()));
    let mut description = describe(
        RunMode::Watch,
        named,
        name.as_deref().unwrap_or("watch"),
        sampling,
    );
    description.name = given.as_deref().map(stored_message);
    description.interval_nanos = interval_nanos;
    let Some(folder) = create_folder(&args.place, settings, &mut description)? else {
        return Err(Failure::new("cannot record: no writable folder")
            .hint("name a writable folder with --dir"));
    };
    if !quiet {
        for pid in &pids {
            let what = by_pid
                .get(pid)
                .map_or("", |process| process.info.name.as_str());
            note(&format!(
                "watching PID {pid} {what} every {} s; Ctrl+C to stop",
                nilo_sample::units::to_secs(interval_nanos)
            ));
        }
    }

    let mut live = LiveLine::own_terminal(sampling.live, quiet, log);
    let outcome = watch_processes(
        WatchSettings {
            pids,
            gpus: None,
            folder: &folder,
            description,
            interval_nanos,
            everything_at_interval: false,
            duration_nanos: args.duration,
            alerts,
        },
        &mut live,
    );
    live.clear();
    let outcome = outcome.map_err(|error| {
        std::fs::remove_dir_all(folder.path()).ok();
        explain(error)
    })?;
    if !quiet && outcome.end == WatchEnd::AllGone {
        note("the watched processes have ended");
    }
    let ending = (&outcome.ending, outcome.dropped);
    report(
        &folder,
        ending,
        quiet,
        sampling.json.as_deref(),
        settings,
        || true,
    );
    Ok(0)
}
