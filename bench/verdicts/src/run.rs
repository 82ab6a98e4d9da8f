//! The command: draws, plays, prints.

use std::fs;
use std::io::Write;

use anyhow::{Context, bail};

use crate::contest::{contest, measure_costs};
use crate::dump::dump;
use crate::ours::predictors;
use crate::settings::Settings;
use crate::shapes::{SHAPES, draw};
use crate::table::Table;
use crate::tables;
use crate::trace::Trace;

/// Does what the settings say; tables go to `output`.
pub fn run(settings: &Settings, output: &mut impl Write) -> anyhow::Result<()> {
    if let Some(folder) = &settings.dump {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for trace in drawn(settings) {
            dump(&trace, folder)
                .with_context(|| format!("cannot write into {}", folder.display()))?;
        }
        return Ok(());
    }
    let mut makers = predictors();
    if let Some(part) = &settings.only {
        makers.retain(|make| make().name().contains(part.as_str()));
        if makers.is_empty() {
            let names: Vec<&str> = predictors().iter().map(|make| make().name()).collect();
            bail!(
                "no predictor has {part} in its name\nhint: there are {}",
                names.join("; ")
            );
        }
    }
    let mut entries = contest(&makers, drawn(settings));
    measure_costs(&makers, &mut entries);
    let mut show = |title: &str, table: Table| -> anyhow::Result<()> {
        if !table.is_empty() {
            writeln!(output, "{title}\n{}", table.text())?;
        }
        Ok(())
    };
    show("Alarms", tables::alarms(&entries))?;
    show(
        "Times, probabilities and what they cost",
        tables::forecasts(&entries),
    )?;
    show("Leaks", tables::leaks(&entries))?;
    show(
        "Alarms by shape: hits/OOMs +false",
        tables::by_shape(&entries),
    )?;
    show(
        "Leaks by shape: found/leaks +imagined",
        tables::leaks_by_shape(&entries),
    )?;
    if settings.details {
        show("What went wrong", tables::details(&entries))?;
    }
    Ok(())
}

/// The traces that the settings ask for, drawn one by one.
fn drawn(settings: &Settings) -> impl Iterator<Item = Trace> {
    let shapes = match settings.shape {
        Some(shape) => shape..=shape,
        None => 1..=SHAPES,
    };
    let seeds = settings.seeds.for_each_shape(settings.traces_per_shape);
    shapes.flat_map(move |shape| seeds.clone().map(move |seed| draw(shape, seed)))
}
