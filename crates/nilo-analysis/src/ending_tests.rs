use super::*;
use nilo_sample::fixture::{self, tick};
use nilo_sample::rows::{CgroupRow, HostRow};
use nilo_sample::{ProcessId, ProcessInfo, TableSpec, TimedEvent, TypedRow};

fn started(pid: u32, name: &str) -> TimedEvent {
    let info = ProcessInfo {
        name: name.to_owned(),
        ..ProcessInfo::default()
    };
    TimedEvent {
        time_nanos: 0,
        event: Event::ProcessStarted {
            id: ProcessId {
                pid,
                start_ticks: 1,
            },
            info,
        },
    }
}

/// A run in a cgroup of 100 bytes: (time in ms, working set, oom kills).
fn in_cgroup(rows: &[(u64, f64, f64)], owned: f64) -> Recording {
    let mut recording = fixture::recording();
    recording.description.limit = Some(Limit {
        bytes: 100,
        source: LimitSource::Cgroup {
            path: "/job".into(),
            version: 1,
        },
    });
    let mut table = fixture::table(TableSpec::cgroup("/job"));
    for (millis, level, kills) in rows {
        let row = CgroupRow {
            working_set_bytes: *level,
            oom_kills: *kills,
            owned,
            ..CgroupRow::by_name(|_| 0.0)
        };
        tick(&mut table, millis * 1_000_000, row);
    }
    recording.tables.push(table);
    recording
}

#[test]
fn sigkill_with_a_counted_kill_in_an_own_cgroup_is_certain() {
    let recording = in_cgroup(&[(0, 10.0, 0.0), (100, 99.0, 1.0)], 1.0);
    let ending = judge_ending(
        &recording,
        &EndingEvidence {
            signal: Some(9),
            ..EndingEvidence::default()
        },
    );
    assert_eq!(ending.status, RunStatus::OomKilled);
    let oom = ending.oom.unwrap();
    assert_eq!((oom.certainty, oom.kills), (Certainty::Certain, 1));
    assert_eq!(oom.limit.unwrap().bytes, 100);
}

#[test]
fn sigkill_without_any_evidence_is_just_killed() {
    let recording = in_cgroup(&[(0, 10.0, 0.0), (100, 20.0, 0.0)], 1.0);
    let ending = judge_ending(
        &recording,
        &EndingEvidence {
            signal: Some(9),
            ..EndingEvidence::default()
        },
    );
    assert_eq!(ending.status, RunStatus::Killed);
    assert_eq!(ending.oom, None);
}

#[test]
fn kills_before_the_run_do_not_count() {
    let recording = in_cgroup(&[(0, 10.0, 3.0), (100, 20.0, 3.0)], 1.0);
    let ending = judge_ending(
        &recording,
        &EndingEvidence {
            signal: Some(9),
            ..EndingEvidence::default()
        },
    );
    assert_eq!(ending.status, RunStatus::Killed);
}

#[test]
fn a_child_killed_under_a_parent_that_exits_zero_is_an_oom_kill() {
    let mut recording = in_cgroup(&[(0, 10.0, 0.0), (1000, 30.0, 1.0)], 1.0);
    recording.events = vec![
        started(5, "python worker.py"),
        TimedEvent {
            time_nanos: 900_000_000,
            event: Event::ProcessEnded {
                id: ProcessId {
                    pid: 5,
                    start_ticks: 1,
                },
                peak_rss_bytes: Some(90),
                exit_code: None,
                signal: None,
            },
        },
        TimedEvent {
            time_nanos: 1_000_000_000,
            event: Event::OomKill {
                cgroup: Some("/job".into()),
                kills: 1,
            },
        },
    ];
    let ending = judge_ending(
        &recording,
        &EndingEvidence {
            exit_code: Some(0),
            ..EndingEvidence::default()
        },
    );
    assert_eq!(
        (ending.status, ending.exit_code),
        (RunStatus::OomKilled, Some(0))
    );
    let oom = ending.oom.unwrap();
    assert_eq!(
        (oom.victim_pid, oom.victim_name.as_deref()),
        (Some(5), Some("python worker.py"))
    );
}

#[test]
fn a_kill_in_a_shared_cgroup_is_not_blamed_on_a_command_that_succeeded() {
    let recording = in_cgroup(&[(0, 10.0, 0.0), (100, 20.0, 1.0)], 0.0);
    let ending = judge_ending(
        &recording,
        &EndingEvidence {
            exit_code: Some(0),
            ..EndingEvidence::default()
        },
    );
    assert_eq!(ending.status, RunStatus::Exited);
    assert_eq!(ending.oom.unwrap().certainty, Certainty::Possible);
}

