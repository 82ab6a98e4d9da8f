//! `nilo show`: one run in figures.

use std::io::Write;

use nilo_analysis::host_memory::host_used;
use nilo_analysis::{Summary, summarize};
use nilo_export::CsvRows;
use nilo_runfile::RunFolder;
use nilo_sample::printable::printable;
use nilo_sample::units::{format_bytes, format_duration};
use nilo_sample::{Recording, RunMode, Subject};

use crate::args::{OutputFormat, ShowArgs};
use crate::failure::{Failure, note, warn};
use crate::folder::{existing_root, find_run, load};
use crate::pasted_command::command_for_run;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::json::write_json;
use crate::text::left_running::still_alive;
use crate::text::number::format_optional;
use crate::text::one_line::one_line;
use crate::text::run_commands::CommandOfRun;
use crate::text::summary::{FEW, NAME_CHARS, write_summary};
use crate::text::table::{left, right, write_table};
use crate::wrap::WrappingWriter;

/// A mark is a label: longer ones are whole in JSON.
const MARK_CHARS: usize = 200;
/// The curve of memory over time, where the terminal is wide enough.
const CURVE_CHARS: usize = 50;
/// Before that curve.
const INDENT: &str = "  ";

pub(crate) fn run(args: ShowArgs, settings: &Settings) -> Result<u8, Failure> {
    let folder = find_run(&existing_root(&args.place, settings)?, args.run.as_deref())?;
    let (recording, ending) = load(&folder)?;
    let summary = summarize(&recording, &ending);
    let mut out = std::io::stdout().lock();
    match args.format {
        OutputFormat::Json => {
            write_json(&mut out, &summary)?;
        }
        OutputFormat::Csv => {
            write_csv(&mut out, &summary)?;
            if !summary.metrics.is_empty() {
                note(&format!(
                    "CSV lists the processes only; for the metrics use `{} --long`",
                    command_for_run("export", &folder, settings)
                ));
            }
        }
        OutputFormat::Text => {
            let screen = Screen::stdout();
            let mut out = WrappingWriter::new(out, screen);
            let title = summary.name.as_deref().unwrap_or(&summary.run);
            writeln!(out, "{}", one_line(title, NAME_CHARS))?;
            let command: String = match summary.mode {
                RunMode::Machine => "host memory and GPUs of the machine".to_owned(),
                _ => summary.command.join(" ").chars().take(200).collect(),
            };
            writeln!(out, "{}", printable(&command))?;
            writeln!(
                out,
                "on {}, {}",
                printable(&summary.host),
                when(summary.started_unix_nanos)
            )?;
            let most = if args.all { usize::MAX } else { FEW };
            let command = |verb: &str| command_for_run(verb, &folder, settings);
            write_summary(
                &mut out,
                screen,
                &summary,
                &folder.path().display().to_string(),
                most,
                &still_alive(&recording, &summary.left_running),
                &command,
            )?;
            write_curve(&mut out, screen, &recording)?;
            write_runs_inside(&mut out, screen, &folder)?;
            write_attachments(&mut out, screen, &summary, most, &command)?;
            for mark in summary.marks.iter().take(20) {
                let text = one_line(&mark.text, MARK_CHARS);
                writeln!(out, "mark at {:.1} s: {text}", mark.secs)?;
            }
        }
    }
    Ok(0)
}

/// Memory over time in one line: of the tree, or of the host where there is no job.
fn write_curve(out: &mut dyn Write, screen: Screen, recording: &Recording) -> std::io::Result<()> {
    let (what, values): (&str, Vec<f64>) = match recording.description.mode {
        RunMode::Machine => {
            let used = host_used(recording).into_iter();
            ("Host memory", used.map(|(_, bytes)| bytes).collect())
        }
        _ => {
            let tree = recording.table(&Subject::Tree);
            let level = tree.and_then(|tree| tree.series("memory_bytes"));
            let present = level.into_iter().flat_map(|level| level.present());
            ("Memory", present.map(|(_, bytes)| bytes).collect())
        }
    };
    let Some(most) = values.iter().copied().reduce(f64::max) else {
        return Ok(());
    };
    let points = screen.at_most(CURVE_CHARS + INDENT.len()) - INDENT.len();
    let curve = nilo_plot::sparkline(&values, points);
    writeln!(out, "{what} over time, 0 to {}:", format_bytes(most))?;
    writeln!(out, "{INDENT}{curve}")
}

