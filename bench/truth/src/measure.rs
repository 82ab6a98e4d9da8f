//! Records jobs with `nilo run` and counts their pages meanwhile.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use nilo_sample::Subject;

use crate::compare::{JobComparison, PageCount, compare};
use crate::descendants::{faults_of_ended_children, job_processes};
use crate::freezer::Freezer;
use crate::jobs::{MIB, SHARED_FILE_BYTES, monotonic_nanos, shared_file_in};
use crate::load::BusyCores;
use crate::page;
use crate::pages::PageCounter;
use crate::region::Region;
use crate::settings::{JobKind, Measure};

const EVERY: Duration = Duration::from_millis(500);
/// When the stranger maps the shared file.
const STRANGER_AFTER_NANOS: u64 = 4_000_000_000;

/// Runs every job and reports; false when a goal was to be checked and was missed.
pub fn run(settings: &Measure, out: &mut dyn Write) -> anyhow::Result<bool> {
    let mut counter = PageCounter::new().context("cannot count pages")?;
    let mut results = Vec::new();
    let kinds: &[JobKind] = match settings.command.is_empty() {
        true => &settings.jobs,
        false => &[JobKind::Command],
    };
    for &kind in kinds {
        let seeds: &[u64] = match kind {
            JobKind::Random | JobKind::Busy => &settings.seeds,
            _ => &[1],
        };
        for &seed in seeds {
            let result = measure(settings, kind, seed, &mut counter)
                .with_context(|| format!("job {} with seed {seed}", kind.name()))?;
            writeln!(out, "{}", page::line(&result))?;
            results.push(result);
        }
    }
    if let Some(path) = &settings.moments {
        std::fs::write(path, page::moments(&results))?;
    }
    if let Some(path) = &settings.markdown {
        std::fs::write(path, page::markdown(&results))?;
    }
    Ok(!settings.check || results.iter().all(JobComparison::meets_stable_goals))
}

/// A folder that is removed again, with the files that jobs make in shared memory.
struct ScratchFolder {
    path: PathBuf,
    name: String,
}

impl ScratchFolder {
    fn new(label: &str) -> anyhow::Result<ScratchFolder> {
        let name = format!("nilo-truth-{}-{label}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&path)?;
        Ok(ScratchFolder { path, name })
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).ok();
        let shared = std::fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .flatten();
        for entry in shared {
            if entry.file_name().to_string_lossy().starts_with(&self.name) {
                std::fs::remove_file(entry.path()).ok();
            }
        }
    }
}

/// The recorded job; ended if the harness fails.
struct RecordedJob(Child);

impl Drop for RecordedJob {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }
}

fn measure(
    settings: &Measure,
    kind: JobKind,
    seed: u64,
    counter: &mut PageCounter,
) -> anyhow::Result<JobComparison> {
    let scratch = ScratchFolder::new(&format!("{}-{seed}", kind.name()))?;
    let runs = scratch.path.join("runs");
    let nilo = std::fs::canonicalize(&settings.nilo).context("cannot find nilo")?;
    if kind == JobKind::SharedFile {
        write_file(&shared_file_in(&scratch.path))?;
    }
    let mut command = Command::new(&nilo);
    command
        .args(["run", "--quiet", "--interval", "0.1", "--dir"])
        .arg(&runs)
        .arg("--");
    let (performed, seconds) = match kind {
        JobKind::Busy => (JobKind::Random, settings.seconds / 4),
        kind => (kind, settings.seconds),
    };
    let is_busy = matches!(kind, JobKind::Busy | JobKind::SharedMemory);
    let _load = is_busy.then(BusyCores::start);
    if kind == JobKind::Command {
        command.args(&settings.command);
    } else {
        command
            .arg(std::env::current_exe()?)
            .args(["job", performed.name(), "--folder"])
            .arg(&scratch.path)
            .args(["--seed", &seed.to_string()])
            .args(["--seconds", &seconds.to_string()])
            .args(["--forks", &settings.forks.to_string()]);
    }
    let freezer =
        Freezer::new(&scratch.name).context("cannot make a cgroup to freeze the job in")?;
    freezer.hold(&mut command)?;
    let child = command
        .stdin(Stdio::null())
        .spawn()
        .context("cannot start nilo")?;
    let mut recorded = RecordedJob(child);
    let mut count = |top| {
        freezer.frozen(|| {
            let processes = job_processes(top, &nilo);
            let ended_faults = faults_of_ended_children(&processes);
            (counter.distinct_bytes(&processes), processes, ended_faults)
        })
    };
    let truth = follow(&mut recorded.0, kind, &scratch.path, &mut count)?;
    let (peak_bytes, recorder_percent) = shown(&nilo, &runs)?;
    let curve = curve_of(&runs)?;
    let label = match kind {
        JobKind::Random | JobKind::Busy => format!("{} {seed}", kind.name()),
        JobKind::Forks => format!("forks {}", settings.forks),
        kind => kind.name().to_owned(),
    };
    let compared = compare(label, &truth, &curve, peak_bytes, recorder_percent);
    Ok(JobComparison {
        has_no_spikes: matches!(
            kind,
            JobKind::Epochs | JobKind::SharedMemory | JobKind::GrowingWorkers | JobKind::DoubleMaps
        ),
        ..compared
    })
}