#[test]
fn the_kernels_log_outranks_everything() {
    let mut recording = in_cgroup(&[(0, 10.0, 0.0)], 0.0);
    recording.events = vec![started(5, "python train.py")];
    let aftermath = EndingEvidence {
        signal: Some(9),
        logged_victims: vec![(77, None), (5, Some("/job".into()))],
        ..EndingEvidence::default()
    };
    let oom = judge_ending(&recording, &aftermath).oom.unwrap();
    assert_eq!(
        (oom.certainty, oom.victim_pid),
        (Certainty::Certain, Some(5))
    );
}

#[test]
fn a_recorder_that_died_at_the_limit_left_an_oom_kill() {
    let recording = in_cgroup(&[(0, 10.0, 0.0), (100, 97.0, 0.0)], 1.0);
    let ending = judge_ending(&recording, &EndingEvidence::default());
    assert_eq!(ending.status, RunStatus::OomKilled);
    assert_eq!(ending.oom.unwrap().certainty, Certainty::Likely);
}

#[test]
fn a_recorder_that_died_far_from_the_limit_is_lost() {
    let recording = in_cgroup(&[(0, 10.0, 0.0), (100, 50.0, 0.0)], 1.0);
    assert_eq!(
        judge_ending(&recording, &EndingEvidence::default()).status,
        RunStatus::Lost
    );
    let alive = EndingEvidence {
        recorder_alive: true,
        ..EndingEvidence::default()
    };
    assert_eq!(judge_ending(&recording, &alive).status, RunStatus::Running);
}

#[test]
fn a_kill_is_certain_while_the_job_goes_on_where_nobody_else_is_in_its_cgroup() {
    let alive = EndingEvidence {
        recorder_alive: true,
        ..EndingEvidence::default()
    };
    let certainty = |owned| {
        let mut recording = in_cgroup(&[(0, 10.0, 0.0), (1300, 97.0, 1.0)], owned);
        let ended = Event::ProcessEnded {
            id: ProcessId {
                pid: 7,
                start_ticks: 1,
            },
            peak_rss_bytes: None,
            exit_code: None,
            signal: None,
        };
        recording.events = vec![
            TimedEvent {
                time_nanos: 1_300_000_000,
                event: Event::OomKill {
                    cgroup: Some("/job".into()),
                    kills: 1,
                },
            },
            TimedEvent {
                time_nanos: 1_350_000_000,
                event: ended,
            },
        ];
        let ending = judge_ending(&recording, &alive);
        assert_eq!(ending.status, RunStatus::Running);
        ending.oom.unwrap().certainty
    };
    assert_eq!(certainty(1.0), Certainty::Certain);
    assert_eq!(certainty(0.0), Certainty::Possible);
}

#[test]
fn a_counter_read_after_the_end_completes_the_files() {
    let recording = in_cgroup(&[(0, 10.0, 0.0), (100, 50.0, 0.0)], 1.0);
    let aftermath = EndingEvidence {
        counters: vec![("/job".into(), 1)],
        ..EndingEvidence::default()
    };
    assert_eq!(
        judge_ending(&recording, &aftermath).status,
        RunStatus::OomKilled
    );
}

#[test]
fn an_ordinary_exit_near_the_limit_is_no_oom() {
    let recording = in_cgroup(&[(0, 10.0, 0.0), (100, 99.0, 0.0)], 1.0);
    let ending = judge_ending(
        &recording,
        &EndingEvidence {
            exit_code: Some(1),
            ..EndingEvidence::default()
        },
    );
    assert_eq!((ending.status, ending.oom), (RunStatus::Exited, None));
}

#[test]
fn a_neighbours_kill_is_not_ours() {
    let mut recording = in_cgroup(&[(0, 10.0, 0.0), (1300, 20.0, 1.0)], 0.0);
    recording.events = vec![
        started(5, "bash"),
        TimedEvent {
            time_nanos: 1_300_000_000,
            event: Event::OomKill {
                cgroup: Some("/job".into()),
                kills: 1,
            },
        },
    ];
    let later = EndingEvidence {
        signal: Some(9),
        time_nanos: Some(3_000_000_000),
        ..EndingEvidence::default()
    };
    assert_eq!(judge_ending(&recording, &later).status, RunStatus::Killed);
    let named = EndingEvidence {
        signal: Some(9),
        time_nanos: Some(1_400_000_000),
        logged_victims: vec![(77, Some("/job".into()))],
        ..EndingEvidence::default()
    };
    assert_eq!(judge_ending(&recording, &named).status, RunStatus::Killed);
    let unnamed = EndingEvidence {
        logged_victims: vec![],
        ..named
    };
    assert_eq!(
        judge_ending(&recording, &unnamed).status,
        RunStatus::OomKilled
    );
}

