use super::*;
use nilo_sample::fixture::{column, level, table_of};
use nilo_sample::rows::{CgroupRow, HostRow, ProcessDetailRow, ProcessRow, TreeRow};
use nilo_sample::{Ending, ProcessInfo, RunDescription, RunId, RunStatus, TableSpec, TypedRow};

/// Of processes that did not say when they left.
fn part_of_job(run: &Recording, job: &Recording, writers: &[ProcessId]) -> JobExcerpt {
    let open = |id: &ProcessId| RunWriterProcess {
        id: *id,
        left_nanos: None,
    };
    super::part_of_job(run, job, &writers.iter().map(open).collect::<Vec<_>>())
}

const SECOND: u64 = 1_000_000_000;

fn description(started_secs: u64, ended_secs: Option<u64>) -> RunDescription {
    let mut description: RunDescription = serde_json::from_value(serde_json::json!({
        "schema": "nilo.run/1",
        "id": RunId::new(0, "test"),
        "mode": "run",
        "started_unix_nanos": started_secs * SECOND,
        "started_monotonic_nanos": started_secs * SECOND,
        "boot_id": "01010101-0101-0101-0101-010101010101",
        "root_pids": [1],
    }))
    .unwrap();
    description.ending = ended_secs.map(|ended| Ending {
        status: RunStatus::Exited,
        exit_code: Some(0),
        signal: None,
        time_nanos: (ended - started_secs) * SECOND,
        oom: None,
        left_running: vec![],
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    });
    description
}

/// A run that wrote nothing itself.
fn run(started_secs: u64, ended_secs: Option<u64>) -> Recording {
    Recording::empty(description(started_secs, ended_secs))
}

fn id(pid: u32) -> ProcessId {
    ProcessId {
        pid,
        start_ticks: u64::from(pid) * 10,
    }
}

fn started(secs: u64, pid: u32, parent: u32) -> TimedEvent {
    let info = ProcessInfo {
        parent,
        ..ProcessInfo::default()
    };
    TimedEvent {
        time_nanos: secs * SECOND,
        event: Event::ProcessStarted { id: id(pid), info },
    }
}

fn ended(secs: u64, pid: u32) -> TimedEvent {
    TimedEvent {
        time_nanos: secs * SECOND,
        event: Event::ProcessEnded {
            id: id(pid),
            peak_rss_bytes: None,
            exit_code: None,
            signal: None,
        },
    }
}

/// Rows at these seconds.
fn table<R: TypedRow>(spec: TableSpec, rows: &[(u64, R)]) -> RecordedTable {
    let at_nanos = |(secs, row): &(u64, R)| (secs * SECOND, *row);
    table_of(spec, &rows.iter().map(at_nanos).collect::<Vec<_>>())
}

fn process_row(rss_bytes: f64, cpu_nanos: f64, memory_bytes: f64) -> ProcessRow {
    ProcessRow {
        rss_bytes,
        cpu_nanos,
        memory_bytes,
        ..ProcessRow::ABSENT
    }
}

/// A tree of which everything was measured.
fn tree_row(memory_bytes: f64, processes: f64) -> TreeRow {
    TreeRow {
        processes,
        pss_processes: processes,
        ..level(memory_bytes)
    }
}

/// A shell (1) that runs two trainings: 2 with a worker 3 from second 2 to 4, and 4 from second 6 on.
fn sweep() -> Recording {
    let rows = [
        (0, tree_row(10.0, 1.0)),
        (2, tree_row(110.0, 2.0)),
        (3, tree_row(160.0, 3.0)),
        (5, tree_row(10.0, 1.0)),
        (6, tree_row(310.0, 2.0)),
        (8, tree_row(310.0, 2.0)),
    ];
    Recording {
        tables: vec![
            table(TableSpec::tree(), &rows),
            table(
                TableSpec::process(id(1)),
                &[(0, process_row(10.0, 1.0, 10.0))],
            ),
            table(
                TableSpec::process(id(2)),
                &[(2, process_row(100.0, 5.0, 100.0))],
            ),
            table(
                TableSpec::process(id(3)),
                &[(3, process_row(150.0, 2.0, 50.0))],
            ),
            table(
                TableSpec::process(id(4)),
                &[(6, process_row(300.0, 7.0, 300.0))],
            ),
        ],
        events: vec![
            started(0, 1, 0),
            started(2, 2, 1),
            started(3, 3, 2),
            ended(4, 2),
            ended(4, 3),
            started(6, 4, 1),
        ],
        ..Recording::empty(description(0, None))
    }
}

