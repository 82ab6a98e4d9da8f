//! What the live commands take: which processes to monitor, for how long, and what to do with it.

use std::path::PathBuf;

use clap::Args;
use nilo_analysis::assessment::OOM_WARNING_PERCENT;
use nilo_sample::units::parse_duration;

use super::values::{gpu_index, mebibytes, percent, pid};
use super::{TextOrJson, interval};
use crate::folder::RunsDir;

const LIVE: &str = "Monitoring running processes";

/// Which processes to monitor. Without a process it is the machine: the host, the cgroup that this is started in, and the GPUs.
#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    /// Processes to monitor, with all their descendants
    #[arg(
        long, short, value_name = "PID", num_args = 1.., value_delimiter = ',',
        value_parser = pid, help_heading = LIVE
    )]
    pub(crate) pid: Vec<u32>,

    /// Monitor the process whose name or command line contains this; * and ? are wildcards
    #[arg(long = "name", alias = "process-name", short, value_name = "PATTERN", id = "name_pattern", conflicts_with = "pid", help_heading = LIVE)]
    pub(crate) name_pattern: Option<String>,

    /// GPU indices of the driver, such as 0 1 [default: those that the processes use; all without --pid or --name]
    #[arg(long, value_name = "GPU", num_args = 1.., value_delimiter = ',', value_parser = gpu_index, help_heading = LIVE)]
    pub(crate) devices: Vec<u32>,

    /// How long: seconds, or with a unit such as 5m; 0 means until Ctrl+C
    #[arg(long, short, value_name = "TIME", value_parser = duration_or_zero, allow_hyphen_values = true, help_heading = LIVE)]
    pub(crate) duration: Option<u64>,

    /// Time between samples: seconds, or with a unit such as 50ms; 1 ms to 1 h [default: 0.1]
    #[arg(long, short, env = "NILO_INTERVAL", value_name = "TIME", value_parser = interval, allow_hyphen_values = true, help_heading = LIVE)]
    pub(crate) interval: Option<u64>,

    /// Without --pid or --name, record the machine as a run: host memory and GPUs, for `nilo show` and `nilo plot`
    #[arg(long, conflicts_with = "no_record", help_heading = LIVE)]
    pub(crate) record: bool,

    /// Do not record a run; without --pid, --name or --record none is recorded anyway
    #[arg(long, help_heading = LIVE)]
    pub(crate) no_record: bool,

    /// Print results only: no notes and no status line
    #[arg(long, short, help_heading = LIVE)]
    pub(crate) quiet: bool,
}

impl LiveArgs {
    /// Whether something that runs is meant, and not a recording.
    pub(crate) fn are_meant(&self) -> bool {
        let is_timed = self.duration.is_some() || self.record;
        self.names_processes() || !self.devices.is_empty() || is_timed
    }

    pub(crate) fn names_processes(&self) -> bool {
        !self.pid.is_empty() || self.name_pattern.is_some()
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "The report has the shape of the Python package's MemoryProfiler: `devices` holds each GPU's current_usage and statistics, \
`summary` the totals, `host` the memory of the machine, and `processes` those chosen by --pid or --name. \
Ctrl+C stops early; the report is still written.\n\n\
It measures for 60 seconds, or for --duration. With --pid or --name it also records a run, as `nilo watch` does; \
with --record it records the machine.\n\n\
Exit status: 0 measured, 2 error.\n\n\
Examples:\n  nilo profile --duration 60 --output profile.json\n  nilo profile --devices 0 1 --duration 0\n  \
nilo profile --pid 4711 --format json\n  nilo profile --record --duration 5m"
)]
pub(crate) struct ProfileArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,

    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Write the report as JSON to this file at the end
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// What to print: a summary, or the report itself
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Combines `nilo oom --monitor`, `nilo leak` and `nilo profile`: memory use, warnings, leaks, and a profile at the end. \
Memory use is shown in one line on a terminal, and as a new line every five seconds elsewhere. Leaks are reported after 30 seconds, or at the end of a shorter session of at least ten.\n\n\
With --pid or --name it also records a run, as `nilo watch` does; with --record it records the machine.\n\n\
Exit status: 0 no warning, 1 a warning or a leak, 2 error.\n\n\
Examples:\n  nilo monitor --all\n  nilo monitor --all --duration 300 --output profile.json\n  \
nilo monitor --oom --pid 4711 --format json"
)]
pub(crate) struct MonitorArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,

    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Enable everything (the default)
    #[arg(long, short, conflicts_with_all = ["oom", "leak", "profile"])]
    pub(crate) all: bool,

    /// Warn when memory runs short
    #[arg(long)]
    pub(crate) oom: bool,

    /// Report memory leaks
    #[arg(long)]
    pub(crate) leak: bool,

    /// Print a memory profile at the end
    #[arg(long)]
    pub(crate) profile: bool,

    /// Warn when usage is above this percentage (at most 100), or fraction (below 1)
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value_t = OOM_WARNING_PERCENT)]
    pub(crate) threshold: f64,

    /// Ignore growth below this many MiB [default: 1 % of the limit, or 5 % of the level without a limit]
    #[arg(long, value_name = "MIB", value_parser = mebibytes)]
    pub(crate) leak_threshold: Option<f64>,

    /// Write the profile as JSON to this file at the end
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Output format; json is one object per line
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

