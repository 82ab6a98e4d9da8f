//! The command: draws, plays, prints.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use jiff::Zoned;

use crate::contest::{contest, measure_costs};
use crate::dump::dump;
use crate::leak_tables;
use crate::machine;
use crate::ours::predictors;
use crate::page::{About, page};
use crate::recorded::{committed_folders, read_folder};
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
    // What cannot work is said before the minutes that the rest takes.
    let traces = recorded(settings)?;
    let refused = |path: &Path| format!("cannot write {}", path.display());
    if let Some(path) = &settings.markdown {
        let opened = fs::OpenOptions::new().create(true).append(true).open(path);
        opened.with_context(|| refused(path))?;
    }
    let mut entries = contest(&makers, drawn(settings));
    measure_costs(&makers, &mut entries);
    let recordings = contest(&makers, traces.into_iter());
    if let Some(path) = &settings.markdown {
        let text = page(&about(settings), &entries, &recordings);
        fs::write(path, text).with_context(|| refused(path))?;
    }
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
    show("Leaks", leak_tables::quality(&entries))?;
    show(
        "Alarms by shape: hits/OOMs +false",
        tables::by_shape(&entries),
    )?;
    show(
        "Leaks by shape: found/leaks +imagined",
        leak_tables::by_shape(&entries),
    )?;
    show("Alarms in recordings", tables::by_trace(&recordings))?;
    show("Leaks in recordings", leak_tables::by_trace(&recordings))?;
    if settings.details {
        for entry in &entries {
            let title = format!("Reliability of {}", entry.name);
            show(&title, tables::reliability(entry))?;
        }
        show("What went wrong", tables::details(&entries))?;
    }
    Ok(())
}

/// The recorded traces; none where a single drawn shape is looked at.
fn recorded(settings: &Settings) -> anyhow::Result<Vec<Trace>> {
    if settings.shape.is_some() && settings.recorded.is_empty() {
        return Ok(Vec::new());
    }
    let folders = match settings.recorded.as_slice() {
        [] => committed_folders(),
        named => named.to_vec(),
    };
    let mut traces = Vec::new();
    for folder in folders {
        traces.extend(read_folder(&folder).context("recorded traces")?);
    }
    Ok(traces)
}

fn about(settings: &Settings) -> About {
    let seeds = settings.seeds.for_each_shape(settings.traces_per_shape);
    About {
        date: Zoned::now().date().to_string(),
        machine: machine::describe(),
        command: format!("nilo-verdict-bench {}", settings.words()),
        seeds: format!("seeds {} to {} of each", seeds.start(), seeds.end()),
    }
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
