//! The command: draws, plays, prints.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use jiff::Zoned;

use crate::contest::{PredictorResult, contest, measure_costs};
use crate::deadlines;
use crate::dump::dump;
use crate::leak_tables;
use crate::loads;
use crate::machine;
use crate::ours::predictors;
use crate::page::{About, page};
use crate::recorded::{committed_folders, read_folder};
use crate::settings::{Generator, VerdictArgs};
use crate::table::TextTable;
use crate::tables;
use crate::trace::Trace;

/// Does what the settings say; tables go to `output`.
pub fn run(settings: &VerdictArgs, output: &mut impl Write) -> anyhow::Result<()> {
    if let Some(folder) = &settings.dump {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for generator in settings.generators() {
            for trace in drawn(settings, generator) {
                dump(&trace, folder)
                    .with_context(|| format!("cannot write into {}", folder.display()))?;
            }
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
    let mut contests = Vec::new();
    for generator in settings.generators() {
        let mut entries = contest(&makers, drawn(settings, generator));
        if contests.is_empty() {
            measure_costs(&makers, &mut entries);
        }
        contests.push((generator, entries));
    }
    let recordings = contest(&makers, traces.into_iter());
    if let Some(path) = &settings.markdown {
        let text = page(&about(settings), &contests, &recordings);
        fs::write(path, text).with_context(|| refused(path))?;
    }
    for (generator, entries) in &contests {
        writeln!(output, "== {} ==\n", generator.as_str())?;
        show_drawn(settings, entries, output)?;
    }
    show(
        "Alarms in recordings",
        tables::by_trace(&recordings),
        output,
    )?;
    show(
        "Leaks in recordings",
        leak_tables::by_trace(&recordings),
        output,
    )?;
    if settings.shape.is_none() {
        let title = "Leaks that kill: seconds from its beginning to the alarm, of those allowed";
        show(title, deadlines::table(), output)?;
        let title = "Leaks that kill within a minute: the same";
        show(title, deadlines::short_table(), output)?;
        let title = "Loading that ends below the limit: seconds of false alarm";
        show(title, loads::table(), output)?;
    }
    Ok(())
}

fn show(title: &str, table: TextTable, output: &mut impl Write) -> anyhow::Result<()> {
    if !table.is_empty() {
        writeln!(output, "{title}\n{}", table.text())?;
    }
    Ok(())
}

/// The tables of one generator's traces.
fn show_drawn(
    settings: &VerdictArgs,
    entries: &[PredictorResult],
    output: &mut impl Write,
) -> anyhow::Result<()> {
    let parts = [
        ("Alarms", tables::alarms(entries)),
        (
            "Times, probabilities and what they cost",
            tables::forecasts(entries),
        ),
        ("Leaks", leak_tables::quality(entries)),
        (
            "Alarms by shape: hits/OOMs +false",
            tables::by_shape(entries),
        ),
        (
            "Leaks by shape: found/leaks +imagined",
            leak_tables::by_shape(entries),
        ),
    ];
    for (title, table) in parts {
        show(title, table, output)?;
    }
    if settings.details {
        for entry in entries {
            let title = format!("Reliability of {}", entry.name);
            show(&title, tables::reliability(entry), output)?;
        }
        show("What went wrong", tables::details(entries), output)?;
    }
    Ok(())
}

/// The recorded traces; none where a single drawn shape is looked at.
fn recorded(settings: &VerdictArgs) -> anyhow::Result<Vec<Trace>> {
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

fn about(settings: &VerdictArgs) -> About {
    let seeds = settings.seeds.for_each_shape(settings.traces_per_shape);
    About {
        date: Zoned::now().date().to_string(),
        machine: machine::describe(),
        command: format!("nilo-verdict-bench {}", settings.words()),
        seeds: format!("seeds {} to {} of each", seeds.start(), seeds.end()),
    }
}

/// The traces of one generator that the settings ask for, drawn one by one.
fn drawn(settings: &VerdictArgs, generator: Generator) -> impl Iterator<Item = Trace> {
    let kinds = match settings.shape {
        Some(kind) => kind..=kind.min(generator.kinds()),
        None => 1..=generator.kinds(),
    };
    let seeds = settings.seeds.for_each_shape(settings.traces_per_shape);
    kinds.flat_map(move |kind| seeds.clone().map(move |seed| generator.draw(kind, seed)))
}
