//! The summary of a run in words: the block after `nilo run`, and `nilo show`.

use std::io::Write;

use nilo_analysis::peak::PeakKind;
use nilo_analysis::summary::{CpuSummary, MemorySummary};
use nilo_analysis::{FailedRank, LimitUse, Summary};
use nilo_sample::printable::printable;
use nilo_sample::units::{format_bytes, format_bytes_signed, format_duration};
use nilo_sample::{LimitCounts, LostRank, RecorderDeath, RunMode, RunStatus};

use crate::screen::Screen;
use crate::text::advice::write_advice;
use crate::text::alerts::write_alerts;
use crate::text::exception::exception_in_words;
use crate::text::gpu_account::write_gpu_accounts;
use crate::text::gpus::write_gpus;
use crate::text::left_running::write_left_running;
use crate::text::one_line::one_line;
use crate::text::run_commands::{CommandOfRun, with_commands};
use crate::text::training::{SOME_METRICS, has_training, write_training};

const RULE_CHARS: usize = 50;

/// What is shown of a run's name; JSON has all of it.
pub(crate) const NAME_CHARS: usize = 80;

/// How many processes the block names.
pub(crate) const FEW: usize = 5;

/// Writes the block. `processes` is how many to name; all of them means all metrics too, and what the kernel counted.
/// `alive` are those of the processes left running that are there now, and `command` writes the commands of hints.
pub(crate) fn write_summary(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    place: &str,
    processes: usize,
    alive: &[u32],
    command: CommandOfRun<'_>,
) -> std::io::Result<()> {
    let rule = "=".repeat(screen.at_most(RULE_CHARS));
    // A program that recorded itself, or whose samples are lost, has nothing to say about memory.
    let no_memory = summary.memory.samples == 0 && summary.memory.peak_bytes.is_none();
    if no_memory && has_training(summary) {
        writeln!(out, "{rule}\nTRAINING STATISTICS\n{rule}")?;
        write_line(out, "Duration", &duration_words(summary))?;
        write_ending(out, screen, summary)?;
    } else if summary.mode == RunMode::Machine {
        writeln!(out, "{rule}\nHOST MEMORY STATISTICS\n{rule}")?;
        write_host_figures(out, screen, summary)?;
    } else {
        writeln!(out, "{rule}\nMEMORY USAGE STATISTICS\n{rule}")?;
        write_figures(out, screen, summary)?;
    }
    if processes == usize::MAX {
        write_usage(out, summary)?;
    }
    write_identity(out, summary, place)?;
    writeln!(out, "{rule}")?;
    write_processes(out, summary, processes)?;
    write_gpus(out, screen, summary, processes == usize::MAX)?;
    write_gpu_accounts(out, &summary.gpu_accounts, &summary.gpus)?;
    write_training(out, screen, summary, processes.max(SOME_METRICS), command)?;
    write_alerts(out, screen, summary, processes)?;
    write_remarks(out, screen, summary, command)?;
    write_advice(out, summary, command)?;
    write_left_running(out, &summary.left_running, alive)
}

fn write_line(out: &mut dyn Write, label: &str, text: &str) -> std::io::Result<()> {
    writeln!(out, "{:<21} {text}", format!("{label}:"))
}

fn duration_words(summary: &Summary) -> String {
    format!("{:.2} seconds", summary.duration_secs)
}

/// Memory, limit, CPU, the end and what the recording cost.
fn write_figures(out: &mut dyn Write, screen: Screen, summary: &Summary) -> std::io::Result<()> {
    let memory = &summary.memory;
    let or = |absent: &'static str| {
        move |value: Option<u64>| {
            value.map_or(absent.to_owned(), |value| format_bytes(value as f64))
        }
    };
    let (bytes, sampled) = (or("unknown"), or("no samples"));
    let mut line = |label: &str, text: &str| write_line(out, label, text);
    line("Peak Memory Usage", &bytes(memory.peak_bytes))?;
    line("Average Memory Usage", &sampled(memory.mean_bytes))?;
    line("Minimum Memory Usage", &sampled(memory.min_bytes))?;
    let growth = memory.growth_bytes.map_or_else(
        || growth_unknown(memory),
        |value| format_bytes_signed(value as f64),
    );
    line("Memory Growth", &growth)?;
    line("Total Samples", &samples_words(summary))?;
    line("Monitoring Duration", &duration_words(summary))?;
    if let Some(kind) = memory.peak_kind {
        line("Peak Measured By", &peak_words(kind, summary))?;
    }
    if let Some(limit) = &memory.limit_source {
        line("Memory Limit", &limit_words(memory, limit))?;
    }
    if let Some(words) = cpu_words(&summary.cpu, summary.duration_secs) {
        line("CPU Time", &words)?;
    }
    write_ending(out, screen, summary)?;
    match recorder_words(summary) {
        text if text.is_empty() => Ok(()),
        text => write_line(out, "Recorder Cost", &text),
    }
}

