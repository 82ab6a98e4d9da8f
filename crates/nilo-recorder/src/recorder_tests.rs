//! What a tick writes of a captured job.

use nilo_runfile::{RowBuffer, Update};
use nilo_sample::rows::{ProcessDetailRow, ProcessRow, RecorderRow};
use nilo_sample::{Subject, is_absent};
use nilo_source::Roots;

use super::*;
use crate::captured_job::{CapturedJob, JOB, TENTH, WORKER, events, rows};
use crate::open_tree::{TreeScope, open_tree};

const START: u64 = 1_000 * SECOND;

/// A recorder of a captured job, ticking ten times a second by a clock of its own.
struct Ticking {
    job: CapturedJob,
    recorder: Recorder<RowBuffer>,
    pace: Pace,
    reaper: Reaper,
    now_nanos: u64,
}

impl Ticking {
    fn new(attached: bool) -> Ticking {
        let job = CapturedJob::at(0);
        let roots = job.roots();
        let mut tree = open_tree(&roots, TreeScope::Others).unwrap();
        tree.add_root(JOB).unwrap();
        let surroundings = Surroundings::of_own_process(roots, START, JOB);
        let buffer = RowBuffer::new("recorder", START);
        let recorder = Recorder::new(tree, buffer, surroundings, START, attached);
        Ticking {
            job,
            recorder: recorder.of_command(JOB),
            pace: Pace::new(START, TENTH),
            reaper: Reaper::default(),
            now_nanos: START,
        }
    }

    fn tick(&mut self) -> Update {
        self.tick_as(false)
    }

    fn tick_as(&mut self, last: bool) -> Update {
        let Ticking {
            recorder,
            pace,
            reaper,
            ..
        } = self;
        recorder.tick(self.now_nanos, pace, reaper, last);
        self.now_nanos += TENTH;
        self.recorder.writer().take()
    }

    /// Goes on for two seconds at this captured moment: processes that come are found by then, and details read.
    fn settle(&mut self, moment: u32) -> Update {
        self.job.move_to(moment);
        let mut all = Update::default();
        for _ in 0..20 {
            let update = self.tick();
            all.tables.extend(update.tables);
            all.events.extend(update.events);
        }
        all
    }
}

fn tree_rows(update: &Update) -> Vec<TreeRow> {
    let rows = rows(update, &Subject::Tree);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn started(update: &Update) -> Vec<u32> {
    let started = |event: &&Event| match event {
        Event::ProcessStarted { id, .. } => Some(id.pid),
        _ => None,
    };
    events(update).iter().filter_map(started).collect()
}

fn ended(update: &Update) -> Vec<u32> {
    let ended = |event: &&Event| match event {
        Event::ProcessEnded { id, .. } => Some(id.pid),
        _ => None,
    };
    events(update).iter().filter_map(ended).collect()
}

#[test]
fn a_tree_of_one_process_is_what_its_files_say() {
    let mut ticking = Ticking::new(false);
    let update = ticking.tick();
    let row = tree_rows(&update)[0];
    let rss = ticking.job.rss_bytes(JOB);
    assert_eq!((row.memory_bytes, row.rss_bytes), (rss, rss));
    assert_eq!(row.cpu_nanos, ticking.job.cpu_nanos(JOB));
    assert_eq!((row.processes, row.swap_bytes), (1.0, 0.0));
    assert_eq!(started(&update), [JOB]);
    let live = ticking.recorder.live().clone();
    assert_eq!((live.memory_bytes, live.processes), (rss as u64, 1));
    assert_eq!(live.limit_bytes, Some(512 << 20));
}

/// What the kernel counted at the end is a peak and no curve.
#[test]
fn a_level_is_there_once_a_process_was_sampled() {
    let mut ticking = Ticking::new(false);
    assert!(!ticking.recorder.has_level());
    ticking.recorder.final_mark(START, 1 << 40);
    assert!(!ticking.recorder.has_level());
    ticking.tick();
    assert!(ticking.recorder.has_level());
}

#[test]
fn a_row_of_the_tree_comes_with_each_tick_and_one_of_a_process_when_it_changed() {
    let mut ticking = Ticking::new(false);
    let update = ticking.settle(0);
    assert_eq!(tree_rows(&update).len(), 20);
    let process = |update: &Update| -> Vec<ProcessRow> {
        let tables = update.tables.iter();
        let of_process = |it: &&nilo_sample::RecordedTable| matches!(it.spec.subject, Subject::Process(id) if id.pid == JOB);
        tables.filter(of_process).flat_map(|it| it.rows()).collect()
    };
    let first = process(&update);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].rss_bytes, ticking.job.rss_bytes(JOB));
    let grown = process(&ticking.settle(2));
    let last = grown.last().unwrap();
    assert_eq!(last.rss_bytes, ticking.job.rss_bytes(JOB));
    assert_eq!(last.cpu_nanos, ticking.job.cpu_nanos(JOB));
}