fn memory(part: &JobExcerpt) -> Vec<(u64, f64)> {
    let tree = part
        .tables
        .iter()
        .find(|table| table.spec.subject == Subject::Tree);
    let series = tree.map(|tree| tree.series("memory_bytes").unwrap());
    series.map_or(vec![], |series| {
        series
            .present()
            .map(|(time, value)| (time / SECOND, value))
            .collect()
    })
}

#[test]
fn each_training_of_a_sweep_has_its_own_memory() {
    let job = sweep();
    let first = part_of_job(&run(2, Some(4)), &job, &[id(2)]);
    // The worker has 150 resident, 100 of them shared with its parent: together they hold 150.
    assert_eq!(memory(&first), [(0, 100.0), (1, 150.0)]);
    let second = part_of_job(&run(6, None), &job, &[id(4)]);
    assert_eq!(memory(&second), [(0, 300.0), (2, 300.0)]);
}

#[test]
fn pages_shared_with_processes_outside_are_the_runs_too() {
    let mut job = sweep();
    // 20 of the second training's 300 are the shell's as well, and count for the shell.
    *column(&mut job.tables[4], "memory_bytes") = vec![280.0];
    let second = part_of_job(&run(6, None), &job, &[id(4)]);
    assert_eq!(memory(&second), [(0, 300.0), (2, 300.0)]);
}

#[test]
fn a_file_that_a_process_of_the_run_maps_twice_is_in_its_curve_once() {
    let mut job = sweep();
    // Of the second training's 300 resident, 120 are mapped for the second time; the job holds no more than 190.
    *column(&mut job.tables[4], "memory_bytes") = vec![180.0];
    *column(&mut job.tables[4], "distinct_bytes") = vec![180.0];
    let second = part_of_job(&run(6, None), &job, &[id(4)]);
    assert_eq!(memory(&second), [(0, 180.0), (2, 180.0)]);
}

#[test]
fn what_a_member_starts_belongs_to_its_run_and_what_it_did_not_does_not() {
    let part = part_of_job(&run(2, Some(4)), &sweep(), &[id(2)]);
    let started: Vec<u32> = part
        .events
        .iter()
        .filter_map(|timed| match timed.event {
            Event::ProcessStarted { id, .. } => Some(id.pid),
            _ => None,
        })
        .collect();
    assert_eq!(started, [2, 3]);
}

#[test]
fn the_jobs_marks_belong_to_a_run_only_where_nobody_else_was_there() {
    let mut job = sweep();
    *column(&mut job.tables[0], "high_water_bytes") = vec![500.0; 6];
    let alone = part_of_job(&run(0, Some(1)), &job, &[id(1)]);
    let high = |part: &JobExcerpt| part.tables[0].series("high_water_bytes").unwrap().max();
    assert_eq!(high(&alone), Some((0, 500.0)));
    let beside = part_of_job(&run(2, Some(4)), &job, &[id(2)]);
    assert_eq!(high(&beside), None);
}

#[test]
fn a_number_used_again_is_another_process() {
    let stranger = ProcessId {
        pid: 2,
        start_ticks: 999,
    };
    let part = part_of_job(&run(2, Some(4)), &sweep(), &[stranger]);
    assert!(part.tables.is_empty());
}

/// A process (1) that held 300 until second 3 and has 20 since, and its child (2), which held 400 and is gone at second 4.
fn two_trainings() -> Recording {
    let mut job = sweep();
    // The spike from before is noticed when the mark is read.
    let noticed = TreeRow {
        high_water_bytes: 900.0,
        ..tree_row(20.0, 1.0)
    };
    let rows: Vec<(u64, TreeRow)> = (0..9)
        .map(|secs| match secs {
            0..=3 => (secs, tree_row(700.0, 2.0)),
            5 => (secs, noticed),
            _ => (secs, tree_row(20.0, 1.0)),
        })
        .collect();
    let detail = |peak_rss_bytes: f64| ProcessDetailRow {
        peak_rss_bytes,
        threads: 1.0,
        open_files: 1.0,
        ..ProcessDetailRow::by_name(|_| 0.0)
    };
    job.tables = vec![
        table(TableSpec::tree(), &rows),
        table(
            TableSpec::process(id(1)),
            &[
                (0, process_row(300.0, 1.0, 300.0)),
                (4, process_row(20.0, 2.0, 20.0)),
            ],
        ),
        table(
            TableSpec::process(id(2)),
            &[(0, process_row(400.0, 1.0, 400.0))],
        ),
        table(
            TableSpec::process_detail(id(1)),
            &[(0, detail(300.0)), (5, detail(900.0))],
        ),
    ];
    job.events = vec![started(0, 1, 0), started(0, 2, 1), ended(4, 2)];
    job
}

