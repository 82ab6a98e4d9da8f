//! `nilo fit --list`: models and GPUs that are known by name.

use std::io::Write;

use nilo_answer::fit::names::FitNamesAnswer;
use nilo_sample::units::format_bytes;

use crate::args::TextOrJson;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::fit::parameters_in_words;
use crate::text::json::write_json;
use crate::text::table::{left, right, whole, write_table};

pub(super) fn run(format: TextOrJson) -> Result<u8, Failure> {
    let answer = FitNamesAnswer::all();
    let screen = Screen::stdout();
    let mut out = std::io::stdout().lock();
    if format == TextOrJson::Json {
        write_json(&mut out, &answer)?;
        return Ok(0);
    }
    let columns = [whole("MODEL"), left("NAME").drops(1), right("PARAMETERS")];
    let rows: Vec<Vec<String>> = answer
        .models
        .iter()
        .map(|model| {
            vec![
                model.slug.clone(),
                model.name.clone(),
                parameters_in_words(model.parameters),
            ]
        })
        .collect();
    write_table(&mut out, screen, &columns, &rows)?;
    writeln!(out)?;
    let columns = [whole("GPU"), right("MEMORY")];
    let rows: Vec<Vec<String>> = answer
        .gpus
        .iter()
        .map(|gpu| vec![gpu.name.clone(), format_bytes(gpu.memory_bytes as f64)])
        .collect();
    write_table(&mut out, screen, &columns, &rows)?;
    Ok(0)
}