#[test]
fn details_of_a_process_are_those_of_its_files() {
    let mut ticking = Ticking::new(false);
    let update = ticking.settle(0);
    let details = update
        .tables
        .iter()
        .filter(|table| matches!(table.spec.subject, Subject::ProcessDetail(id) if id.pid == JOB));
    let last: ProcessDetailRow = details.flat_map(|table| table.rows()).last().unwrap();
    let status = ticking.job.read("proc/100/status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = peak
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert_eq!(last.peak_rss_bytes, kib * 1024.0);
    assert_eq!((last.swap_bytes, last.threads), (0.0, 1.0));
    assert!(last.minor_faults > 0.0 && is_absent(last.open_files));
}

#[test]
fn a_worker_is_counted_from_its_fork_to_its_end_and_its_shared_pages_once() {
    let mut ticking = Ticking::new(false);
    ticking.settle(0);
    let forked = ticking.settle(1);
    assert_eq!(started(&forked), [WORKER]);
    let row = *tree_rows(&forked).last().unwrap();
    let (job, worker) = (ticking.job.rss_bytes(JOB), ticking.job.rss_bytes(WORKER));
    assert_eq!((row.processes, row.rss_bytes), (2.0, job + worker));
    // The worker has 16 MiB of its own; the 32 MiB from before the fork are the same pages.
    let own = row.memory_bytes - job;
    let mib = f64::from(1 << 20);
    assert!((16.0 * mib..20.0 * mib).contains(&own), "{}", own / mib);
    ticking.settle(2);
    let cpu_before = ticking.recorder.tree.cpu_nanos_total();
    let left = ticking.settle(3);
    assert_eq!(ended(&left), [WORKER]);
    let row = *tree_rows(&left).last().unwrap();
    assert_eq!(
        (row.processes, row.rss_bytes),
        (1.0, ticking.job.rss_bytes(JOB))
    );
    assert!(
        row.cpu_nanos >= cpu_before as f64,
        "who ended stays counted"
    );
}

#[test]
fn a_tree_without_processes_has_no_level() {
    let mut ticking = Ticking::new(false);
    ticking.settle(0);
    ticking.job.end(JOB);
    let update = ticking.tick();
    assert_eq!(ended(&update), [JOB]);
    assert_eq!(tree_rows(&update), []);
    assert!(!ticking.recorder.has_reading());
}

#[test]
fn the_kernels_last_word_counts_where_it_exceeds_every_sample() {
    let mut ticking = Ticking::new(false);
    ticking.settle(2);
    let peak = ticking.recorder.live().peak_bytes;
    ticking.recorder.final_mark(START + SECOND, peak);
    assert!(ticking.recorder.writer().take().is_empty());
    ticking.recorder.final_mark(START + SECOND, peak + 4096);
    let update = ticking.recorder.writer().take();
    let mark = TreeRow {
        high_water_bytes: (peak + 4096) as f64,
        ..TreeRow::ABSENT
    };
    assert_eq!(rows(&update, &Subject::Tree), [(SECOND, mark)]);
    assert_eq!(ticking.recorder.live().peak_bytes, peak + 4096);
}

#[test]
fn a_mark_from_before_we_attached_is_not_ours() {
    let highest = |attached: bool| {
        let mut ticking = Ticking::new(attached);
        let status = ticking.job.read("proc/100/status");
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let spiked = status.replace(line.unwrap(), "VmHWM:\t  999999 kB");
        ticking.job.write("proc/100/status", &spiked);
        let mut marks = Vec::new();
        for _ in 0..20 {
            marks.extend(
                tree_rows(&ticking.tick())
                    .iter()
                    .map(|row| row.high_water_bytes),
            );
        }
        marks
            .into_iter()
            .filter(|mark| !is_absent(*mark))
            .reduce(f64::max)
    };
    // A command that we started had no time before us in which it could have spiked.
    assert_eq!(highest(false), Some(999_999.0 * 1024.0));
    assert_eq!(highest(true), None);
}

#[test]
fn a_tick_that_comes_far_too_late_is_a_gap() {
    let is_gap = |event: &&Event| matches!(event, Event::Gap { .. });
    let mut ticking = Ticking::new(false);
    ticking.tick();
    let update = ticking.tick();
    assert!(!events(&update).iter().any(is_gap));
    ticking.now_nanos += 3 * SECOND;
    let update = ticking.tick();
    let gaps: Vec<&Event> = events(&update).into_iter().filter(is_gap).collect();
    let [Event::Gap { nanos, .. }] = gaps[..] else {
        panic!("{gaps:?}");
    };
    assert_eq!(*nanos, 3 * SECOND + TENTH);
}

#[test]
fn our_own_cost_is_written_within_seconds_then_every_five_and_at_the_end() {
    let mut ticking = Ticking::new(false);
    let own = |update: &Update| rows::<RecorderRow>(update, &Subject::Recorder);
    let first = own(&ticking.tick());
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].1.interval_nanos, TENTH as f64);
    assert!(first[0].1.rss_bytes > 0.0 && first[0].1.cpu_nanos > 0.0);
    let later: Vec<u64> = (1..=130)
        .flat_map(|_| own(&ticking.tick()))
        .map(|(time, _)| time)
        .collect();
    assert_eq!(later, [1, 2, 4, 8, 13].map(|secs| secs * SECOND));
    assert_eq!(own(&ticking.tick_as(true)).len(), 1);
}

