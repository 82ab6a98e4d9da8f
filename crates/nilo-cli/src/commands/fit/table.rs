//! `nilo fit --table`: models beside GPUs.

use nilo_answer::fit::model_table::ModelTableAnswer;
use nilo_model::catalogue::find_model;
use nilo_model::gpus::GpuKind;

use crate::args::TextOrJson;
use crate::failure::Failure;
use crate::gpu_kind::common_gpus;
use crate::screen::Screen;
use crate::text::fit_table::write_model_table;
use crate::text::json::write_json;

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
        true => common_gpus()?,
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
