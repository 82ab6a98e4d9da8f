//! The parts of the loop that do not need a command.

use nilo_runfile::RowBuffer;
use nilo_sample::{GitState, Provenance, fixture};

use super::*;
use crate::captured_job::{CapturedJob, JOB, TENTH};
use crate::live::LiveReading;

#[derive(Default)]
struct Told {
    levels: Vec<u64>,
    processes: Vec<Vec<u32>>,
    notices: Vec<String>,
}

impl Observer for Told {
    fn on_tick(&mut self, live: &LiveReading) {
        self.levels.push(live.memory_bytes);
    }

    fn on_processes(&mut self, pids: &mut dyn Iterator<Item = u32>) {
        self.processes.push(pids.collect());
    }

    fn on_notice(&mut self, text: &str) {
        self.notices.push(text.to_owned());
    }
}

fn recorder(job: &CapturedJob, now_nanos: u64) -> Recorder<RowBuffer> {
    let mut tree = open_tree(&job.roots(), TreeScope::Others).unwrap();
    tree.add_root(JOB).unwrap();
    let surroundings = Surroundings::of_own_process(job.roots(), now_nanos, JOB);
    let buffer = RowBuffer::new("recorder", now_nanos);
    Recorder::new(tree, buffer, surroundings, now_nanos, false)
}

/// A recorder whose ticks are made by hand.
struct TickedRecorder {
    recorder: Recorder<RowBuffer>,
    pace: Pace,
    reaper: Reaper,
    told: Told,
}

impl TickedRecorder {
    fn new(job: &CapturedJob, now_nanos: u64, interval_nanos: u64) -> TickedRecorder {
        TickedRecorder {
            recorder: recorder(job, now_nanos),
            pace: Pace::new(now_nanos, interval_nanos),
            reaper: Reaper::default(),
            told: Told::default(),
        }
    }

    fn tick(&mut self, now_nanos: u64, is_last: bool) {
        let (recorder, pace) = (&mut self.recorder, &mut self.pace);
        let (reaper, told) = (&mut self.reaper, &mut self.told);
        run_tick(recorder, pace, reaper, now_nanos, told, is_last);
    }
}

#[test]
fn whoever_looks_on_hears_of_each_reading_and_of_nothing_after_the_last() {
    let job = CapturedJob::at(0);
    let start = monotonic_nanos();
    let mut ticked = TickedRecorder::new(&job, start, TENTH);
    ticked.tick(start, false);
    assert_eq!(ticked.told.levels, [job.rss_bytes(JOB) as u64]);
    assert_eq!(ticked.told.processes, [[JOB]]);
    let pace = &ticked.pace;
    assert_eq!((pace.ticks(), pace.wait_nanos(start)), (1, TENTH));
    job.end(JOB);
    ticked.tick(monotonic_nanos(), false);
    assert_eq!(ticked.told.levels.len(), 1, "there is no reading to show");
    assert_eq!(ticked.pace.ticks(), 2);
}

#[test]
fn the_last_tick_is_out_of_turn() {
    let job = CapturedJob::at(0);
    let start = monotonic_nanos();
    let mut ticked = TickedRecorder::new(&job, start, TENTH);
    ticked.tick(start, true);
    assert_eq!(ticked.told.levels.len(), 1);
    assert_eq!((ticked.pace.ticks(), ticked.pace.late_ticks()), (0, 0));
}

#[test]
fn a_change_of_pace_is_told_and_written_down() {
    let job = CapturedJob::at(0);
    // No tick is over within a nanosecond.
    let mut ticked = TickedRecorder::new(&job, monotonic_nanos(), 1);
    while ticked.told.notices.is_empty() {
        assert!(ticked.pace.ticks() < 1000, "the pace never changed");
        ticked.tick(monotonic_nanos(), false);
    }
    let update = ticked.recorder.writer().take();
    let changed = update.events.iter().find_map(|timed| match &timed.event {
        Event::Interval { nanos, reason } => Some((*nanos, reason.clone())),
        _ => None,
    });
    let (nanos, reason) = changed.unwrap();
    assert_eq!(nanos, ticked.pace.interval_nanos());
    let notices = &ticked.told.notices;
    assert!(notices[0].starts_with("now sampling every "));
    assert!(notices[0].ends_with(&reason), "{notices:?}");
}

#[test]
fn what_git_said_of_the_repository_goes_into_the_description() {
    let mut description = fixture::description();
    set_dirty(&mut description, true);
    assert_eq!(description.provenance, None);
    description.provenance = Some(Provenance {
        git: Some(GitState::default()),
        ..Provenance::default()
    });
    set_dirty(&mut description, true);
    let git = description.provenance.unwrap().git.unwrap();
    assert_eq!(git.dirty, Some(true));
}
