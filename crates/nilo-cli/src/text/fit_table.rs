//! Models beside GPUs in words.

use std::io::Write;

use nilo_answer::fit::answer::FitVerdict;
use nilo_answer::fit::model_table::{ModelTableAnswer, TableModel};
use nilo_sample::units::format_bytes;

use super::fit::parameters_in_words;
use crate::screen::Screen;
use crate::text::table::{TextColumn, left, right, whole, write_table};

/// Writes what each model takes, then which GPU has room for it.
pub(crate) fn write_model_table(
    out: &mut dyn Write,
    screen: Screen,
    answer: &ModelTableAnswer,
) -> std::io::Result<()> {
    writeln!(
        out,
        "What a process takes in bf16 with one sequence of 512 tokens; training is with AdamW, of all weights."
    )?;
    writeln!(out)?;
    let needs: Vec<Vec<String>> = answer.models.iter().map(needs_of).collect();
    let columns = [
        left("MODEL"),
        right("PARAMETERS").drops(2),
        right("WEIGHTS").drops(1),
        right("INFERENCE"),
        right("TRAINING"),
    ];
    write_table(out, screen, &columns, &needs)?;
    writeln!(out)?;
    let heads: Vec<String> = answer
        .gpus
        .iter()
        .map(|gpu| gpu.name.to_uppercase())
        .collect();
    let mut columns: Vec<TextColumn<'_>> = vec![whole("MODEL")];
    for (index, head) in heads.iter().enumerate() {
        columns.push(whole(head).drops(index as u8 + 1));
    }
    let rows: Vec<Vec<String>> = answer.models.iter().map(verdicts_of).collect();
    let hidden = write_table(out, screen, &columns, &rows)?;
    writeln!(out)?;
    writeln!(
        out,
        "train: training and inference fit; infer: inference fits; infer?, train?: it may not, the estimate is too near; -: neither."
    )?;
    if !hidden.is_empty() {
        writeln!(
            out,
            "Some GPUs are left out, as the screen is narrow; --format json has all of them."
        )?;
    }
    Ok(())
}

fn needs_of(model: &TableModel) -> Vec<String> {
    let size = |bytes: u64| format_bytes(bytes as f64);
    vec![
        model.slug.clone(),
        parameters_in_words(model.parameters),
        size(model.weights_bytes),
        size(model.inference_bytes.expected),
        size(model.training_bytes.expected),
    ]
}

fn verdicts_of(model: &TableModel) -> Vec<String> {
    let cell = |(inference, training): (&FitVerdict, &FitVerdict)| {
        match (inference, training) {
            (_, FitVerdict::Fits) => "train",
            (_, FitVerdict::MayNotFit) => "train?",
            (FitVerdict::Fits, _) => "infer",
            (FitVerdict::MayNotFit, _) => "infer?",
            _ => "-",
        }
        .to_owned()
    };
    let verdicts = model.inference.iter().zip(&model.training).map(cell);
    std::iter::once(model.slug.clone())
        .chain(verdicts)
        .collect()
}
