//! `nilo plot`: the memory of a run as a picture.

use std::io::Write;
use std::path::{Path, PathBuf};

use nilo_analysis::{LabelledRun, StepClock, add_resumed_metrics, metric_group, run_labels};
use nilo_answer::picture::RunPicture;
use nilo_plot::{ChartOptions, Theme, XAxisKind, compare_chart, memory_chart};
use nilo_runfile::RunFolder;
use nilo_sample::{Recording, RunMode, TableSpec};

use crate::args::{PlotArgs, PlotFormat, XAxisArg};
use crate::damaged_run::warn_of_damaged_run;
use crate::failure::{Failure, note};
use crate::folder::{existing_root, find_by_id, find_run, load, load_where};
use crate::output_file::{is_stdout, refuse_overwriting, refuse_terminal, write_file};
use crate::png::png;
use crate::recording::program_name;
use crate::settings::Settings;
use crate::text::one_line::one_line;

pub(crate) fn run(args: PlotArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = existing_root(&args.place, settings)?;
    let asked: Vec<Option<&str>> = match args.runs.is_empty() {
        true => vec![None],
        false => args.runs.iter().map(|run| Some(run.as_str())).collect(),
    };
    let mut runs: Vec<RunPicture> = Vec::new();
    let mut run_files = Vec::new();
    let mut earlier_runs = 0;
    for run in asked {
        let folder = find_run(&root, run)?;
        let picture = match args.x_axis {
            XAxisArg::Time => over_time(&folder)?,
            XAxisArg::Step => {
                let mut picture = whole(&folder)?;
                earlier_runs = add_chain(&root, &mut picture.recording)?;
                picture
            }
        };
        if picture.is_damaged {
            warn_of_damaged_run(&folder, settings);
        }
        run_files.extend(folder.files());
        runs.push(picture);
    }
    let RunPicture {
        recording, figures, ..
    } = &runs[0];
    let id = &recording.description.id;
    let format = format_of(args.format, args.output.as_deref())?;
    let output = args
        .output
        .unwrap_or_else(|| PathBuf::from(format!("{id}.{}", format.extension())));
    refuse_overwriting(&output, run_files.iter().map(|file| &**file), "-o")?;
    let is_piped = is_stdout(&output);
    if is_piped && format == PlotFormat::Png {
        refuse_terminal("PNG")?;
    }
    let metrics = chosen_metrics(&args.metrics, &runs)?;
    let mut usual = ChartOptions::of_run(recording, figures);
    usual.limit.take_if(|_| runs.len() > 1);
    let options = ChartOptions {
        width: args.width,
        height: args.height,
        metrics,
        earlier_runs,
        across: across(args.x_axis, &runs)?,
        title: args.title.or_else(|| Some(title(&runs))),
        theme: if args.dark { Theme::Dark } else { Theme::Light },
        ..usual
    };
    let chart = match &runs[..] {
        [only] => memory_chart(&only.recording, &options),
        _ => {
            let labels = labels(&runs);
            let labelled: Vec<(&str, &Recording)> = runs
                .iter()
                .zip(&labels)
                .map(|(run, label)| (label.as_str(), &run.recording))
                .collect();
            compare_chart(&labelled, &options)
        }
    };
    let bytes = match format {
        PlotFormat::Png => png(&chart)?,
        PlotFormat::Svg => chart.to_svg().into_bytes(),
    };
    if is_piped {
        let mut out = std::io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()?;
        return Ok(0);
    }
    write_file(&output, |out| Ok(out.write_all(&bytes)?))?;
    note(&format!("wrote {}", output.display()));
    Ok(0)
}

/// What was asked for, or what the file's name says; SVG where neither says anything.
fn format_of(asked: Option<PlotFormat>, output: Option<&Path>) -> Result<PlotFormat, Failure> {
    if let Some(format) = asked {
        return Ok(format);
    }
    let Some(path) = output.filter(|path| !is_stdout(path)) else {
        return Ok(PlotFormat::Svg);
    };
    let extension = path.extension().and_then(|ending| ending.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Ok(PlotFormat::Svg),
        Some("png") => Ok(PlotFormat::Png),
        _ => Err(
            Failure::new(format!("cannot tell the format of {}", path.display()))
                .hint("use a name that ends in .svg or .png, or choose one with --format"),
        ),
    }
}