/// Counts until the job is over.
fn follow(
    child: &mut Child,
    kind: JobKind,
    folder: &Path,
    count: &mut dyn FnMut(u32) -> io::Result<(u64, Vec<u32>, u64)>,
) -> anyhow::Result<Vec<PageCount>> {
    let began = monotonic_nanos();
    let mut truth = Vec::new();
    let mut stranger = None;
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "nilo ended with {status}");
            return Ok(truth);
        }
        if kind == JobKind::SharedFile
            && stranger.is_none()
            && monotonic_nanos() - began > STRANGER_AFTER_NANOS
        {
            let file = File::options()
                .read(true)
                .write(true)
                .open(shared_file_in(folder))?;
            let region = Region::shared_file(&file, SHARED_FILE_BYTES)?;
            (0..region.pages()).for_each(|page| {
                region.read(page);
            });
            stranger = Some(region);
        }
        let from = monotonic_nanos();
        let (bytes, processes, ended_faults) = count(child.id())?;
        let to = monotonic_nanos();
        if bytes > 0 {
            truth.push(PageCount {
                from_nanos: from,
                to_nanos: to,
                bytes,
                processes,
                ended_faults,
            });
        }
        let spent = Duration::from_nanos(to - from);
        std::thread::sleep(EVERY.saturating_sub(spent).max(Duration::from_millis(50)));
    }
}

fn write_file(path: &Path) -> anyhow::Result<()> {
    let mut file = File::create(path)?;
    let block = vec![7u8; MIB];
    for _ in 0..SHARED_FILE_BYTES / MIB {
        file.write_all(&block)?;
    }
    Ok(())
}

/// The peak that `nilo show` tells, and what the recorder cost in percent of a core.
fn shown(nilo: &Path, runs: &Path) -> anyhow::Result<(u64, f64)> {
    let output = Command::new(nilo)
        .args(["show", "--format", "json", "--dir"])
        .arg(runs)
        .output()?;
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let Some(peak) = shown["memory"]["peak_bytes"].as_u64() else {
        bail!("no peak in {shown}");
    };
    Ok((
        peak,
        shown["recorder"]["cpu_percent"].as_f64().unwrap_or(0.0),
    ))
}

/// The recorded curve, in absolute monotonic time.
fn curve_of(runs: &Path) -> anyhow::Result<Vec<(u64, f64)>> {
    let folder = nilo_runfile::list_runs(runs)
        .pop()
        .context("no run was recorded")??;
    let recording = folder.load()?;
    let tree = recording
        .table(&Subject::Tree)
        .context("no tree was recorded")?;
    let level = tree
        .series("memory_bytes")
        .context("no memory was recorded")?;
    let began = recording.description.started_monotonic_nanos;
    Ok(level
        .present()
        .map(|(time, bytes)| (began + time, bytes))
        .collect())
}
