use super::*;
use crate::holdings::{Measured, NewProcess};
use crate::tracked_process::ProcessReading;

const MIB: u64 = 1 << 20;

fn tree(members: u32) -> Holdings {
    let mut holdings = Holdings::new(4096);
    for pid in 1..=members {
        holdings.join(NewProcess {
            pid,
            parent: 1,
            family: FamilyKey::Layout(7),
            reading: ProcessReading {
                rss_bytes: 100 * MIB,
                ..ProcessReading::default()
            },
            // Ten megabytes of what was inherited may have been copied.
            faults: 2560,
            is_newborn: true,
            mapped_twice_bytes: None,
        });
    }
    holdings.settle();
    holdings
}

fn scene(now_nanos: u64) -> TreeState {
    TreeState {
        now_nanos,
        since_last_tick_nanos: NANOS_PER_SEC / 10,
        last_coming_nanos: 0,
        processes: 2,
    }
}

fn measuring() -> Measuring {
    Measuring::new(CpuBudget::new(0.005, NANOS_PER_SEC))
}

#[test]
fn a_quiet_tree_in_doubt_is_measured_soon() {
    let holdings = tree(2);
    let mut measuring = measuring();
    assert_eq!(measuring.reason(&holdings, scene(0)), None);
    let reason = measuring.reason(&holdings, scene(QUIET_NANOS));
    assert!(matches!(reason, Some(MeasureReason::Doubt { .. })));
}

#[test]
fn where_ticks_are_rare_doubt_does_not_wait_for_the_next() {
    let holdings = tree(2);
    let found_now = |since_last_tick_nanos| TreeState {
        last_coming_nanos: 3 * NANOS_PER_SEC,
        since_last_tick_nanos,
        ..scene(3 * NANOS_PER_SEC)
    };
    let often = measuring().reason(&holdings, found_now(NANOS_PER_SEC / 10));
    assert_eq!(often, None);
    let rare = measuring().reason(&holdings, found_now(3 * NANOS_PER_SEC));
    assert!(matches!(rare, Some(MeasureReason::Doubt { .. })));
}

#[test]
fn a_tree_that_never_is_quiet_is_measured_all_the_same() {
    let holdings = tree(2);
    let mut measuring = measuring();
    let busy = |now_nanos| TreeState {
        last_coming_nanos: now_nanos,
        ..scene(now_nanos)
    };
    measuring.peak_bytes = u64::MAX;
    assert_eq!(measuring.reason(&holdings, busy(1)), None);
    assert_eq!(measuring.reason(&holdings, busy(PATIENCE_NANOS)), None);
    let due = measuring.reason(&holdings, busy(PATIENCE_NANOS + 1));
    assert!(due.is_some());
    // Sooner where a new peak may be missed, later where little may be spent.
    measuring.peak_bytes = 0;
    measuring.doubted_since_nanos = Some(1);
    let soon = busy(PATIENCE_AT_A_PEAK_NANOS + 1);
    assert!(measuring.reason(&holdings, soon).is_some());
    measuring.budget.spend(NANOS_PER_SEC * 4 / 5);
    assert_eq!(measuring.reason(&holdings, soon), None);
}

#[test]
fn a_peak_that_is_much_in_doubt_is_measured_on_the_same_tick() {
    // Two megabytes of each worker's ten are taken for copied; five of each are in doubt.
    let found_now = TreeState {
        last_coming_nanos: NANOS_PER_SEC,
        ..scene(NANOS_PER_SEC)
    };
    assert_eq!(measuring().reason(&tree(2), found_now), None);
    let reason = measuring().reason(&tree(4), found_now);
    assert!(matches!(
        reason,
        Some(MeasureReason::Doubt {
            urgency: Urgency::AtOnce,
            ..
        })
    ));
    // Findings that somebody was born into are dropped.
    let mut holdings = tree(4);
    let families = HashMap::from([(
        FamilyKey::Layout(7),
        holdings.state_of(FamilyKey::Layout(7)).unwrap(),
    )]);
    let findings = Findings {
        families,
        is_urgent: true,
        ..Findings::default()
    };
    assert!(findings.hold(&holdings));
    holdings.leave(4);
    let mut dropping = measuring();
    assert!(!dropping.keeps(&findings, &holdings));
    // The next ones count: a tree that changes all the time would never be measured.
    let next = dropping.reason(&tree(4), found_now);
    assert!(matches!(
        next,
        Some(MeasureReason::Doubt {
            urgency: Urgency::Peak,
            ..
        })
    ));
    // Half of what may have been copied is in doubt: all of it decides whether this may be a peak.
    let (bytes, doubt) = (tree(4).bytes(), tree(4).likely_doubt_bytes());
    let mut nearly = measuring();
    nearly.peak_bytes = bytes + doubt * 3 / 2;
    assert!(nearly.reason(&tree(4), found_now).is_some());
    // What was as high before can wait.
    let mut known = measuring();
    known.peak_bytes = u64::MAX;
    assert_eq!(known.reason(&tree(4), found_now), None);
}