/// The runs of a job that has several; a single one is shown as the job itself.
fn write_runs_inside(out: &mut dyn Write, screen: Screen, job: &RunFolder) -> Result<(), Failure> {
    if job.only_run(&job.describe()?).is_some() {
        return Ok(());
    }
    let mut inside = Vec::new();
    for run in job.list_runs_inside() {
        match run.map_err(Failure::from).and_then(|run| load(&run)) {
            Ok(loaded) => inside.push(loaded),
            Err(failure) => warn(&failure.sentence()),
        }
    }
    if inside.is_empty() {
        return Ok(());
    }
    let columns = [
        left("  RUN").drops(2),
        left("NAME"),
        left("STATUS"),
        right("DURATION").drops(3),
        right("PEAK"),
        left("METRIC").drops(1),
    ];
    let mut rows = Vec::new();
    for (recording, ending) in &inside {
        let summary = summarize(recording, ending);
        let metric = summary.usual_metric().and_then(|name| {
            let metric = summary.metrics.iter().find(|metric| metric.name == name)?;
            Some(format!(
                "{} {}",
                one_line(&name, 30),
                format_optional(Some(metric.last?.value))
            ))
        });
        let peak = summary.memory.peak_bytes;
        rows.push(vec![
            format!("  {}", summary.run),
            one_line(summary.name.as_deref().unwrap_or("-"), 40),
            summary.short_ending(),
            format_duration((summary.duration_secs * 1e9) as u64),
            peak.map_or("-".to_owned(), |bytes| format_bytes(bytes as f64)),
            metric.unwrap_or_default(),
        ]);
    }
    writeln!(out, "Runs inside:")?;
    write_table(out, screen, &columns, &rows)?;
    Ok(())
}

/// Files attached to the run; `most` of them.
fn write_attachments(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    most: usize,
    command: CommandOfRun<'_>,
) -> std::io::Result<()> {
    let attachments = &summary.attachments;
    if attachments.is_empty() {
        return Ok(());
    }
    let columns = [left("  NAME"), right("SIZE"), left("TYPE").drops(1)];
    let rows: Vec<Vec<String>> = attachments
        .iter()
        .take(most)
        .map(|attachment| {
            vec![
                format!("  {}", printable(&attachment.name)),
                format_bytes(attachment.size_bytes as f64),
                printable(&attachment.media_type),
            ]
        })
        .collect();
    writeln!(out, "Attachments:")?;
    write_table(out, screen, &columns, &rows)?;
    match attachments.len() - rows.len() {
        0 => Ok(()),
        more => writeln!(out, "  and {more} more: {}", command("show --all")),
    }
}

/// The start in the reader's own time zone.
fn when(unix_nanos: u64) -> String {
    let start = jiff::Timestamp::from_nanosecond(i128::from(unix_nanos)).unwrap_or_default();
    start
        .to_zoned(jiff::tz::TimeZone::system())
        .strftime("%Y-%m-%d %H:%M:%S %Z")
        .to_string()
}

fn write_csv(out: &mut dyn Write, summary: &Summary) -> std::io::Result<()> {
    let header = [
        "pid",
        "name",
        "peak_rss_bytes",
        "last_rss_bytes",
        "pss_bytes",
        "cpu_secs",
        "started_secs",
        "ended_secs",
    ];
    let mut csv = CsvRows::new(out, header)?;
    for process in &summary.processes {
        csv.number(process.pid)?;
        csv.text(&process.name)?;
        csv.number_if_known(process.peak_rss_bytes)?;
        csv.number_if_known(process.last_rss_bytes)?;
        csv.number_if_known(process.pss_bytes)?;
        csv.number_if_known(process.cpu_secs.map(|secs| format!("{secs:.3}")))?;
        csv.number(format_args!("{:.3}", process.started_secs))?;
        csv.number_if_known(process.ended_secs.map(|secs| format!("{secs:.3}")))?;
        csv.end_row()?;
    }
    csv.finish()
}