#[test]
fn a_kill_of_another_run_in_the_same_job_is_not_that_of_a_run_that_went_on() {
    let mut recording = in_cgroup(&[(0, 10.0, 0.0), (1300, 20.0, 1.0)], 1.0);
    recording.description.parent = Some(nilo_sample::RunId::new(0, "sweep"));
    recording.events = vec![TimedEvent {
        time_nanos: 1_300_000_000,
        event: Event::OomKill {
            cgroup: Some("/job".into()),
            kills: 1,
        },
    }];
    let ended_at = |time_nanos| {
        let aftermath = EndingEvidence {
            gone: true,
            time_nanos: Some(time_nanos),
            ..EndingEvidence::default()
        };
        judge_ending(&recording, &aftermath).status
    };
    assert_eq!(ended_at(1_400_000_000), RunStatus::OomKilled);
    assert_eq!(ended_at(9_000_000_000), RunStatus::Ended);
}

/// What is known of a recorder that was killed.
fn recorder_died() -> EndingEvidence {
    EndingEvidence {
        recorder_died: true,
        ..EndingEvidence::default()
    }
}

#[test]
fn a_kill_that_a_dead_recorder_did_not_see_has_no_time() {
    let recording = in_cgroup(&[(0, 10.0, 0.0), (100, 97.0, 0.0)], 1.0);
    let ending = judge_ending(&recording, &recorder_died());
    assert_eq!(ending.status, RunStatus::OomKilled);
    assert_eq!(ending.kill_nanos(), None);
    let death = ending.recorder_death.unwrap();
    assert_eq!(death.recorded_until_nanos, 100_000_000);
    assert_eq!(death.oom_killed, None);
}

#[test]
fn a_job_that_outlives_its_recorder_was_not_killed() {
    let mut recording = in_cgroup(&[(0, 10.0, 0.0), (100, 97.0, 0.0)], 1.0);
    recording.description.root_pids = vec![5];
    let goes_on = EndingEvidence {
        left_running: vec![5],
        counters: vec![("/job".into(), 1)],
        ..recorder_died()
    };
    let ending = judge_ending(&recording, &goes_on);
    assert_eq!(ending.status, RunStatus::Lost);
    assert_eq!(ending.oom.unwrap().certainty, Certainty::Possible);
}

#[test]
fn an_oom_kill_of_the_recorder_is_not_one_of_the_job() {
    let mut recording = in_cgroup(&[(0, 10.0, 0.0), (100, 97.0, 0.0)], 1.0);
    recording.description.recorder_pid = 4;
    let named = EndingEvidence {
        counters: vec![("/job".into(), 1)],
        logged_victims: vec![(4, Some("/job".into()))],
        has_kernel_log: true,
        ..recorder_died()
    };
    let ending = judge_ending(&recording, &named);
    assert_eq!((ending.status, ending.oom), (RunStatus::Lost, None));
    assert_eq!(ending.recorder_death.unwrap().oom_killed, Some(true));
    let unnamed = EndingEvidence {
        logged_victims: vec![],
        ..named
    };
    let ending = judge_ending(&recording, &unnamed);
    assert_eq!(ending.recorder_death.unwrap().oom_killed, Some(false));
}

/// A job of two processes in a shared cgroup in which the kernel killed somebody after 1.3 seconds; the second process ended then, too.
fn beside_a_kill(exit_code: Option<i32>) -> Recording {
    let mut recording = in_cgroup(&[(0, 10.0, 0.0), (1300, 20.0, 1.0)], 0.0);
    let ended = Event::ProcessEnded {
        id: ProcessId {
            pid: 6,
            start_ticks: 1,
        },
        peak_rss_bytes: Some(9),
        exit_code,
        signal: None,
    };
    let kill = Event::OomKill {
        cgroup: Some("/job".into()),
        kills: 1,
    };
    let at = |time_nanos, event| TimedEvent { time_nanos, event };
    recording.events = vec![
        started(5, "bash"),
        started(6, "python"),
        at(1_300_000_000, kill),
        at(1_400_000_000, ended),
    ];
    recording
}