/// A run as it is drawn over time: without having all rows of a large one in memory.
fn over_time(folder: &RunFolder) -> Result<RunPicture, Failure> {
    match RunPicture::of_ended(folder)? {
        Some(picture) => Ok(picture),
        None => whole(folder),
    }
}

/// A run with all its rows, as steps need them.
fn whole(folder: &RunFolder) -> Result<RunPicture, Failure> {
    let (recording, ending) = load(folder)?;
    Ok(RunPicture::of(recording, ending))
}

/// Adds the metrics of the runs that this one resumes, as far back as they are there; returns how many they are.
fn add_chain(root: &Path, recording: &mut Recording) -> Result<usize, Failure> {
    let mut seen = vec![recording.description.id.clone()];
    let mut next = recording.description.resumes.clone();
    while let Some(id) = next.filter(|id| !seen.contains(id)) {
        let Some(folder) = find_by_id(root, &id)? else {
            break;
        };
        let is_metric = |spec: &TableSpec| metric_group(spec).is_some();
        let Ok((earlier, _)) = load_where(&folder, &is_metric) else {
            break;
        };
        next = earlier.description.resumes.clone();
        add_resumed_metrics(recording, earlier);
        seen.push(id);
    }
    Ok(seen.len() - 1)
}

/// The metrics that were asked for; of a single run without a wish, its loss or its first metric.
fn chosen_metrics(asked: &[String], runs: &[RunPicture]) -> Result<Vec<String>, Failure> {
    if asked.is_empty() {
        return Ok(match runs {
            [only] => only.figures.usual_metric().into_iter().collect(),
            _ => Vec::new(),
        });
    }
    let known = |name: &str| {
        let mut metrics = runs.iter().flat_map(|run| &run.figures.metrics);
        metrics.any(|metric| metric == name)
    };
    if asked == ["none"] && !known("none") {
        return Ok(Vec::new());
    }
    match asked.iter().find(|name| !known(name)) {
        None => Ok(asked.to_vec()),
        Some(unknown) => {
            let failure = Failure::new(format!("no metric is called {unknown:?}"));
            Err(failure.hint(known_names(runs)))
        }
    }
}

fn known_names(runs: &[RunPicture]) -> String {
    let metrics = runs.iter().flat_map(|run| &run.figures.metrics);
    let mut names: Vec<String> = metrics.map(|name| one_line(name, 40)).collect();
    names.sort();
    names.dedup();
    match names.len() {
        0 => "this run has no metrics".to_owned(),
        1..=8 => format!("the metrics are {}", names.join(", ")),
        count => format!(
            "the metrics are {} and {} more; see `nilo show --all`",
            names[..8].join(", "),
            count - 8
        ),
    }
}

fn across(asked: XAxisArg, runs: &[RunPicture]) -> Result<XAxisKind, Failure> {
    match (asked, runs) {
        (XAxisArg::Time, _) => Ok(XAxisKind::Time),
        (XAxisArg::Step, [only]) if StepClock::of(&only.recording).has_steps() => {
            Ok(XAxisKind::Steps)
        }
        (XAxisArg::Step, [_]) => Err(Failure::new("this run has no steps").hint("omit -x")),
        (XAxisArg::Step, _) => {
            Err(Failure::new("several runs are drawn over time only")
                .hint("omit -x, or draw one run"))
        }
    }
}

/// The run's name, or the program that people recognise; of several runs, the names of all.
fn title(runs: &[RunPicture]) -> String {
    match runs {
        [only] => {
            let description = &only.recording.description;
            let name = description.name.clone();
            name.unwrap_or_else(|| match description.mode {
                RunMode::Machine => format!("{}: host memory and GPUs", description.host),
                _ => program_name(&description.command),
            })
        }
        _ => labels(runs).join(", "),
    }
}

/// What to call each of several runs: its name, told apart from others of that name, or its id.
fn labels(runs: &[RunPicture]) -> Vec<String> {
    let runs = runs.iter().map(|run| &run.recording.description);
    let runs: Vec<LabelledRun<'_>> = runs.map(LabelledRun::from).collect();
    let labels = run_labels(&runs).into_iter().zip(&runs);
    labels
        .map(|(label, run)| match run.name {
            Some(_) => label,
            None => run.id.to_owned(),
        })
        .collect()
}