/// A tick may find the command gone before its signal was handled.
#[test]
#[expect(clippy::zombie_processes, reason = "the recorder waits for it")]
fn an_end_that_the_tree_shows_first_has_the_kernels_account() {
    use std::process::{Command, Stdio};
    let mut command = Command::new("sh");
    command
        .args(["-c", "read line; exit 3"])
        .stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let roots = Roots::default();
    let mut tree = open_tree(&roots, TreeScope::Others).unwrap();
    tree.add_root(child.id()).unwrap();
    let surroundings = Surroundings::of_own_process(roots, START, child.id());
    let buffer = RowBuffer::new("recorder", START);
    let recorder = Recorder::new(tree, buffer, surroundings, START, false);
    let mut recorder = recorder.of_command(child.id());
    let (pace, mut reaper) = (Pace::new(START, TENTH), Reaper::default());
    recorder.tick(START, &pace, &mut reaper, false);
    drop(child.stdin.take());
    let pid = rustix::process::Pid::from_child(&child);
    let until_ended =
        rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid), until_ended).unwrap();
    recorder.tick(START + TENTH, &pace, &mut reaper, true);
    let update = recorder.writer().take();
    let ended = events(&update).into_iter().find_map(|event| match event {
        Event::ProcessEnded {
            exit_code,
            peak_rss_bytes,
            ..
        } => Some((*exit_code, *peak_rss_bytes)),
        _ => None,
    });
    let told = reaper.get(child.id()).expect("the loop still finds it");
    assert_eq!(ended, Some((Some(3), Some(told.max_rss_bytes))));
}