#[test]
fn a_victim_that_the_log_names_and_we_do_not_know_is_no_kill_of_this_job() {
    let recording = beside_a_kill(None);
    let unread = EndingEvidence {
        exit_code: Some(0),
        ..EndingEvidence::default()
    };
    let possible = judge_ending(&recording, &unread).oom.unwrap();
    assert_eq!(possible.certainty, Certainty::Possible);
    let named = EndingEvidence {
        logged_victims: vec![(77, Some("/job".into()))],
        has_log_of_our_pids: true,
        ..unread.clone()
    };
    assert_eq!(judge_ending(&recording, &named).oom, None);
    // A person's kill later is no other, though the machine counted one.
    let mut counted = recording.clone();
    machine_counts(&mut counted, &[(0, 0.0), (2, 1.0)]);
    let killed = EndingEvidence {
        exit_code: None,
        signal: Some(9),
        ..named.clone()
    };
    assert_eq!(judge_ending(&counted, &killed).status, RunStatus::Killed);
    // In a container the log has other PIDs, and of two kills one may have been lost from it.
    let elsewhere = EndingEvidence {
        has_log_of_our_pids: false,
        ..named.clone()
    };
    assert!(judge_ending(&recording, &elsewhere).oom.is_some());
    let twice = EndingEvidence {
        counters: vec![("/job".into(), 2)],
        ..named
    };
    assert!(judge_ending(&recording, &twice).oom.is_some());
}

/// The machine's counter of OOM kills: (second, kills).
fn machine_counts(recording: &mut Recording, rows: &[(u64, f64)]) {
    let mut host = fixture::table(TableSpec::host());
    for (second, oom_kills) in rows {
        let row = HostRow {
            oom_kills: *oom_kills,
            ..HostRow::ABSENT
        };
        tick(&mut host, second * 1_000_000_000, row);
    }
    recording.tables.push(host);
}

#[test]
fn a_kill_that_the_machine_counted_is_ours_only_at_the_end_and_where_our_cgroup_has_no_count() {
    let killed = EndingEvidence {
        signal: Some(9),
        ..EndingEvidence::default()
    };
    let status = |recording: &Recording| judge_ending(recording, &killed).status;
    let mut uncounted = fixture::recording();
    machine_counts(&mut uncounted, &[(0, 4.0), (2, 4.0), (4, 5.0)]);
    assert_eq!(status(&uncounted), RunStatus::OomKilled);
    // Somebody else's, earlier.
    let mut earlier = fixture::recording();
    machine_counts(&mut earlier, &[(0, 4.0), (2, 5.0), (60, 5.0)]);
    assert_eq!(status(&earlier), RunStatus::Killed);
    // The kernel counts a kill in the victim's cgroup too, and ours has none.
    let mut counted = in_cgroup(&[(0, 10.0, 0.0), (4000, 20.0, 0.0)], 1.0);
    machine_counts(&mut counted, &[(0, 4.0), (2, 4.0), (4, 5.0)]);
    assert_eq!(status(&counted), RunStatus::Killed);
}

#[test]
fn nobody_was_killed_where_everybody_ended_otherwise() {
    let exited = EndingEvidence {
        exit_code: Some(0),
        ..EndingEvidence::default()
    };
    let oom = |code| judge_ending(&beside_a_kill(code), &exited).oom;
    assert_eq!(oom(Some(0)), None);
    assert!(oom(None).is_some(), "how it ended is not known");
    assert!(oom(Some(137)).is_some());
}

/// A machine of 1000 bytes with a job that is not limited, and its child in a cgroup of 100.
fn child_in_cgroup(rows: &[(u64, f64, f64)]) -> Recording {
    let mut recording = in_cgroup(rows, 1.0);
    for table in &mut recording.tables {
        for (column, value) in [("limit_bytes", 100.0), ("peak_bytes", 99.0)] {
            let column = table.spec.column(column).unwrap();
            table.columns[column].fill(value);
        }
    }
    recording.description.limit = Some(Limit {
        bytes: 1000,
        source: LimitSource::Host,
    });
    recording
}

#[test]
fn the_limit_that_ran_out_is_the_one_that_the_evidence_names() {
    let mut recording = child_in_cgroup(&[(0, 10.0, 0.0), (100, 99.0, 1.0)]);
    recording.events = vec![started(5, "python train.py")];
    let limit = |logged: Option<Option<String>>| {
        let aftermath = EndingEvidence {
            exit_code: Some(0),
            logged_victims: logged.into_iter().map(|place| (5, place)).collect(),
            ..EndingEvidence::default()
        };
        judge_ending(&recording, &aftermath)
            .oom
            .unwrap()
            .limit
            .unwrap()
    };
    for logged in [Some(Some("/job".to_owned())), None] {
        let limit = limit(logged);
        assert_eq!(limit.bytes, 100);
        assert_eq!(limit.source.to_string(), "cgroup v2 /job");
    }
    // The kernel counts a kill in the victim's cgroup when the machine ran out as well.
    assert_eq!(limit(Some(None)).source, LimitSource::Host);
}