/// The memory of the machine, where there is no job.
fn write_host_figures(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
) -> std::io::Result<()> {
    let mut line = |label: &str, text: &str| write_line(out, label, text);
    let bytes = |bytes: u64| format_bytes(bytes as f64);
    if let Some(host) = &summary.host_memory {
        let total = bytes(host.total_bytes);
        let peak = format!("{} of {total}", bytes(host.peak_used_bytes));
        line("Peak Host Memory", &peak)?;
        line("Average Host Memory", &bytes(host.mean_used_bytes))?;
        line("Minimum Host Memory", &bytes(host.min_used_bytes))?;
    }
    line("Monitoring Duration", &duration_words(summary))?;
    write_ending(out, screen, summary)?;
    match recorder_words(summary) {
        text if text.is_empty() => Ok(()),
        text => write_line(out, "Recorder Cost", &text),
    }
}

/// How it ended, and what brought it about.
fn write_ending(out: &mut dyn Write, screen: Screen, summary: &Summary) -> std::io::Result<()> {
    write_line(out, "How It Ended", &ending_in_colour(screen, summary))?;
    if let Some(failed) = &summary.failed_rank {
        let FailedRank {
            rank,
            exit_code,
            secs,
        } = failed;
        let text = format!(
            "rank {rank} exited with {exit_code} after {}",
            format_duration((secs * 1e9) as u64)
        );
        write_line(out, "First Failure", &text)?;
    }
    if let Some(LostRank { rank, time_nanos }) = summary.lost_rank {
        let text = format!(
            "rank {rank} exited without reporting a status after {}; the others were then stopped by SIGTERM",
            format_duration(time_nanos)
        );
        write_line(out, "First Failure", &text)?;
    }
    write_exception(out, summary)
}

/// The exception that ended the program, with those it came from, or else how many there were.
fn write_exception(out: &mut dyn Write, summary: &Summary) -> std::io::Result<()> {
    let Some(ended) = &summary.exception else {
        let last = summary.exceptions.last();
        return last.map_or(Ok(()), |last| {
            let who = match (&last.exception.thread, last.exception.cell) {
                (_, Some(cell)) => format!("cell In[{cell}]"),
                (Some(thread), None) => format!("thread {}", one_line(thread, 40)),
                (None, None) => format!("PID {}", last.exception.pid),
            };
            let text = exception_in_words(&last.exception);
            let text = format!("in {who}, did not end the run: {text}");
            write_line(out, "Exception", &text)?;
            write_more_exceptions(out, summary)
        });
    };
    write_line(out, "Exception", &exception_in_words(&ended.exception))?;
    for cause in ended.exception.causes.iter().take(3) {
        write_line(out, "  caused by", &one_line(cause, 200))?;
    }
    write_more_exceptions(out, summary)
}

/// How many exceptions there were besides the one that is shown.
fn write_more_exceptions(out: &mut dyn Write, summary: &Summary) -> std::io::Result<()> {
    match summary.exceptions.len().saturating_sub(1) {
        0 => Ok(()),
        more => {
            let text = format!("{more} more, see `nilo show --format json`");
            write_line(out, "Other Exceptions", &text)
        }
    }
}

/// Name, tags, the run that this one continues, and folder.
fn write_identity(out: &mut dyn Write, summary: &Summary, place: &str) -> std::io::Result<()> {
    let mut line = |label: &str, text: &str| write_line(out, label, text);
    if let Some(name) = &summary.name {
        line("Name", &one_line(name, NAME_CHARS))?;
    }
    if !summary.tags.is_empty() {
        let tags: Vec<String> = summary
            .tags
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        line("Tags", &printable(&tags.join(", ")))?;
    }
    if let Some(resumed) = &summary.resumes {
        line("Resumed From", &printable(resumed))?;
    }
    if let Some(job) = &summary.started_by_job {
        line(
            "Started By",
            &format!("{}, which had ended", printable(job)),
        )?;
    }
    line("Run", &printable(place))
}

