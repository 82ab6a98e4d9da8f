//! `nilo plot`: the memory of a run as a picture.

use std::path::PathBuf;

use nilo_analysis::ending::limit_in_force;
use nilo_analysis::{Summary, summarize};
use nilo_plot::{ChartOptions, Peak, Theme, compare_chart, memory_chart};
use nilo_sample::Recording;

use crate::args::PlotArgs;
use crate::commands::run::program_name;
use crate::failure::{Failure, note};
use crate::folder::{find_run, load, runs_root};
use crate::settings::Settings;

/// Pictures are drawn at twice the size, so that they stay sharp in print.
const PNG_SCALE: f32 = 2.0;

pub(crate) fn run(args: PlotArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = runs_root(&args.place, settings);
    let asked: Vec<Option<&str>> = match args.runs.is_empty() {
        true => vec![None],
        false => args.runs.iter().map(|run| Some(run.as_str())).collect(),
    };
    let mut runs: Vec<(Recording, Summary)> = Vec::new();
    for run in asked {
        let (mut recording, ending) = load(&find_run(&root, run)?)?;
        let summary = summarize(&recording, &ending);
        recording.description.ending.get_or_insert(ending);
        runs.push((recording, summary));
    }
    let (first, summary) = &runs[0];
    let output = args
        .output
        .unwrap_or_else(|| PathBuf::from(format!("{}.svg", summary.run)));
    let png = match output
        .extension()
        .and_then(|ending| ending.to_str())
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        Some("svg") => false,
        Some("png") => true,
        _ => {
            return Err(
                Failure::new(format!("cannot tell the format of {}", output.display()))
                    .hint("let the name end in .svg or .png"),
            );
        }
    };
    let options = ChartOptions {
        width: args.width,
        height: args.height,
        title: args.title.or_else(|| Some(title(&runs))),
        peak: peak(summary),
        limit: limit_in_force(first),
        duration_nanos: Some((summary.duration_secs * 1e9) as u64),
        theme: if args.dark { Theme::Dark } else { Theme::Light },
        ..ChartOptions::default()
    };
    let chart = match &runs[..] {
        [(recording, _)] => memory_chart(recording, &options),
        _ => {
            let labelled: Vec<(&str, &Recording)> = runs
                .iter()
                .map(|(recording, summary)| (label(summary), recording))
                .collect();
            compare_chart(&labelled, &options)
        }
    };
    let bytes = if png {
        chart.to_png(PNG_SCALE)?
    } else {
        chart.to_svg().into_bytes()
    };
    std::fs::write(&output, bytes)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", output.display())))?;
    note(&format!("wrote {}", output.display()));
    Ok(0)
}

/// The run's name, or the program that people recognise; of several runs, the names of all.
fn title(runs: &[(Recording, Summary)]) -> String {
    match runs {
        [(_, only)] => only
            .name
            .clone()
            .unwrap_or_else(|| program_name(&only.command)),
        _ => {
            let labels: Vec<&str> = runs.iter().map(|(_, summary)| label(summary)).collect();
            labels.join(", ")
        }
    }
}

fn label(summary: &Summary) -> &str {
    summary.name.as_deref().unwrap_or(&summary.run)
}

fn peak(summary: &Summary) -> Option<Peak> {
    let memory = &summary.memory;
    let kind = match memory.peak_kind? {
        "vmhwm" => "VmHWM",
        "rusage" => "ru_maxrss",
        "cgroup-peak" => "cgroup peak",
        "sampled-pss" => "PSS",
        "sampled-estimate" => "estimate",
        _ => "RSS",
    };
    Some(Peak {
        bytes: memory.peak_bytes?,
        time_nanos: memory.peak_secs.map(|secs| (secs * 1e9) as u64),
        kind: kind.to_owned(),
    })
}
