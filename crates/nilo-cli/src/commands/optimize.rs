//! `nilo optimize`: what would make a training fit, from a run or from a command that is recorded first.

use std::path::Path;

use nilo_analysis::summarize;
use nilo_answer::optimize::{OptimizeAnswer, OptimizeMode, is_answerable};
use nilo_answer::optimize_config::OptimizeConfig;
use nilo_runfile::RunFolder;
use nilo_sample::{Ending, Recording};

use crate::args::{
    AlertArgs, LiveMode, OptimizeArgs, OptimizeModeArg, RunArgs, SamplingArgs, TextOrJson,
    WEBHOOK_VARIABLE,
};
use crate::commands::run::record;
use crate::damaged_run::warn_of_damage;
use crate::end_by_signal::end_by_signal;
use crate::failure::Failure;
use crate::folder::{existing_root, find_run, load, load_recorded, runs_root};
use crate::output_file::{refuse_overwriting, refuse_stdout, try_to_write, write_file};
use crate::pasted_command::{command_for_run, command_in, quoted};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::fresh_line::begin_output_line;
use crate::text::json::{json_text, write_json};
use crate::text::optimize::write_optimize;
use crate::text::optimize_markdown::markdown;
use crate::wrap::WrappingWriter;

/// A configuration has some thirty settings.
const LARGEST_CONFIG_BYTES: u64 = 1 << 20;

/// What is answered about.
struct RecordedRun {
    recording: Recording,
    ending: Ending,
    folder: RunFolder,
}

/// What a report is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportKind {
    Markdown,
    Json,
}

pub(crate) fn run(args: OptimizeArgs, settings: &Settings) -> Result<u8, Failure> {
    if args.template {
        write_json(&mut std::io::stdout().lock(), &OptimizeConfig::template())?;
        return Ok(0);
    }
    refuse_mixed_output(&args, settings)?;
    let config = args.config.as_deref().map(read_config).transpose()?;
    let report = args.report.as_deref().map(report_kind).transpose()?;
    if let Some(report) = &args.report {
        refuse_overwriting(report, args.config.as_deref(), "--report")?;
    }
    if args.command.is_empty() {
        let root = existing_root(&args.place, settings)?;
        let folder = find_run(&root, args.run.as_deref())?;
        if let Some(report) = &args.report {
            let files = folder.files();
            refuse_overwriting(report, files.iter().map(|file| &**file), "--report")?;
        }
        let (recording, ending) = load(&folder)?;
        warn_of_damage(&recording, &folder, settings);
        let run = RecordedRun {
            recording,
            ending,
            folder,
        };
        answer(&args, report, config.as_ref(), &run, settings)?;
        return Ok(0);
    }
    let recorded = record(run_args(&args), settings)?;
    recorded.warnings.release();
    begin_output_line();
    // Whatever goes wrong here, the status is the command's.
    let answered = load_recorded(&recorded.folder);
    let answered = answered.and_then(|recording| {
        let run = RecordedRun {
            recording,
            ending: recorded.ending.clone(),
            folder: recorded.folder.clone(),
        };
        answer(&args, report, config.as_ref(), &run, settings)
    });
    if let Err(failure) = answered {
        failure.report();
    }
    if let Some(signal) = recorded.signal {
        end_by_signal(signal);
    }
    Ok(recorded.exit_code)
}

/// Standard output belongs to the command: JSON behind what that prints is no JSON.
fn refuse_mixed_output(args: &OptimizeArgs, settings: &Settings) -> Result<(), Failure> {
    if args.command.is_empty() || args.format != TextOrJson::Json {
        return Ok(());
    }
    let sentence =
        "--format json cannot be used with a command, whose own output goes to standard output";
    let root = runs_root(&args.place, settings);
    let afterwards = command_in("optimize", &root, "--format json", settings);
    Err(Failure::new(sentence).hint(format!(
        "write the JSON to a file with --report report.json, or run `{afterwards}` afterwards"
    )))
}