#[test]
fn much_doubt_away_from_a_peak_does_not_wait_for_a_second() {
    let busy = |now_nanos| TreeState {
        last_coming_nanos: now_nanos,
        ..scene(now_nanos)
    };
    for (members, due) in [(2, false), (4, true)] {
        let holdings = tree(members);
        let mut measuring = measuring();
        measuring.peak_bytes = u64::MAX;
        assert_eq!(measuring.reason(&holdings, busy(1)), None);
        let later = measuring.reason(&holdings, busy(PATIENCE_WITH_MUCH_NANOS + 1));
        assert_eq!(later.is_some(), due);
    }
}

#[test]
fn a_round_at_a_possible_peak_is_not_drawn_out() {
    let holdings = tree(2);
    for (peak_bytes, slice_nanos) in [(0, SLICE_AT_A_PEAK_NANOS), (u64::MAX, SLICE_NANOS.0)] {
        let mut measuring = measuring();
        measuring.peak_bytes = peak_bytes;
        measuring.reason(&holdings, scene(0));
        let why = measuring.reason(&holdings, scene(QUIET_NANOS)).unwrap();
        let round = measuring.begin(&holdings, 1..=2, why);
        assert_eq!(round.slice_nanos(0), slice_nanos);
    }
}

#[test]
fn doubts_wait_while_measurements_confirm_the_laws() {
    let holdings = tree(2);
    let mut measuring = measuring();
    measuring.last_round_nanos = Some(1);
    measuring.reason(&holdings, scene(1));
    let soon = scene(NANOS_PER_SEC / 4);
    (0..4).for_each(|_| measuring.learn(100 * MIB, 100 * MIB));
    assert_eq!(measuring.pause_nanos, 4 * NANOS_PER_SEC);
    // Several times the least is in doubt: the pause is as many times shorter.
    assert_eq!(measuring.reason(&holdings, soon), None);
    let after = scene(NANOS_PER_SEC * 2);
    assert!(measuring.reason(&holdings, after).is_some());
    // Whoever comes or goes changes what the laws are worth.
    let changed = TreeState {
        last_coming_nanos: 2,
        ..soon
    };
    assert!(measuring.reason(&holdings, changed).is_some());
    measuring.learn(100 * MIB, 102 * MIB);
    assert!(measuring.reason(&holdings, soon).is_some());
    // The pause grows and has an end.
    (0..9).for_each(|_| measuring.learn(100 * MIB, 100 * MIB));
    assert_eq!(measuring.pause_nanos, PAUSE_NANOS.1);
    let later = scene(PAUSE_NANOS.1 + 1);
    assert!(measuring.reason(&holdings, later).is_some());
}

#[test]
fn unlikely_copies_are_checked_where_a_tree_has_come_to_rest() {
    let mut holdings = tree(2);
    let mut measuring = measuring();
    // Measurements have found again and again that faults of this tree copy nothing.
    for round in 1..=20 {
        let state = holdings.state_of(FamilyKey::Layout(7)).unwrap();
        let measured = |faults| Measured {
            anon_bytes: 100 * MIB,
            anon_pss_bytes: 50 * MIB,
            anon_alone_bytes: 0,
            uses_huge_pages: false,
            faults: Some(faults),
            faults_since_begin: 0,
        };
        let faults = 2560 * round;
        let both = HashMap::from([(1, measured(faults)), (2, measured(faults))]);
        holdings.take_anon(FamilyKey::Layout(7), state, &both);
        holdings.count_faults(1, faults + 2560, false);
        holdings.count_faults(2, faults + 2560, false);
        holdings.settle();
    }
    measuring.last_round_nanos = Some(1);
    let doubt: u64 = holdings.family_doubts().map(|(_, doubt)| doubt).sum();
    assert!(
        doubt < MIB,
        "twenty MiB may have been copied, {doubt} are in doubt"
    );
    assert_eq!(measuring.reason(&holdings, scene(1)), None);
    assert_eq!(
        measuring.reason(&holdings, scene(SETTLED_NANOS / 2 + 1)),
        None
    );
    let reason = measuring.reason(&holdings, scene(SETTLED_NANOS + 2));
    assert!(
        matches!(reason, Some(MeasureReason::Claims { .. })),
        "{reason:?}"
    );
    let round = measuring.begin(&holdings, 1..=2, reason.unwrap());
    assert_eq!((round.queue.len(), round.families.len()), (2, 1));
    assert!(!round.all);
}