/// Zero is until somebody ends it.
fn duration_or_zero(text: &str) -> Result<u64, String> {
    if text.trim_start().starts_with('-') {
        return Err("a duration cannot be negative; 0 means until Ctrl+C".to_owned());
    }
    parse_duration(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Verb};
    use clap::Parser;

    fn parse(words: &str) -> Result<Verb, clap::Error> {
        Cli::try_parse_from(words.split_whitespace()).map(|cli| cli.verb)
    }

    #[test]
    fn every_documented_form_is_understood() {
        let Ok(Verb::Profile(args)) = parse("nilo profile --duration 60 --output profile.json")
        else {
            panic!();
        };
        assert_eq!(args.live.duration, Some(60_000_000_000));
        let Ok(Verb::Profile(args)) = parse("nilo profile --devices 0 1 --duration 0") else {
            panic!();
        };
        assert_eq!(
            (args.live.devices, args.live.duration),
            (vec![0, 1], Some(0))
        );
        let Ok(Verb::Oom(args)) = parse("nilo oom --threshold 85 --monitor") else {
            panic!();
        };
        assert!(args.monitor && args.is_live());
        let Ok(Verb::Oom(args)) = parse("nilo oom --devices 0 --threshold 90") else {
            panic!();
        };
        assert!(!args.monitor && args.is_live());
        let Ok(Verb::Monitor(args)) = parse("nilo monitor --all --duration 300") else {
            panic!();
        };
        assert!(args.all);
    }

    #[test]
    fn a_run_is_judged_unless_something_live_is_named() {
        let live = |words: &str| match parse(words) {
            Ok(Verb::Oom(args)) => args.is_live(),
            Ok(Verb::Leak(args)) => args.live.are_meant(),
            other => panic!("{words}: {other:?}"),
        };
        for words in [
            "nilo oom",
            "nilo oom last --threshold 90",
            "nilo leak --check --threshold 100",
        ] {
            assert!(!live(words), "{words}");
        }
        for words in [
            "nilo leak --check --pid 1 2",
            "nilo leak --check --duration 30",
            "nilo oom --name train",
            "nilo oom --process-name train",
            "nilo oom --pid 7,8",
            "nilo oom --record",
        ] {
            assert!(live(words), "{words}");
        }
    }

    #[test]
    fn every_verb_takes_several_processes_in_the_same_ways() {
        for verb in [
            "watch",
            "oom",
            "oom --monitor",
            "leak",
            "profile",
            "monitor",
        ] {
            for pids in ["--pid 7 8", "--pid 7,8", "--pid 7 --pid 8", "-p 7 8"] {
                let words = format!("nilo {verb} {pids}");
                let pids = match parse(&words) {
                    Ok(Verb::Watch(args)) => args.pid,
                    Ok(Verb::Oom(args)) => args.live.pid,
                    Ok(Verb::Leak(args)) => args.live.pid,
                    Ok(Verb::Profile(args)) => args.live.pid,
                    Ok(Verb::Monitor(args)) => args.live.pid,
                    other => panic!("{words}: {other:?}"),
                };
                assert_eq!(pids, [7, 8], "{words}");
            }
            assert!(parse(&format!("nilo {verb} --pid 0")).is_err(), "{verb}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for words in [
            "nilo oom last --monitor",
            "nilo oom --csv x --pid 1",
            "nilo leak last --devices 0",
            "nilo leak --pid 1 --name x",
            "nilo profile --duration -1",
            "nilo profile --pid 0",
            "nilo profile --devices -1",
            "nilo profile --interval 0",
            "nilo monitor --all --oom",
            "nilo monitor --record --no-record",
            "nilo leak last --record",
        ] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