/// The run began between two ticks: after the memory was freed and the child ended, before anybody saw it.
fn begun_between_ticks() -> Recording {
    let mut begun = run(3, None);
    begun.description.started_monotonic_nanos += SECOND / 2;
    begun
}

#[test]
fn what_was_held_and_freed_before_a_run_is_not_its_memory() {
    let part = part_of_job(&begun_between_ticks(), &two_trainings(), &[id(1)]);
    assert_eq!(memory(&part).first(), Some(&(0, 20.0)));
    let highest = |table: &RecordedTable| table.series("rss_bytes").unwrap().max().unwrap().1;
    let of_processes = part
        .tables
        .iter()
        .filter(|table| matches!(table.spec.subject, Subject::Process(_)));
    assert_eq!(of_processes.map(highest).collect::<Vec<_>>(), [20.0]);
    let has_child = part.events.iter().any(|timed| {
        matches!(&timed.event, Event::ProcessStarted { id, .. } | Event::ProcessEnded { id, .. } if id.pid == 2)
    });
    assert!(!has_child, "{:?}", part.events);
}

#[test]
fn a_mark_counts_once_it_was_read_in_the_time_of_the_run() {
    let mut job = two_trainings();
    let high = |job: &Recording| {
        let part = part_of_job(&begun_between_ticks(), job, &[id(1)]);
        part.tables[0].series("high_water_bytes").unwrap().max()
    };
    assert_eq!(high(&job), None);
    // The mark was read on second 5; what is seen risen on second 7 rose in between.
    column(&mut job.tables[0], "high_water_bytes")[7] = 950.0;
    assert_eq!(high(&job), Some((7 * SECOND - 7 * SECOND / 2, 950.0)));
}

#[test]
fn a_level_that_nobody_wrote_anew_holds_on() {
    let mut job = two_trainings();
    job.tables[1] = table(
        TableSpec::process(id(1)),
        &[(0, process_row(300.0, 1.0, 300.0))],
    );
    let part = part_of_job(&begun_between_ticks(), &job, &[id(1)]);
    let own = part
        .tables
        .iter()
        .find(|table| table.spec == TableSpec::process(id(1)));
    assert_eq!(own.unwrap().times, [0]);
}

#[test]
fn a_counter_keeps_what_it_was_when_the_run_began() {
    let mut job = two_trainings();
    let row = |usage: f64, oom_kills: f64| CgroupRow {
        usage_bytes: usage,
        working_set_bytes: usage,
        peak_bytes: usage,
        oom_kills,
        owned: 1.0,
        ..CgroupRow::by_name(|_| 0.0)
    };
    job.tables.push(table(
        TableSpec::cgroup("/job"),
        &[(0, row(700.0, 0.0)), (4, row(20.0, 1.0))],
    ));
    let part = part_of_job(&begun_between_ticks(), &job, &[id(1)]);
    let cgroup = part.tables.last().unwrap();
    let values = |column: &str| -> Vec<f64> {
        let series = cgroup.series(column).unwrap();
        series.present().map(|(_, value)| value).collect()
    };
    assert_eq!(values("oom_kills"), [0.0, 1.0]);
    assert_eq!(values("working_set_bytes"), [20.0]);
}

#[test]
fn ranks_hold_the_pages_that_they_share_with_their_launcher() {
    let mut job = sweep();
    // The launcher (1) has mapped 250 of libraries that both ranks (2 and 3) hold as well.
    let launcher = process_row(260.0, 1.0, 260.0);
    let ranks = [(570.0, 320.0), (550.0, 310.0)];
    let ranks = ranks.map(|(rss, memory)| process_row(rss, 5.0, memory));
    job.tables[1] = table(TableSpec::process(id(1)), &[(0, launcher)]);
    job.tables[2] = table(TableSpec::process(id(2)), &[(2, ranks[0])]);
    job.tables[3] = table(TableSpec::process(id(3)), &[(2, ranks[1])]);
    job.events[2] = started(2, 3, 1);
    column(&mut job.tables[0], "processes")[1] = 3.0;
    let part = part_of_job(&run(2, Some(4)), &job, &[id(2), id(3)]);
    assert_eq!(memory(&part), [(0, 570.0 + 310.0), (1, 570.0 + 310.0)]);
}

