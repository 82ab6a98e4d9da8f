//! `nilo fit --table`: models beside GPUs.

use nilo_answer::fit::model_table::ModelTableAnswer;
use nilo_model::catalogue::find_model;
use nilo_model::gpus::{GpuKind, find_gpu};

use crate::args::TextOrJson;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::fit_table::write_model_table;
use crate::text::json::write_json;

/// GPUs of a table for which none were named: of each size that is common, one.
const COMMON: [&str; 6] = ["T4", "RTX 4090", "A100 40GB", "L40S", "H100 SXM", "H200"];

pub(super) fn run(
    model: Option<&str>,
    gpus: &[GpuKind],
    format: TextOrJson,
) -> Result<u8, Failure> {
    let models = match model {
        None => Vec::new(),
        Some(name) => vec![find_model(name).ok_or_else(|| {
            Failure::new(format!("no model {name:?} is in the catalogue")).hint(
                "`nilo fit --list` lists all names; without --table, a config.json will do as well",
            )
        })?],
    };
    let gpus = match gpus.is_empty() {
        true => COMMON
            .iter()
            .map(|name| find_gpu(name))
            .collect::<Result<_, _>>()?,
        false => gpus.to_vec(),
    };
    let answer = ModelTableAnswer::of(&models, &gpus)?;
    let screen = Screen::stdout();
    let mut out = std::io::stdout().lock();
    match format {
        TextOrJson::Json => write_json(&mut out, &answer)?,
        TextOrJson::Text => write_model_table(&mut out, screen, &answer)?,
    }
    Ok(0)
}