fn peak_words(kind: PeakKind, summary: &Summary) -> String {
    let memory = &summary.memory;
    let largest = summary
        .processes
        .first()
        .and_then(|process| process.peak_rss_bytes);
    let of_several = memory.peak_bytes > largest;
    match kind {
        PeakKind::Vmhwm if of_several => {
            "the kernel's high-water mark of a process (VmHWM), samples of the others".to_owned()
        }
        PeakKind::Vmhwm => "the kernel's high-water mark of a process (VmHWM)".to_owned(),
        PeakKind::Rusage => "the kernel at the end of a process (ru_maxrss)".to_owned(),
        PeakKind::SampledDistinctPages => "samples, shared pages counted once".to_owned(),
        PeakKind::SampledEstimate => "samples, shared pages estimated".to_owned(),
        PeakKind::Unstored => "a sample that could not be stored".to_owned(),
        _ if memory.samples == 1 => "one sample (RSS)".to_owned(),
        _ => "samples (RSS)".to_owned(),
    }
}

fn limit_words(memory: &MemorySummary, source: &str) -> String {
    let limit = memory.limit_bytes.unwrap_or(0);
    let share = match memory.limit_used_bytes.filter(|_| limit > 0) {
        Some(used) if used == limit => ", all of it used at the peak".to_owned(),
        Some(used) => {
            format!(
                ", {:.0} % of it used at the peak",
                100.0 * used as f64 / limit as f64
            )
        }
        None => String::new(),
    };
    let (charged, rest) = match memory.limit_counts {
        Some(counts) if counts != LimitCounts::Memory => (addresses_words(memory, counts), ""),
        _ => charged_words(memory),
    };
    // Of a cgroup that others are in too, only what ran out is known to be all of theirs.
    let is_told = |limit_use: &&LimitUse| memory.limit_used_bytes >= limit_use.shmem_bytes;
    let files = memory.limit_use.as_ref().filter(is_told);
    let files = files.and_then(LimitUse::files_in_words);
    let files = files.map_or(String::new(), |files| format!(", {files}"));
    let limit = format_bytes(limit as f64);
    format!("{limit} ({source}){share}{charged}{files}{rest}")
}

/// Resident memory says nothing of a limit of addresses: what does is said, and that it was not recorded.
fn addresses_words(memory: &MemorySummary, counts: LimitCounts) -> String {
    match memory.limit_used_bytes {
        Some(used) => format!(": {} of {counts} in one process", format_bytes(used as f64)),
        None => format!("; it limits the {counts} of each process, which was not recorded"),
    }
}

/// What was charged to the cgroup that sets the limit, where that is not the peak of the tree, and what the rest of the peak is.
fn charged_words(memory: &MemorySummary) -> (String, &'static str) {
    let (Some(used), Some(peak)) = (memory.limit_used_bytes, memory.peak_bytes) else {
        return (String::new(), "");
    };
    let limit = memory.limit_bytes.unwrap_or(0);
    let differs = used.abs_diff(peak) as f64 >= 0.005 * limit as f64;
    if memory.limit_use.is_none() || !differs {
        return (String::new(), "");
    }
    let charged = format!(": {} charged to the cgroup", format_bytes(used as f64));
    let rest = "; the rest of the peak is file pages that the kernel can drop or that are charged elsewhere";
    (charged, if used > peak { "" } else { rest })
}

/// Nothing where no CPU time is known; a run shorter than a second has no busiest one.
fn cpu_words(cpu: &CpuSummary, duration_secs: f64) -> Option<String> {
    let shares = [
        cpu.mean_percent
            .map(|mean| format!(", {mean:.0} % of a core on average")),
        cpu.max_percent
            .filter(|_| duration_secs >= 1.0)
            .map(|most| format!(", {most:.0} % in the busiest second")),
    ];
    let shares: String = shares.into_iter().flatten().collect();
    Some(format!("{:.2} s{shares}", cpu.total_secs?))
}