#[test]
fn a_run_that_was_killed_ends_with_its_last_process() {
    let mut job = sweep();
    let late = nilo_sample::Alert {
        kind: nilo_sample::AlertKind::MemoryCritical,
        severity: nilo_sample::Severity::Critical,
        resource: "job memory".to_owned(),
        raised: true,
        time_nanos: 0,
        text: String::new(),
        used_bytes: None,
        limit_bytes: None,
        used_percent: None,
        bytes_per_sec: None,
        seconds_left: None,
        seconds_left_low: None,
        seconds_left_high: None,
        confidence: None,
        recommendations: vec![],
    };
    for secs in [1, 3, 5] {
        let mut alert = late.clone();
        alert.time_nanos = secs * SECOND;
        job.events.push(TimedEvent {
            time_nanos: secs * SECOND,
            event: Event::Alert(Box::new(alert)),
        });
    }
    job.events.sort_by_key(|timed| timed.time_nanos);
    let part = part_of_job(&run(2, None), &job, &[id(2)]);
    let last = part.events.iter().map(|timed| timed.time_nanos).max();
    assert_eq!(last, Some(2 * SECOND));
    let alerts = part.events.iter().filter_map(|timed| match &timed.event {
        Event::Alert(alert) => Some((timed.time_nanos, alert.time_nanos)),
        _ => None,
    });
    assert_eq!(alerts.collect::<Vec<_>>(), [(SECOND, SECOND)]);
    // One whose process lives goes on.
    let going_on = part_of_job(&run(6, None), &job, &[id(4)]);
    assert_eq!(memory(&going_on).last(), Some(&(2, 300.0)));
}

#[test]
fn a_run_whose_processes_nobody_saw_lasts_as_long_as_it_wrote() {
    let mut short = run(2, None);
    short.written_until_nanos = SECOND;
    let mut job = sweep();
    let host = [(0, 1.0), (3, 2.0), (8, 3.0)];
    let host = host.map(|(at, value)| (at, HostRow::by_name(|_| value)));
    job.tables.push(table(TableSpec::host(), &host));
    let part = part_of_job(&short, &job, &[id(77)]);
    assert_eq!(part.tables.last().unwrap().times.last(), Some(&SECOND));
}

/// The sweep's job as one of two ranks: 2, which began the run and ended it at once, and 3 beside it.
fn two_ranks() -> (Recording, Recording) {
    let mut began = run(2, Some(2));
    began.description.recorder_pid = 2;
    began.description.recorder_start_ticks = id(2).start_ticks;
    let mut job = sweep();
    job.events[2] = started(2, 3, 1);
    (began, job)
}

#[test]
fn a_run_lasts_until_its_last_row_though_the_rank_that_began_it_ended_before() {
    let (mut ranks, job) = two_ranks();
    assert_eq!(memory(&part_of_job(&ranks, &job, &[id(2)])).len(), 1);
    ranks.written_until_nanos = SECOND;
    let part = part_of_job(&ranks, &job, &[id(2)]);
    assert_eq!(memory(&part), [(0, 100.0), (1, 100.0)]);
}

#[test]
fn a_run_lasts_until_its_last_rank_left_it() {
    let (ranks, mut job) = two_ranks();
    let left_at = |job: &Recording, left_nanos: Option<u64>| {
        let beside = RunWriterProcess {
            id: id(3),
            left_nanos,
        };
        let first = RunWriterProcess {
            id: id(2),
            left_nanos: None,
        };
        super::part_of_job(&ranks, job, &[first, beside]).until_nanos
    };
    // It was killed at second 4, left at second 3, or was closed by an earlier version; or the job ended before it.
    assert_eq!(left_at(&job, None), 2 * SECOND);
    assert_eq!(left_at(&job, Some(SECOND)), SECOND);
    assert_eq!(left_at(&job, Some(0)), 0);
    job.events.retain(|timed| *timed != ended(4, 3));
    assert_eq!(left_at(&job, None), 6 * SECOND);
    // What the first rank started, and does not say when it left, may serve the next run.
    job.events[2] = started(3, 3, 2);
    assert_eq!(left_at(&job, None), 0);
}

#[test]
fn the_commands_own_account_is_not_that_of_a_run_inside() {
    let mut job = two_trainings();
    job.events.push(TimedEvent {
        time_nanos: 9 * SECOND,
        event: Event::CommandEnded {
            cpu_nanos: Some(7),
            exit_code: Some(3),
            signal: None,
            peak_bytes: Some(9),
        },
    });
    let told = |run: &Recording| {
        let events = part_of_job(run, &job, &[id(1)]).events;
        let is_end = |timed: &TimedEvent| matches!(timed.event, Event::CommandEnded { .. });
        events.into_iter().find(is_end).map(|timed| timed.event)
    };
    assert_eq!(told(&run(1, Some(3))), None);
    let expected = Event::CommandEnded {
        cpu_nanos: None,
        exit_code: Some(3),
        signal: None,
        peak_bytes: None,
    };
    assert_eq!(told(&begun_between_ticks()), Some(expected));
}

