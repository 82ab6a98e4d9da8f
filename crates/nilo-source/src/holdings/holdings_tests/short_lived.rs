//! Workers too short-lived to be measured, for whom their siblings speak.

use super::super::*;
use super::{ONE, PAGE, family_doubt, newcomer, pages};

const MANY: u64 = 100_000;
const COPIES: u64 = 5_000;

/// A parent of 100,000 pages forks a worker that copies 5,000 of them, and the two are measured: so much is the worker's alone.
fn measure_a_worker(holdings: &mut Holdings, pid: u32, alone: u64) {
    holdings.join(newcomer(pid, ONE, MANY, 0, COPIES));
    holdings.settle();
    let begin = holdings.state_of(ONE).unwrap();
    let read = |alone: u64, faults| Measured {
        anon_bytes: MANY * PAGE,
        anon_pss_bytes: (alone + (MANY - alone) / 2) * PAGE,
        anon_alone_bytes: alone * PAGE,
        uses_huge_pages: false,
        faults: Some(faults),
        faults_since_begin: 0,
    };
    let round = HashMap::from([(1, read(alone, 500)), (pid, read(alone, COPIES))]);
    holdings.take_anon(ONE, begin, &round);
    assert_eq!(pages(holdings), MANY + alone);
    holdings.end_look();
    holdings.leave(pid);
    assert_eq!(pages(holdings), MANY);
}

#[test]
fn workers_too_short_lived_to_measure_count_what_their_siblings_had_copied() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, MANY, 0, 500));
    measure_a_worker(&mut holdings, 2, COPIES);
    measure_a_worker(&mut holdings, 3, COPIES);
    measure_a_worker(&mut holdings, 4, COPIES);
    // Seen while it copies, and again when it is done; it is hardly in doubt.
    holdings.join(newcomer(5, ONE, MANY, 0, 2_000));
    assert_eq!(pages(&mut holdings), MANY + 2_000);
    let evidence = holdings.count_faults(5, COPIES, true);
    assert_eq!(pages(&mut holdings), MANY + COPIES);
    let counted_bytes = (COPIES - 2_000) * PAGE;
    let expected = FaultEvidence {
        doubted_bytes: 0,
        counted_bytes,
    };
    assert_eq!(evidence, expected, "it moved, though nothing is in doubt");
    assert!(family_doubt(&holdings) < COPIES * PAGE / 10);
    // None of them had copied more, whatever its faults were.
    holdings.count_faults(5, 3 * COPIES, true);
    assert_eq!(pages(&mut holdings), MANY + COPIES);
    holdings.leave(5);
    assert_eq!(pages(&mut holdings), MANY);
    // Of one that has grown old they say less.
    holdings.join(newcomer(6, ONE, MANY, 0, 2_000));
    holdings.count_faults(6, COPIES, false);
    assert!(pages(&mut holdings) < MANY + COPIES);
}

#[test]
fn siblings_that_copied_nothing_speak_for_a_worker_as_well() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, MANY, 0, 500));
    measure_a_worker(&mut holdings, 2, COPIES);
    measure_a_worker(&mut holdings, 3, 0);
    holdings.join(newcomer(4, ONE, MANY, 0, COPIES));
    // Two megabytes that every newborn is taken to copy.
    assert_eq!(pages(&mut holdings), MANY + 512);
}