#[test]
fn a_process_alone_is_measured_once_and_then_rarely() {
    let holdings = tree(1);
    let mut measuring = measuring();
    assert_eq!(measuring.reason(&holdings, scene(FIRST_NANOS - 1)), None);
    assert_eq!(
        measuring.reason(&holdings, scene(FIRST_NANOS)),
        Some(MeasureReason::First)
    );
    measuring.last_round_nanos = Some(FIRST_NANOS);
    assert_eq!(measuring.reason(&holdings, scene(REST_NANOS)), None);
    let later = scene(FIRST_NANOS + REST_NANOS);
    assert_eq!(
        measuring.reason(&holdings, later),
        Some(MeasureReason::Rest)
    );
}

#[test]
fn a_tree_too_large_for_the_budget_is_left_to_the_laws() {
    let proc = ProcFolder::open(std::path::Path::new("/proc")).unwrap();
    // 200 MiB and 200 GiB, of processes that nobody will find.
    for (members, begins) in [(2, true), (2000, false)] {
        let holdings = tree(members);
        let mut measuring = measuring();
        measuring.is_due(&holdings, scene(0));
        let later = scene(QUIET_NANOS);
        assert!(measuring.is_due(&holdings, later));
        let found = measuring.step(&proc, &holdings, 1..=members, later, |_| {});
        assert_eq!(found.is_some() || measuring.round.is_some(), begins);
    }
}

#[test]
fn nothing_is_measured_on_credit() {
    let holdings = tree(2);
    let mut measuring = measuring();
    measuring.budget.spend(2 * NANOS_PER_SEC);
    assert_eq!(measuring.reason(&holdings, scene(NANOS_PER_SEC)), None);
}

#[test]
fn a_slice_ends_when_the_machine_holds_it_up() {
    let slice_nanos = SLICE_AT_A_PEAK_NANOS;
    let slice = Duration::from_nanos(slice_nanos);
    assert!(!is_over(slice_nanos, slice_nanos, slice));
    assert!(is_over(slice_nanos, slice_nanos + 1, slice));
    assert!(is_over(slice_nanos, 0, (HELD_UP_TIMES + 1) * slice));
}

#[test]
fn what_one_process_may_have_mapped_twice_is_measured_at_once_however_often_the_laws_were_right() {
    let reading = |mib: u64| ProcessReading {
        rss_bytes: (10 + mib) * MIB,
        shared_bytes: mib * MIB,
        ..ProcessReading::default()
    };
    let mut holdings = Holdings::new(4096);
    holdings.join(NewProcess {
        pid: 1,
        parent: 0,
        family: FamilyKey::Layout(7),
        reading: reading(200),
        faults: 0,
        is_newborn: false,
        mapped_twice_bytes: None,
    });
    holdings.settle();
    let mut measuring = measuring();
    let is_at_once = |measuring: &mut Measuring, holdings: &Holdings, now_nanos| {
        let reason = measuring.reason(holdings, scene(now_nanos));
        let urgency = |reason| match reason {
            MeasureReason::Doubt { urgency, .. } => Some(urgency),
            _ => None,
        };
        reason.and_then(urgency) == Some(Urgency::AtOnce)
    };
    assert!(is_at_once(&mut measuring, &holdings, 1), "as it was found");
    for now in 1..=8 {
        let counted = holdings.file_bytes(1);
        let plain = crate::holdings::CountedFiles {
            plain: Some(crate::holdings::PlainFiles {
                pid: 1,
                most_bytes: u64::MAX,
            }),
            ..Default::default()
        };
        holdings.take_files(&plain, holdings.file_doubt());
        measuring.learn(counted, holdings.file_bytes(1));
        measuring.last_round_nanos = Some(now);
        assert_eq!(measuring.reason(&holdings, scene(now)), None);
    }
    holdings.update(1, reading(220));
    holdings.settle();
    assert!(is_at_once(&mut measuring, &holdings, NANOS_PER_SEC / 10));
}
