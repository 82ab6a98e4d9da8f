//! Growth in words: a line for each resource, or one line in all.

use std::io::{Result, Write};

use nilo_analysis::findings::MemoryHolder;
use nilo_analysis::tracking::ResourceVerdict;
use nilo_answer::diagnosis::Diagnosis;
use nilo_answer::growths::{GrowthFindings, ResourceGrowth};
use nilo_forecast::words::{growth_in_words, growth_until_the_end, paused_growth_in_words};
use nilo_sample::words::{bytes_in_words, duration_in_words, rate_in_words};

use crate::screen::Screen;
use crate::text::one_line::one_line;
use crate::text::oom::{heading, samples_in_words};

/// What it takes to tell whether something leaks.
pub(crate) const LEAST_TIME: &str = "at least 10 seconds or 50 steps are needed";
const NAME_CHARS: usize = 80;
const GROWTH_CHARS: usize = 400;

/// Writes a line for each resource, leaks first.
pub(crate) fn write_leaks(
    out: &mut dyn Write,
    diagnosis: &Diagnosis,
    growths: &GrowthFindings,
) -> Result<()> {
    writeln!(out, "{}", heading(diagnosis))?;
    writeln!(out)?;
    for grown in &growths.each {
        let place = place(growths.holders_of(grown));
        let name = format!("{}:", name(&grown.verdict));
        let name = match grown.is_leak() {
            true => Screen::stdout().paint("warning", &name),
            false => name,
        };
        writeln!(out, "{name} {}{place}", growth(grown))?;
    }
    Ok(())
}

/// `, in train.py (PID 4711)`
fn place(holders: &[MemoryHolder]) -> String {
    if holders.is_empty() {
        return String::new();
    }
    let spelled = MemoryHolder::list(holders).into_iter();
    let spelled = spelled.map(|text| one_line(&text, 2 * NAME_CHARS));
    format!(", in {}", spelled.collect::<Vec<String>>().join(", "))
}

/// Writes one line: the leaks, or that there is none.
pub(crate) fn write_check(out: &mut dyn Write, growths: &GrowthFindings) -> Result<()> {
    let leaks: Vec<String> = growths
        .leaks()
        .map(|grown| leak_in_words(growths, grown))
        .collect();
    if !leaks.is_empty() {
        let found = Screen::stdout().paint("warning", "leak found:");
        return writeln!(out, "{found} {}", leaks.join("; "));
    }
    let is_below = |grown: &&ResourceGrowth| {
        let has_paused = grown.verdict.growth.is_none() && grown.verdict.paused_growth.is_some();
        grown.below_threshold.is_some() || has_paused
    };
    match growths.each.iter().find(is_below) {
        Some(grown) => {
            let name = name(&grown.verdict);
            writeln!(out, "no leak found: {name} {}", growth(grown))
        }
        None => writeln!(out, "no leak found"),
    }
}

/// `job memory leaks 30 MiB/min ..., in train.py (PID 4711)`
pub(crate) fn leak_in_words(growths: &GrowthFindings, grown: &ResourceGrowth) -> String {
    let place = place(growths.holders_of(grown));
    format!("{} {}{place}", name(&grown.verdict), growth(grown))
}

/// A resource has one name in all runs and commands.
/// Of what everybody on the machine uses only the job's own part is looked at, where it is known: what is told of that part says so.
fn name(verdict: &ResourceVerdict) -> String {
    let name = one_line(&verdict.resource.to_string(), NAME_CHARS);
    let has_figures = verdict.growth.is_some() || verdict.paused_growth.is_some();
    let is_told = has_figures || verdict.job_part_secs().is_some();
    match is_told && verdict.is_of_job_alone() {
        true => format!("{name} (this job's share)"),
        false => name,
    }
}

/// How long it was looked at; of a part that was not known from the beginning on, since when it is.
fn time_in_words(verdict: &ResourceVerdict) -> String {
    match verdict.job_part_secs() {
        Some(0.0) => "available for the last sample only".to_owned(),
        Some(secs) => format!("available for {} only", duration_in_words(secs)),
        None => samples_in_words(verdict),
    }
}

fn growth(grown: &ResourceGrowth) -> String {
    let verdict = &grown.verdict;
    match (&verdict.growth, &grown.below_threshold) {
        (Some(growth), _) => {
            let told = match verdict.led_to_end {
                true => growth_until_the_end(growth),
                false => growth_in_words(growth),
            };
            let files = match growth.is_in_tmpfs {
                true => ", most of it in /dev/shm or another tmpfs",
                false if verdict.grows_in_shared_mappings() => {
                    ", most of it shared memory that processes map (no file)"
                }
                false => "",
            };
            let odd = verdict.odd_peers.iter().map(|odd| format!("; {odd}"));
            let loading = verdict.loading_in_words();
            let loading = loading.map_or(String::new(), |text| format!("; {text}"));
            one_line(
                &format!("{told}{files}{loading}{}", odd.collect::<String>()),
                GROWTH_CHARS,
            )
        }
        (None, Some(small)) => {
            let rate = rate_in_words(
                small.bytes_per_sec,
                small.bytes_per_sec,
                small.bytes_per_sec,
            );
            let so_far = bytes_in_words(small.grown_bytes);
            format!("grows {rate}, {so_far} so far, which is below the threshold")
        }
        (None, None) if verdict.too_young => format!(
            "too short to detect a leak ({}; {LEAST_TIME})",
            time_in_words(verdict)
        ),
        (None, None) => match &verdict.paused_growth {
            Some(paused) => paused_growth_in_words(paused),
            None => "no lasting growth".to_owned(),
        },
    }
}
