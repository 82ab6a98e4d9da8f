//! `nilo fit --vary`: how memory and time grow.

use nilo_answer::fit::growth::FitGrowthAnswer;
use nilo_answer::fit::{FitChoices, FitModel};
use nilo_model::gpus::GpuKind;
use nilo_plot::{Chart, MemoryBar, memory_bars};

use super::named;
use crate::args::{TextOrJson, Variation};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::fit_growth::{varied_in_words, write_growth};
use crate::text::json::write_json;

pub(super) fn answer(
    model: &FitModel,
    choices: &FitChoices,
    gpu: &GpuKind,
    variation: &Variation,
) -> Result<FitGrowthAnswer, Failure> {
    let found = FitGrowthAnswer::of(model, choices, gpu, variation.setting, &variation.values);
    found.map_err(Failure::new)
}

pub(super) fn print(answer: &FitGrowthAnswer, format: TextOrJson) -> Result<(), Failure> {
    let screen = Screen::stdout();
    let mut out = std::io::stdout().lock();
    match format {
        TextOrJson::Json => write_json(&mut out, answer)?,
        TextOrJson::Text => write_growth(&mut out, screen, answer)?,
    }
    Ok(())
}

/// A bar for each value.
pub(super) fn chart(answer: &FitGrowthAnswer) -> Chart {
    let name = varied_in_words(answer.varied);
    let bar = |row: &nilo_answer::fit::growth::GrowthRow| MemoryBar {
        label: format!("{name} {}", row.value),
        parts: named(&row.parts),
    };
    let bars: Vec<MemoryBar> = answer.rows.iter().map(bar).collect();
    memory_bars(
        &format!("{}: memory by {name}", answer.model),
        "",
        &bars,
        Some((answer.gpu.as_str(), answer.gpu_memory_bytes)),
    )
}