/// Why no growth is told.
fn growth_unknown(memory: &MemorySummary) -> String {
    match memory.samples {
        0 => "no samples".to_owned(),
        _ => "unknown, as the first samples are lost".to_owned(),
    }
}

/// How many samples, and of a damaged recording which part of the run they are of.
fn samples_words(summary: &Summary) -> String {
    let memory = &summary.memory;
    let ends = memory.first_sample_secs.zip(memory.last_sample_secs);
    match ends.filter(|_| !summary.recorder.damage.is_empty()) {
        Some((first, last)) => {
            format!("{}, from {first:.1} s to {last:.1} s", memory.samples)
        }
        None => memory.samples.to_string(),
    }
}

/// What the kernel counted for the command and everything that it waited for.
fn write_usage(out: &mut dyn Write, summary: &Summary) -> std::io::Result<()> {
    let Some(usage) = &summary.usage else {
        return Ok(());
    };
    let mut line = |label: &str, text: String| write_line(out, label, &text);
    line("User Time", format!("{:.2} s", usage.user_secs))?;
    line("System Time", format!("{:.2} s", usage.system_secs))?;
    line(
        "Page Faults",
        format!("{} minor, {} major", usage.minor_faults, usage.major_faults),
    )?;
    line(
        "Context Switches",
        format!(
            "{} voluntary, {} involuntary",
            usage.voluntary_switches, usage.involuntary_switches
        ),
    )?;
    line(
        "Storage I/O",
        format!(
            "{} read, {} written",
            format_bytes(usage.read_bytes as f64),
            format_bytes(usage.written_bytes as f64)
        ),
    )
}

fn ending_in_colour(screen: Screen, summary: &Summary) -> String {
    let words = ending_words(summary);
    match summary.ending_severity() {
        Some(severity) => screen.paint(severity.as_str(), &words),
        None => words,
    }
}

const GPU_FAILURE_CHARS: usize = 300;

fn ending_words(summary: &Summary) -> String {
    let at = summary
        .oom
        .as_ref()
        .and_then(|oom| oom.time_nanos)
        .map_or(String::new(), |time| {
            format!(" after {}", format_duration(time))
        });
    match (summary.status, summary.exit_code, summary.signal) {
        (RunStatus::OomKilled, Some(code), _) => {
            format!("OOM-killed{at}; the command itself exited with {code}")
        }
        (RunStatus::OomKilled, _, _) => match &summary.recorder_death {
            Some(death) if at.is_empty() => format!("OOM-killed; {}", recorder_death_words(death)),
            _ => format!("OOM-killed{at}"),
        },
        (RunStatus::GpuOutOfMemory, code, signal) => {
            let gpu = summary.oom.as_ref().and_then(|oom| oom.gpu.as_ref());
            let what = gpu.map_or(String::new(), |failure| {
                format!(": {}", one_line(&failure.to_string(), GPU_FAILURE_CHARS))
            });
            let status = match (code, signal) {
                (Some(code), _) => format!("; exited with {code}"),
                (None, Some(signal)) => format!("; killed by signal {signal}"),
                (None, None) => String::new(),
            };
            format!("GPU out of memory{at}{what}{status}")
        }
        (RunStatus::Exited, Some(code), _) if summary.has_run_out() => {
            format!("exited with {code}, out of memory{at}")
        }
        (RunStatus::Exited, Some(code), _) => format!("exited with {code}"),
        (RunStatus::Ended, _, _) => {
            "ended; exit code unknown (only its parent can read it)".to_owned()
        }
        (_, _, Some(signal)) if summary.has_run_out() => {
            let name = signal_name(signal);
            format!("killed by signal {signal}{name}, out of memory{at}")
        }
        (_, _, Some(signal)) => format!("killed by signal {signal}{}", signal_name(signal)),
        (RunStatus::Running, _, _) => "still running".to_owned(),
        (RunStatus::Detached, _, _) if summary.mode == RunMode::Machine => {
            "monitoring was stopped".to_owned()
        }
        (RunStatus::Detached, _, _) => {
            "stopped watching while the processes were running".to_owned()
        }
        _ if summary.recorder.dropped_samples > 0 => {
            let reason = summary.recorder.dropped_reason.as_deref();
            let reason = reason.unwrap_or("samples could not be stored");
            format!("end not recorded: {}", one_line(reason, 200))
        }
        _ if summary.lost_rank.is_some() => {
            "unknown: a rank exited without reporting a status (probably killed)".to_owned()
        }
        _ => match &summary.recorder_death {
            Some(death) => format!("unknown: {}", recorder_death_words(death)),
            // Another rank may have gone on with the recording.
            None if summary.mode == RunMode::Python => {
                "unknown: the recording process exited without reporting a status (probably killed)"
                    .to_owned()
            }
            None => "unknown: the recording stopped before the end".to_owned(),
        },
    }
}