/// The same recording as that of `nilo run`.
fn run_args(args: &OptimizeArgs) -> RunArgs {
    let webhook = std::env::var(WEBHOOK_VARIABLE).ok();
    RunArgs {
        place: args.place.clone(),
        sampling: SamplingArgs {
            interval: args.interval,
            memory_log: None,
            json: None,
            tags: Vec::new(),
            quiet: false,
            keep_secrets: false,
            shared: false,
            live: LiveMode::Auto,
        },
        name: args.name.clone(),
        wait_all: false,
        no_hooks: args.no_hooks,
        alerts: AlertArgs {
            on_alert: None,
            alert_webhook: webhook.filter(|url| !url.is_empty()),
            alert_signal: None,
            no_alerts: false,
        },
        command: args.command.clone(),
    }
}

fn answer(
    args: &OptimizeArgs,
    report: Option<ReportKind>,
    config: Option<&OptimizeConfig>,
    run: &RecordedRun,
    settings: &Settings,
) -> Result<(), Failure> {
    let mode = match args.mode {
        OptimizeModeArg::Full => OptimizeMode::Full,
        OptimizeModeArg::Training => OptimizeMode::Training,
        OptimizeModeArg::Quick => OptimizeMode::Quick,
    };
    let summary = summarize(&run.recording, &run.ending);
    if !is_answerable(&summary) {
        let failure = Failure::new("not enough data in this run for recommendations");
        return Err(failure.hint("record one with `nilo run -- COMMAND`"));
    }
    let answer = OptimizeAnswer::of(&run.recording, &summary, mode, config);
    let command = |verb: &str| {
        // Asked for again, it is judged by the same budgets.
        let config = args
            .config
            .as_deref()
            .filter(|_| verb.starts_with("optimize"));
        match config {
            Some(path) => {
                let verb = format!("{verb} --config {}", quoted(path));
                command_for_run(&verb, &run.folder, settings)
            }
            None => command_for_run(verb, &run.folder, settings),
        }
    };
    if let (Some(path), Some(kind)) = (&args.report, report) {
        let text = match kind {
            ReportKind::Markdown => markdown(&answer, &command),
            ReportKind::Json => json_text(&answer)?,
        };
        write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    let out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => write_json(&mut { out }, &answer)?,
        TextOrJson::Text => {
            let mut out = WrappingWriter::new(out, Screen::stdout());
            write_optimize(&mut out, &answer, &command)?
        }
    }
    Ok(())
}

fn read_config(path: &Path) -> Result<OptimizeConfig, Failure> {
    let about = |error: std::io::Error| {
        Failure::new(format!(
            "cannot read the configuration {}: {error}",
            path.display()
        ))
        .hint("`nilo optimize --template` prints one with every setting")
    };
    let size = path.metadata().map_err(about)?.len();
    if size > LARGEST_CONFIG_BYTES {
        return Err(Failure::new(format!(
            "{} is too large for a configuration",
            path.display()
        ))
        .hint("`nilo optimize --template` prints one with every setting"));
    }
    let bytes = std::fs::read(path).map_err(about)?;
    OptimizeConfig::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())).hint(error.hint()))
}

/// What the report will be, said before a command is recorded for it.
fn report_kind(path: &Path) -> Result<ReportKind, Failure> {
    refuse_stdout(
        path,
        "report",
        "name a file; --format json prints JSON to standard output",
    )?;
    let extension = path.extension().map(|name| name.to_ascii_lowercase());
    let kind = match extension.as_deref().and_then(|name| name.to_str()) {
        Some("md") => ReportKind::Markdown,
        Some("json") => ReportKind::Json,
        _ => {
            let sentence = format!("cannot tell what to write to {}", path.display());
            return Err(Failure::new(sentence).hint("name a file that ends in .md or .json"));
        }
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if path.is_dir() || !folder.is_dir() {
        let why = if path.is_dir() {
            "it is a folder".to_owned()
        } else if folder.exists() {
            format!("{} is not a folder", folder.display())
        } else {
            format!("the folder {} does not exist", folder.display())
        };
        return Err(
            Failure::new(format!("cannot write the report {}: {why}", path.display()))
                .hint("name a file in a folder that exists"),
        );
    }
    try_to_write(path).map_err(|error| {
        Failure::new(format!(
            "cannot write the report {}: {error}",
            path.display()
        ))
        .hint("name a file in a folder that you can write to")
    })?;
    Ok(kind)
}
