//! `nilo fit`: how much GPU memory a model takes, before it runs.

mod check;
mod list;
mod table;
mod truth;
mod vary;

use std::io::Write;
use std::path::Path;

use nilo_answer::fit::answer::{FitError, FitPart, FitVerdict, FitWay};
use nilo_answer::fit::{FitAnswer, FitModel, FitModelError, FitRequest};
use nilo_model::gpus::{GpuKind, find_gpu};
use nilo_plot::{Chart, MemoryBar, memory_bars};
use nilo_sample::units::format_bytes;

use crate::args::{FitArgs, TextOrJson};
use crate::failure::{Failure, note};
use crate::gpu_kind::named_gpu;
use crate::output_file::{is_stdout, refuse_overwriting, write_file};
use crate::png::png;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::fit::write_fit;
use crate::text::json::write_json;
use crate::wrap::WrappingWriter;

/// Where no GPU is named, its workspaces are assumed.
const DEFAULT_GPU: &str = "H100 SXM";

pub(crate) fn run(args: FitArgs, settings: &Settings) -> Result<u8, Failure> {
    if let Some(path) = &args.truth {
        return truth::run(path, args.format);
    }
    if args.list {
        return list::run(args.format);
    }
    let gpus: Vec<GpuKind> = args
        .gpus
        .iter()
        .map(|name| named_gpu(name))
        .collect::<Result<_, _>>()?;
    if args.table {
        return table::run(args.model.as_deref(), &gpus, args.format);
    }
    let asked = args.model.as_deref().unwrap_or_default();
    if let Some(output) = &args.output {
        refuse_overwriting(output, [Path::new(asked)], "-o")?;
    }
    let model = FitModel::find(asked).map_err(model_failure)?;
    if let Some(variation) = &args.vary {
        let gpu = match gpus.first() {
            Some(gpu) => gpu.clone(),
            None => find_gpu(DEFAULT_GPU)?,
        };
        let answer = vary::answer(&model, &args.choices(), &gpu, variation)?;
        if let Some(output) = &args.output {
            write_chart(&vary::chart(&answer), output)?;
        }
        if !args.output.as_deref().is_some_and(is_stdout) {
            vary::print(&answer, args.format)?;
        }
        return Ok(0);
    }
    let recorded = match &args.check {
        Some(run) => Some(check::summary_of(run, &args.place, settings)?),
        None => None,
    };
    let of_run = || recorded.as_ref().and_then(check::gpu_of);
    let request = FitRequest {
        model,
        choices: args.choices(),
        gpus: match (gpus.is_empty(), of_run()) {
            (false, _) => gpus.clone(),
            (true, Some(gpu)) => vec![gpu],
            (true, None) => vec![find_gpu(DEFAULT_GPU)?],
        },
        wants_largest_batch: args.max_batch,
        wants_ways: !gpus.is_empty(),
    };
    let mut answer = request.answer().map_err(fit_failure)?;
    if let Some(summary) = &recorded {
        return check::run(summary, &answer, args.format);
    }
    if gpus.is_empty() && !args.max_batch {
        answer.gpus.clear();
    }
    let is_picture_alone = args.output.as_deref().is_some_and(is_stdout);
    if let Some(output) = &args.output {
        write_chart(&chart(&answer), output)?;
    }
    if !is_picture_alone {
        print(&answer, args.format)?;
    }
    let fits = gpus.is_empty() || answer.gpus[0].verdict == FitVerdict::Fits;
    Ok(u8::from(!fits))
}

fn print(answer: &FitAnswer, format: TextOrJson) -> Result<(), Failure> {
    let screen = Screen::stdout();
    let mut out = std::io::stdout().lock();
    match format {
        TextOrJson::Json => write_json(&mut out, answer)?,
        TextOrJson::Text => {
            write_fit(&mut WrappingWriter::new(out, screen), screen, answer)?;
        }
    }
    Ok(())
}

fn model_failure(error: FitModelError) -> Failure {
    let hint = error.hint();
    let failure = Failure::new(&error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn fit_failure(error: FitError) -> Failure {
    Failure::new(&error)
}

fn write_chart(chart: &Chart, output: &Path) -> Result<(), Failure> {
    let extension = output.extension().and_then(|ending| ending.to_str());
    let bytes = match extension.map(str::to_ascii_lowercase).as_deref() {
        _ if is_stdout(output) => chart.to_svg().into_bytes(),
        Some("svg") => chart.to_svg().into_bytes(),
        Some("png") => png(chart)?,
        _ => {
            let sentence = format!("cannot tell the format of {}", output.display());
            return Err(Failure::new(sentence).hint("use a name that ends in .svg or .png"));
        }
    };
    if is_stdout(output) {
        let mut out = std::io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()?;
        return Ok(());
    }
    write_file(output, |out| Ok(out.write_all(&bytes)?))?;
    note(&format!("wrote {}", output.display()));
    Ok(())
}

fn named(parts: &[FitPart]) -> Vec<(String, u64)> {
    let name = |part: &FitPart| (part.name.to_owned(), part.bytes);
    parts.iter().map(name).collect()
}

/// The estimate and each way to make it fit as a bar of parts, with the GPU's memory as a line.
fn chart(answer: &FitAnswer) -> Chart {
    let mut bars = vec![MemoryBar {
        label: "as asked".to_owned(),
        parts: named(&answer.parts),
    }];
    let bar = |label: String, way: &FitWay| MemoryBar {
        label,
        parts: named(&way.parts),
    };
    bars.extend(answer.ways.iter().map(|way| bar(way.change.clone(), way)));
    let together = answer.together.as_ref();
    bars.extend(together.map(|way| bar(format!("together: {}", way.change), way)));
    let limit = answer.gpus.first();
    let subtitle = crate::text::fit::settings_in_words(&answer.settings);
    let process = format_bytes(answer.process_bytes.expected as f64);
    memory_bars(
        &format!("{}: {process}", answer.model.name),
        &subtitle,
        &bars,
        limit.map(|gpu| (gpu.name.as_str(), gpu.memory_bytes)),
    )
}
