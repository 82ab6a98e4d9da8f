//! A profile in words: a line for each GPU, for the host and for the processes.

use std::io::{Result, Write};
use std::path::Path;

use nilo_analysis::profile::{DeviceProfile, Usage};
use nilo_answer::profile::ProfileAnswer;
use nilo_forecast::LevelTrend;
use nilo_sample::units::format_bytes;

use crate::screen::Screen;
use crate::text::gpu_sensors::current_sensors;
use crate::text::one_line::one_line;
use crate::text::table::{left, right, write_table};

const RULE_CHARS: usize = 50;
const NAME_CHARS: usize = 60;
/// How many processes are named.
const FEW: usize = 5;

/// Writes the block.
pub(crate) fn write_profile(
    out: &mut dyn Write,
    report: &ProfileAnswer,
    output: Option<&Path>,
) -> Result<()> {
    write_profile_on(Screen::stdout(), out, report, output)
}

fn write_profile_on(
    screen: Screen,
    out: &mut dyn Write,
    report: &ProfileAnswer,
    output: Option<&Path>,
) -> Result<()> {
    let rule = "=".repeat(screen.at_most(RULE_CHARS));
    writeln!(out, "{rule}\nMEMORY PROFILE\n{rule}")?;
    writeln!(
        out,
        "Monitoring Duration:  {:.2} seconds",
        report.duration_secs
    )?;
    if let Some(path) = output {
        writeln!(out, "Report:               {}", path.display())?;
    }
    if let Some(run) = &report.run {
        writeln!(out, "Run:                  {run}")?;
    }
    writeln!(out, "{rule}")?;
    let profile = &report.profile;
    let gpus = profile.devices.iter();
    let rows: Vec<Vec<String>> = gpus
        .map(|(index, device)| row(&format!("GPU {index}"), device))
        .chain(profile.host.iter().map(|host| row("host", host)))
        .chain(profile.processes.iter().map(|tree| row("processes", tree)))
        .collect();
    let columns = [
        left("MEMORY"),
        right("NOW"),
        right("USED").drops(1),
        right("MEAN").drops(5),
        right("MAX").drops(4),
        right("PEAK"),
        right("TOTAL").drops(2),
        right("SAMPLES").drops(6),
        left("TREND").drops(3),
        left("OF").drops(7),
    ];
    write_table(out, screen, &columns, &rows)?;
    for (index, device) in &profile.devices {
        let words = device.sensors.as_ref().map(current_sensors);
        if let Some(words) = words.filter(|words| !words.is_empty()) {
            writeln!(out, "GPU {index}: {words}")?;
        }
    }
    for process in report.watched.iter().take(FEW) {
        let peak = process.peak_rss_bytes.map_or(0.0, |bytes| bytes as f64);
        let name = one_line(&process.name, NAME_CHARS);
        writeln!(
            out,
            "{:>13}  {name} (PID {})",
            format_bytes(peak),
            process.pid
        )?;
    }
    for note in &report.notes {
        writeln!(out, "note: {}", one_line(note, 4 * NAME_CHARS))?;
    }
    Ok(())
}

fn row(name: &str, device: &DeviceProfile) -> Vec<String> {
    let (usage, statistics) = (device.current_usage.as_ref(), &device.statistics);
    // Of a GPU that is lost shares are of what it had.
    let is_limited = usage.is_none_or(|usage| usage.total > 0);
    let percent = |value: f64| match is_limited {
        false => "-".to_owned(),
        true => format!("{value:.1}%"),
    };
    let now = |words: &dyn Fn(&Usage) -> String| usage.map_or("-".to_owned(), words);
    let bytes = |bytes: u64| format_bytes(bytes as f64);
    vec![
        name.to_owned(),
        match usage {
            Some(usage) => bytes(usage.allocated),
            None => "lost".to_owned(),
        },
        now(&|usage| percent(usage.utilization_percent)),
        percent(statistics.avg_utilization),
        percent(statistics.max_utilization),
        format_bytes(statistics.peak_allocated as f64),
        now(&|usage| match usage.total {
            0 => "-".to_owned(),
            total => bytes(total),
        }),
        statistics.samples_count.to_string(),
        statistics.trend.map_or("-", LevelTrend::as_str).to_owned(),
        now(&|usage| one_line(&usage.limit, NAME_CHARS)),
    ]
}
