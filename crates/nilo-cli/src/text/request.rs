//! A request in words: what to write into the job's script, what it rests on, and what Slurm says of the same runs.

use std::io::Write;

use nilo_analysis::peak::PeakKind;
use nilo_request::slurm::Account;
use nilo_request::{Completeness, Confidence, LimitFit, PlannedRun, Request, RunFacts};
use nilo_sample::units::{format_bytes, format_duration};

use crate::screen::Screen;
use crate::text::one_line::one_line;
use crate::text::table::{left, right, write_table};

const LABEL_CHARS: usize = 40;
const NOTE_CHARS: usize = 300;

/// Writes everything; `plan` is what the user said about the runs to come.
pub(crate) fn write_request(
    out: &mut dyn Write,
    request: &Request,
    plan: &PlannedRun,
    accounts: &[Account],
) -> std::io::Result<()> {
    let memory = &request.memory;
    let begin = match (memory.growing, memory.runs_away, plan.planned_secs) {
        (false, ..) => "Request",
        (true, true, _) => {
            writeln!(
                out,
                "Memory grows without bound: no request is enough for the planned time; fix the leak first (`nilo leak`)"
            )?;
            "For runs as long as these, request"
        }
        (true, false, planned) => {
            writeln!(
                out,
                "Memory was still growing at the end: look for a leak first (`nilo leak`), a longer run needs more"
            )?;
            match planned {
                Some(_) => "For the planned time, request",
                None => "For a run of that length, request",
            }
        }
    };
    writeln!(
        out,
        "{begin} {} per node ({})",
        format_bytes(memory.bytes as f64),
        confidence(memory.confidence)
    )?;
    writeln!(out, "  {}", memory.rule_in_words())?;
    if let (Some(least), Some(most)) = (memory.least_peak_bytes, memory.largest_peak_bytes) {
        writeln!(
            out,
            "  would have covered {} of {} completed runs; {} {}",
            memory.covered_runs,
            memory.whole_runs,
            if memory.whole_runs == 1 {
                "its peak was"
            } else {
                "their peaks were"
            },
            range(least, most)
        )?;
    }
    writeln!(out)?;
    write_schedulers(out, request, plan, Screen::stdout())?;
    write_gpu(out, request)?;
    write_present(out, request)?;
    writeln!(out)?;
    write_runs(out, &request.runs)?;
    if !request.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &request.notes {
        writeln!(out, "Note: {}", one_line(note, NOTE_CHARS))?;
    }
    write_accounts(out, accounts, &request.runs)
}

fn confidence(confidence: Confidence) -> String {
    match confidence {
        Confidence::Guess => "a guess".to_owned(),
        other => format!("{} confidence", other.as_str()),
    }
}

fn range(least: u64, most: u64) -> String {
    let (least, most) = (format_bytes(least as f64), format_bytes(most as f64));
    match least == most {
        true => most,
        false => format!("{least} to {most}"),
    }
}

fn write_schedulers(
    out: &mut dyn Write,
    request: &Request,
    plan: &PlannedRun,
    screen: Screen,
) -> std::io::Result<()> {
    let slurm = &request.slurm;
    // These lines are copied by themselves.
    let too_little = match request.memory.runs_away {
        true => "    # for runs as long as these only: memory grows without bound",
        false => "",
    };
    writeln!(out, "  #SBATCH --mem={}{too_little}", slurm.mem)?;
    if let Some(time) = &request.time {
        write_script_line(out, screen, &format!("--time={}", time.slurm), &time.rule)?;
    }
    if let (Some(share), Some(cpus)) = (&slurm.mem_per_cpu, plan.cpus) {
        writeln!(
            out,
            "  or instead of --mem: --mem-per-cpu={share}, with {cpus} CPUs"
        )?;
    }
    if let Some(share) = &slurm.mem_per_gpu {
        let gpus = plan.gpus.or(request.gpu.as_ref().map(|gpu| gpu.devices));
        let gpus = gpus.unwrap_or(1);
        let word = if gpus == 1 { "GPU" } else { "GPUs" };
        writeln!(
            out,
            "  or instead of --mem: --mem-per-gpu={share}, with {gpus} {word}"
        )?;
    }
    let kubernetes = &request.kubernetes;
    writeln!(
        out,
        "  Kubernetes: requests.memory: {}, limits.memory: {}{too_little}",
        kubernetes.requests, kubernetes.limits
    )?;
    writeln!(out, "  in bytes: {}", request.memory.bytes)
}

/// A line to copy into a script, with its comment behind it, or above it in words that fit where the screen is too narrow.
fn write_script_line(
    out: &mut dyn Write,
    screen: Screen,
    option: &str,
    comment: &str,
) -> std::io::Result<()> {
    let line = format!("  #SBATCH {option}    # {comment}");
    let columns = screen.columns.unwrap_or(usize::MAX);
    if line.chars().count() <= columns {
        return writeln!(out, "{line}");
    }
    let mut above = String::from("  #");
    for word in comment.split(' ') {
        if above.chars().count() + 1 + word.chars().count() > columns && above.len() > 3 {
            writeln!(out, "{above}")?;
            above = String::from("  #");
        }
        above.extend([" ", word]);
    }
    writeln!(out, "{above}\n  #SBATCH {option}")
}