fn recorder_death_words(death: &RecorderDeath) -> String {
    let until = format_duration(death.recorded_until_nanos);
    format!(
        "nilo itself (PID {}) died, and the recording stops after {until}",
        death.pid
    )
}

fn signal_name(signal: i32) -> String {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or(String::new(), |(_, name)| format!(" ({name})"))
}

/// Nothing of a run inside a job, which the job's recorder records.
fn recorder_words(summary: &Summary) -> String {
    let recorder = &summary.recorder;
    let mut parts = Vec::new();
    if let Some(spent) = recorder.cpu_secs {
        let share = recorder
            .cpu_percent
            .map(|share| format!(" ({share:.2} % of a core)"));
        parts.push(format!("{spent:.3} s CPU{}", share.unwrap_or_default()));
    }
    let memory = recorder.peak_rss_bytes;
    parts.extend(memory.map(|bytes| format_bytes(bytes as f64)));
    if let Some(late) = recorder.late_ticks.filter(|late| *late > 0) {
        let plural = if late == 1 { "" } else { "s" };
        parts.push(format!("{late} late tick{plural}"));
    }
    if recorder.gaps > 0 {
        let plural = if recorder.gaps == 1 { "" } else { "s" };
        let (gaps, secs) = (recorder.gaps, recorder.gaps_secs);
        parts.push(format!("{gaps} gap{plural} of {secs:.1} s without samples"));
    }
    let logged = recorder.dropped_logged_rows;
    let samples = recorder.dropped_samples.saturating_sub(logged);
    for (lost, what) in [(samples, "samples"), (logged, "logged rows")] {
        if lost > 0 {
            parts.push(format!("{lost} {what} lost"));
        }
    }
    parts.join(", ")
}

fn write_processes(out: &mut dyn Write, summary: &Summary, most: usize) -> std::io::Result<()> {
    if summary.processes.len() > 1 {
        let size =
            |bytes: Option<u64>| bytes.map_or("?".to_owned(), |bytes| format_bytes(bytes as f64));
        writeln!(
            out,
            "Largest processes (peak of each; shared pages are counted for the oldest):"
        )?;
        for process in summary.processes.iter().take(most) {
            let rss = size(process.peak_rss_bytes);
            let peak = size(process.peak_added_bytes.or(process.peak_rss_bytes));
            let (name, pid) = (printable(&process.name), process.pid);
            // After `exec` it is another program, with other memory.
            let later = process.later_name.as_deref();
            let later = later.map_or(String::new(), |name| format!(", later {}", printable(name)));
            writeln!(out, "  {peak:>11}  {name} (PID {pid}, RSS {rss}{later})")?;
        }
        let rest = summary.processes.len().saturating_sub(most);
        if rest > 0 {
            writeln!(out, "  and {rest} more")?;
        }
    }
    Ok(())
}

fn write_remarks(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    command: CommandOfRun<'_>,
) -> std::io::Result<()> {
    for finding in &summary.findings {
        let severity = screen.paint(
            finding.severity.as_str(),
            &format!("{}:", finding.severity.as_str()),
        );
        writeln!(out, "{severity} {}", printable(&finding.text))?;
        for evidence in &finding.evidence {
            writeln!(out, "  - {}", printable(evidence))?;
        }
        for advice in &finding.advice {
            let hint = screen.paint("hint", "hint:");
            let advice = with_commands(advice, command);
            writeln!(out, "  {hint} {}", printable(&advice))?;
        }
    }
    for text in &summary.blind_spots {
        writeln!(out, "not recorded: {}", printable(text))?;
    }
    for text in &summary.recorder.slowed {
        writeln!(out, "slowed: {}", printable(text))?;
    }
    for text in &summary.recorder.damage {
        let label = screen.paint("critical", "damaged:");
        writeln!(out, "{label} {}", printable(text))?;
    }
    Ok(())
}
