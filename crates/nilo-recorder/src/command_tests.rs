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

#[test]
fn whoever_looks_on_hears_of_each_reading_and_of_nothing_after_the_last() {
    let job = CapturedJob::at(0);
    let start = monotonic_nanos();
    let (mut pace, mut reaper) = (Pace::new(start, TENTH), Reaper::default());
    let (mut recorder, mut told) = (recorder(&job, start), Told::default());
    run_tick(
        &mut recorder,
        &mut pace,
        &mut reaper,
        start,
        &mut told,
        false,
    );
    assert_eq!(told.levels, [job.rss_bytes(JOB) as u64]);
    assert_eq!(told.processes, [[JOB]]);
    assert_eq!((pace.ticks(), pace.wait_nanos(start)), (1, TENTH));
    job.end(JOB);
    run_tick(
        &mut recorder,
        &mut pace,
        &mut reaper,
        monotonic_nanos(),
        &mut told,
        false,
    );
    assert_eq!(told.levels.len(), 1, "there is no reading to show");
    assert_eq!(pace.ticks(), 2);
}

#[test]
fn the_last_tick_is_out_of_turn() {
    let job = CapturedJob::at(0);
    let start = monotonic_nanos();
    let (mut pace, mut reaper) = (Pace::new(start, TENTH), Reaper::default());
    let (mut recorder, mut told) = (recorder(&job, start), Told::default());
    run_tick(
        &mut recorder,
        &mut pace,
        &mut reaper,
        start,
        &mut told,
        true,
    );
    assert_eq!(told.levels.len(), 1);
    assert_eq!((pace.ticks(), pace.late_ticks()), (0, 0));
}

#[test]
fn a_change_of_pace_is_told_and_written_down() {
    let job = CapturedJob::at(0);
    let start = monotonic_nanos();
    // No tick is over within a nanosecond.
    let (mut pace, mut reaper) = (Pace::new(start, 1), Reaper::default());
    let (mut recorder, mut told) = (recorder(&job, start), Told::default());
    while told.notices.is_empty() {
        assert!(pace.ticks() < 1000, "the pace never changed");
        let now = monotonic_nanos();
        run_tick(&mut recorder, &mut pace, &mut reaper, now, &mut told, false);
    }
    let update = recorder.writer().take();
    let changed = update.events.iter().find_map(|timed| match &timed.event {
        Event::Interval { nanos, reason } => Some((*nanos, reason.clone())),
        _ => None,
    });
    let (nanos, reason) = changed.unwrap();
    assert_eq!(nanos, pace.interval_nanos());
    assert!(told.notices[0].starts_with("now sampling every "));
    assert!(told.notices[0].ends_with(&reason), "{:?}", told.notices);
}

#[test]
fn what_git_said_of_the_repository_goes_into_the_description() {
    let mut description = fixture::recording().description;
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