fn write_gpu(out: &mut dyn Write, request: &Request) -> std::io::Result<()> {
    let Some(gpu) = &request.gpu else {
        return Ok(());
    };
    let held = gpu.peak_allocated_bytes.map_or(String::new(), |bytes| {
        format!(", tensors held {} of it", format_bytes(bytes as f64))
    });
    let present = gpu.present_bytes.map_or(String::new(), |bytes| {
        format!("; the smallest GPU had {}", format_bytes(bytes as f64))
    });
    writeln!(
        out,
        "\nGPUs with {} each ({}): {}; the peak was {}{held}{present}",
        format_bytes(gpu.bytes as f64),
        confidence(gpu.confidence),
        gpu.rule,
        format_bytes(gpu.peak_bytes as f64),
    )
}

fn write_present(out: &mut dyn Write, request: &Request) -> std::io::Result<()> {
    let Some(present) = &request.present_limit else {
        return Ok(());
    };
    let difference = format_bytes(present.difference_bytes.unsigned_abs() as f64);
    let unused = present.used_ratio.map_or(String::new(), |used| {
        format!(
            ", {:.0} % of it was never used",
            100.0 * (1.0 - used).max(0.0)
        )
    });
    let judged = match present.verdict {
        LimitFit::Wasteful => format!("{difference} more than it needs{unused}"),
        LimitFit::Fits => format!("about right{unused}"),
        LimitFit::TooSmall => format!("{difference} less than it should have"),
    };
    let source = present.source.as_deref().unwrap_or("limit");
    writeln!(
        out,
        "\nCurrent limit: {} ({}): {judged}",
        format_bytes(present.bytes as f64),
        one_line(source, 120)
    )
}

fn write_runs(out: &mut dyn Write, runs: &[RunFacts]) -> std::io::Result<()> {
    let bytes = |value: Option<u64>| value.map_or("-".to_owned(), |v| format_bytes(v as f64));
    let row = |run: &RunFacts| {
        vec![
            run.run.clone(),
            end_word(run).to_owned(),
            format_duration((run.duration_secs * 1e9) as u64),
            bytes(run.peak_bytes),
            run.peak_kind.map_or("-", PeakKind::measured_by).to_owned(),
            bytes(run.limit_bytes.filter(|_| run.limit_was_asked_for)),
            one_line(&run.label, LABEL_CHARS),
        ]
    };
    let columns = [
        left("RUN"),
        left("END").drops(1),
        right("DURATION").drops(4),
        right("NEED"),
        left("MEASURED BY").drops(6),
        right("LIMIT").drops(2),
        left("NAME").drops(5),
    ];
    let rows: Vec<Vec<String>> = runs.iter().map(row).collect();
    write_table(out, Screen::stdout(), &columns, &rows).map(drop)
}

fn end_word(run: &RunFacts) -> &'static str {
    match (run.completeness, run.growth) {
        (Completeness::Whole, Some(_)) => "completed, growing",
        (Completeness::Whole, None) => "completed",
        (Completeness::Failed, _) => "failed",
        (Completeness::Killed, _) => "killed",
        (Completeness::OomKilled, _) => "oom-killed",
        (Completeness::Lost, _) => "not recorded",
        (Completeness::Running, _) => "running",
        (Completeness::Detached, _) => "stopped watching",
    }
}

fn write_accounts(
    out: &mut dyn Write,
    accounts: &[Account],
    runs: &[RunFacts],
) -> std::io::Result<()> {
    if accounts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nSlurm accounting:")?;
    for account in accounts {
        let run = runs.iter().find(|run| run.run == account.run);
        let label = run.map_or(account.run.as_str(), |run| run.label.as_str());
        writeln!(
            out,
            "  {} ({})",
            one_line(&account.job, LABEL_CHARS),
            one_line(label, LABEL_CHARS)
        )?;
        for sentence in &account.sentences {
            writeln!(out, "    {}", one_line(sentence, NOTE_CHARS))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_script_is_folded_above_itself_where_it_does_not_fit() {
        let on = |columns: Option<usize>| {
            let screen = Screen {
                columns,
                colour: false,
            };
            let mut out = Vec::new();
            let rule = "50 % above the longest run, rounded up";
            write_script_line(&mut out, screen, "--time=00:05:00", rule).unwrap();
            String::from_utf8(out).unwrap()
        };
        let whole = "  #SBATCH --time=00:05:00    # 50 % above the longest run, rounded up\n";
        assert_eq!(on(None), whole);
        let folded = "  # 50 % above the longest run, rounded\n  # up\n  #SBATCH --time=00:05:00\n";
        assert_eq!(on(Some(40)), folded);
    }
}