#[test]
fn the_words_of_a_program_that_recorded_itself_are_not_those_of_a_run_inside() {
    let mut job = sweep();
    job.events.push(TimedEvent {
        time_nanos: 2 * SECOND,
        event: Event::Mark {
            text: "epoch 1".to_owned(),
        },
    });
    job.events.sort_by_key(|timed| timed.time_nanos);
    let marks = |job: &Recording| {
        let part = part_of_job(&run(0, Some(10)), job, &[id(2)]);
        let is_mark = |timed: &&TimedEvent| matches!(timed.event, Event::Mark { .. });
        part.events.iter().filter(is_mark).count()
    };
    assert_eq!(marks(&job), 1, "`nilo mark` in a job is for all of it");
    job.description.mode = nilo_sample::RunMode::Python;
    assert_eq!(marks(&job), 0);
}

#[test]
fn a_cgroup_is_the_runs_own_where_nobody_else_of_the_job_was_there() {
    let mut job = sweep();
    let row = CgroupRow {
        owned: 1.0,
        ..CgroupRow::by_name(|_| 0.0)
    };
    let cgroup = table(TableSpec::cgroup("/job"), &[(0, row), (3, row)]);
    job.tables.push(cgroup);
    let owned = |job: &Recording, run: &Recording, writers: &[ProcessId]| -> Vec<f64> {
        let part = part_of_job(run, job, writers);
        let cgroup = part.tables.last().unwrap();
        let series = cgroup.series("owned").unwrap();
        series.present().map(|(_, value)| value).collect()
    };
    let first = run(2, Some(4));
    assert_eq!(owned(&job, &first, &[id(2)]), [0.0, 0.0], "the shell");
    assert_eq!(owned(&job, &first, &[id(1)]), [1.0, 1.0]);
    // What ended before a run and what began after it were not there.
    job.events.retain(
        |it| !matches!(it.event, Event::ProcessStarted { id: started, .. } if started == id(1)),
    );
    assert_eq!(owned(&job, &first, &[id(2)]), [1.0, 1.0]);
    assert_eq!(owned(&job, &run(6, None), &[id(4)]), [1.0]);
    // The shell's child was seen on the run's first tick and later.
    job.events.insert(0, started(3, 9, 0));
    assert_eq!(owned(&job, &first, &[id(2)]), [0.0, 0.0]);
}

#[test]
fn a_run_between_two_samples_has_the_levels_that_its_process_told() {
    let job = sweep();
    let mut brief = run(6, Some(7));
    brief.description.started_monotonic_nanos += SECOND / 4;
    brief.description.ending.as_mut().unwrap().time_nanos = SECOND / 2;
    (
        brief.description.recorder_pid,
        brief.description.recorder_start_ticks,
    ) = (4, 40);
    let told = |time_nanos, resident_bytes| TimedEvent {
        time_nanos,
        event: Event::HighWater {
            id: id(4),
            rss_bytes: 900,
            resident_bytes,
        },
    };
    let levels = |run: &Recording| {
        let part = part_of_job(run, &job, &[id(4)]);
        let tree = part.tables.into_iter();
        let tree = tree.filter(|table| table.spec.subject == Subject::Tree);
        let rows = tree.flat_map(|tree| {
            tree.times
                .clone()
                .into_iter()
                .zip(tree.rows().collect::<Vec<TreeRow>>())
        });
        rows.map(|(time, row)| (time, row.memory_bytes, row.processes))
            .collect::<Vec<_>>()
    };
    brief.events = vec![told(1, None)];
    assert_eq!(levels(&brief), [], "as earlier versions told it");
    brief.events = vec![told(1, Some(300)), told(SECOND / 2, Some(280))];
    assert_eq!(levels(&brief), [(1, 300.0, 1.0), (SECOND / 2, 280.0, 1.0)]);
    // Where the job's samples are lost, nobody knows what was between the two.
    let mut damaged = sweep();
    damaged.tables.clear();
    let has_levels = |job: &Recording| {
        let part = part_of_job(&brief, job, &[id(4)]);
        let mut tables = part.tables.iter();
        tables.any(|table| table.spec.subject == Subject::Tree)
    };
    assert!(has_levels(&damaged), "a job too short for a sample");
    damaged.damage.push("not a run file".to_owned());
    assert!(!has_levels(&damaged));
    // Where the job was sampled, that counts.
    brief.description.ending = None;
    assert_eq!(levels(&brief).len(), 1);
    assert_eq!(levels(&brief)[0].1, 300.0);
}
