//! The loop around processes that already run, over a captured job that changes while it is watched.

use nilo_sample::rows::TreeRow;
use nilo_sample::{RunStatus, Subject, fixture};

use super::*;
use crate::captured_job::{CapturedJob, JOB, WORKER};
use crate::live::LiveReading;

/// What should end for another reason ends by this at last.
const FUSE: Option<u64> = Some(20_000_000_000);

/// Does something with the captured job after each tick, and may have seen enough.
struct Script<'a> {
    job: &'a CapturedJob,
    ticks: u64,
    /// The tick after which the job's processes are gone.
    ends_after: Option<u64>,
    enough_after: Option<u64>,
    seen: Vec<usize>,
}

impl Script<'_> {
    fn over(job: &CapturedJob) -> Script<'_> {
        Script {
            job,
            ticks: 0,
            ends_after: None,
            enough_after: None,
            seen: Vec::new(),
        }
    }
}

impl Observer for Script<'_> {
    fn on_tick(&mut self, live: &LiveReading) {
        self.ticks += 1;
        self.seen.push(live.processes);
        if self.ends_after == Some(self.ticks) {
            self.job.end(JOB);
            self.job.end(WORKER);
        }
    }

    fn on_notice(&mut self, _: &str) {}

    fn has_seen_enough(&self) -> bool {
        self.enough_after.is_some_and(|enough| self.ticks >= enough)
    }
}

/// Watches the captured job every millisecond, and gives what was recorded too.
fn watch(
    script: &mut Script<'_>,
    pids: Vec<u32>,
    duration_nanos: Option<u64>,
) -> Result<(WatchOutcome, nilo_sample::Recording), RecorderError> {
    let scratch = tempfile::tempdir().unwrap();
    let description = fixture::description();
    let folder = RunFolder::create(scratch.path(), &description).unwrap();
    let settings = WatchSettings {
        pids,
        gpus: None,
        folder: &folder,
        description,
        interval_nanos: 1_000_000,
        everything_at_interval: false,
        duration_nanos,
        alerts: None,
    };
    let outcome = watch_in(script.job.roots(), settings, script)?;
    Ok((outcome, folder.load().unwrap()))
}

#[test]
fn watching_ends_when_every_process_is_gone() {
    let job = CapturedJob::at(1);
    let mut script = Script::over(&job);
    script.ends_after = Some(5);
    let (outcome, recording) = watch(&mut script, vec![JOB], FUSE).unwrap();
    assert_eq!(outcome.end, WatchEnd::AllGone);
    // What became of processes that were not ours to wait for nobody knows.
    assert_eq!(outcome.ending.status, RunStatus::Ended);
    assert_eq!(script.seen[..5], [2; 5]);
    let tree = recording.table(&Subject::Tree).unwrap();
    let rss = fixture_rss(&tree.row(0));
    assert!(tree.rows().take(5).all(|row| fixture_rss(&row) == rss));
    assert_eq!(recording.description.root_pids, [JOB]);
    assert_eq!(recording.description.limit.unwrap().bytes, 512 << 20);
}

fn fixture_rss(row: &TreeRow) -> (f64, f64) {
    (row.rss_bytes, row.processes)
}

#[test]
fn watching_ends_when_whoever_looks_on_has_seen_enough() {
    let job = CapturedJob::at(0);
    let mut script = Script::over(&job);
    script.enough_after = Some(3);
    let (outcome, recording) = watch(&mut script, vec![JOB], FUSE).unwrap();
    assert_eq!(outcome.end, WatchEnd::Enough);
    assert_eq!(outcome.ending.status, RunStatus::Detached);
    // The last tick comes on top, so that the end of the curve is as new as can be.
    let tree = recording.table(&Subject::Tree).unwrap();
    assert_eq!(tree.times.len(), 4);
    assert_eq!(tree.row::<TreeRow>(3).rss_bytes, job.rss_bytes(JOB));
}

#[test]
fn watching_ends_when_the_time_is_up() {
    let job = CapturedJob::at(0);
    let mut script = Script::over(&job);
    // Instead of watching for ever.
    script.enough_after = Some(10_000);
    let (outcome, _) = watch(&mut script, vec![JOB], Some(20_000_000)).unwrap();
    assert_eq!(outcome.end, WatchEnd::Duration);
    assert_eq!(outcome.ending.status, RunStatus::Detached);
    assert!(outcome.ending.time_nanos >= 20_000_000);
}

#[test]
fn a_process_that_nobody_has_is_refused() {
    let job = CapturedJob::at(0);
    let mut script = Script::over(&job);
    let error = watch(&mut script, vec![WORKER], None).unwrap_err();
    assert_eq!(error.to_string(), "no such process: PID 101");
    assert_eq!(script.ticks, 0);
}

#[test]
fn without_a_process_the_machine_is_watched() {
    let job = CapturedJob::at(0);
    let mut script = Script::over(&job);
    script.enough_after = Some(2);
    let (outcome, recording) = watch(&mut script, Vec::new(), FUSE).unwrap();
    assert_eq!(outcome.end, WatchEnd::Enough);
    assert!(recording.table(&Subject::Host).is_some());
    assert_eq!(recording.table(&Subject::Tree), None);
}
