//! Growth in words: a line for each resource, or one line in all.

use std::io::{Result, Write};

use nilo_analysis::findings::Holder;
use nilo_analysis::forecast::words::growth_in_words;
use nilo_analysis::lookout::{Resource, Verdict};

use crate::commands::leak::is_leak;
use crate::outlook::Outlook;
use crate::text::one_line::one_line;
use crate::text::oom::{heading, samples_in_words};

const NAME_CHARS: usize = 80;
const GROWTH_CHARS: usize = 400;

/// Writes a line for each resource, leaks first.
pub(crate) fn write_leaks(
    out: &mut dyn Write,
    outlook: &Outlook,
    verdicts: &[Verdict],
    holders: &[Holder],
) -> Result<()> {
    writeln!(out, "{}", heading(outlook))?;
    writeln!(out)?;
    for verdict in verdicts {
        let place = place(verdict, holders);
        writeln!(out, "{}: {}{place}", name(verdict), growth(verdict))?;
    }
    Ok(())
}

/// `, in train.py (PID 4711)`
fn place(verdict: &Verdict, holders: &[Holder]) -> String {
    let grown = verdict.resource == Resource::Job && verdict.growth.is_some();
    if !grown || holders.is_empty() {
        return String::new();
    }
    // Sizes only tell several apart: the growth itself has been said.
    let spelled: Vec<String> = holders
        .iter()
        .map(|holder| match holders.len() {
            1 => holder.who(),
            _ => holder.to_string(),
        })
        .map(|text| one_line(&text, 2 * NAME_CHARS))
        .collect();
    format!(", in {}", spelled.join(", "))
}

/// Writes one line: the leaks, or that there is none.
pub(crate) fn write_check(
    out: &mut dyn Write,
    verdicts: &[Verdict],
    holders: &[Holder],
) -> Result<()> {
    let leaks: Vec<String> = verdicts
        .iter()
        .filter(|verdict| is_leak(verdict))
        .map(|verdict| {
            let place = place(verdict, holders);
            format!("{}{place}", leak_in_words(verdict))
        })
        .collect();
    if !leaks.is_empty() {
        return writeln!(out, "leak found: {}", leaks.join("; "));
    }
    match verdicts.iter().all(|verdict| verdict.too_young) {
        true => writeln!(out, "no leak found: the recording is too short to find one"),
        false => writeln!(out, "no leak found"),
    }
}

/// `job memory leaks 30 MiB a minute ...`
pub(crate) fn leak_in_words(verdict: &Verdict) -> String {
    format!("{} {}", name(verdict), growth(verdict))
}

/// Of the machine's memory only the job's own part is looked at, where it is known.
fn name(verdict: &Verdict) -> String {
    let name = one_line(&verdict.resource.to_string(), NAME_CHARS);
    match (&verdict.resource, verdict.reading.own_bytes) {
        (Resource::Host | Resource::Gpu { .. }, Some(_)) => format!("the job's part of {name}"),
        _ => name,
    }
}

fn growth(verdict: &Verdict) -> String {
    match &verdict.growth {
        Some(growth) => {
            let odd = verdict.odd_peers.iter().map(|odd| format!("; {odd}"));
            one_line(
                &format!("{}{}", growth_in_words(growth), odd.collect::<String>()),
                GROWTH_CHARS,
            )
        }
        None if verdict.too_young => format!(
            "too short to say ({}; it takes 10 seconds or 50 steps)",
            samples_in_words(verdict.readings, verdict.watched_secs)
        ),
        None => "no lasting growth".to_owned(),
    }
}
