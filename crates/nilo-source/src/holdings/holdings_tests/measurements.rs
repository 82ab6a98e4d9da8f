//! Faults leave in doubt what was copied, and a measurement tells.

use super::super::*;
use super::{ONE, PAGE, family_doubt, is_first, loader, measured, newcomer, pages, reading};

#[test]
fn faults_without_growth_are_in_doubt_and_a_measurement_tells_how_many_were_copies() {
    let mut holdings = loader(1);
    assert!(family_doubt(&holdings) < 2 * PAGE);
    holdings.count_faults(2, 100, false);
    assert_eq!(pages(&mut holdings), 400);
    assert!(family_doubt(&holdings) >= 50 * PAGE);
    // 30 of them were, of 400 pages that two processes share.
    let round = HashMap::from([(1, measured(30, 215)), (2, measured(30, 215))]);
    let begin = holdings.state_of(ONE).unwrap();
    holdings.take_anon(ONE, begin, &round);
    assert_eq!((pages(&mut holdings), family_doubt(&holdings)), (430, 0));
}

#[test]
fn copies_made_while_others_are_measured_stay_in_doubt() {
    let mut holdings = loader(1);
    let begin = holdings.state_of(ONE).unwrap();
    let copier = Measured {
        faults_since_begin: 100,
        ..measured(100, 250)
    };
    // The parent was measured before the child copied a quarter: its share is out of date.
    let round = HashMap::from([(1, measured(0, 200)), (2, copier)]);
    holdings.take_anon(ONE, begin, &round);
    assert!(family_doubt(&holdings) >= 50 * PAGE);
}

/// As read of a worker whose memory was given back in part when its parent's turn came.
#[test]
fn what_a_worker_about_to_go_shared_is_not_counted_beside_its_parents() {
    for leaves in [false, true] {
        let mut holdings = loader(1);
        holdings.update(2, reading(410, 0));
        holdings.count_faults(2, 200, false);
        assert_eq!(pages(&mut holdings), 410);
        let worker = Measured {
            anon_bytes: 410 * PAGE,
            ..measured(10, 210)
        };
        let round = HashMap::from([(1, measured(112, 256)), (2, worker)]);
        let begin = holdings.state_of(ONE).unwrap();
        if leaves {
            holdings.begin_leaving(2);
        }
        holdings.take_anon(ONE, begin, &round);
        assert_eq!(pages(&mut holdings), if leaves { 410 } else { 466 });
        holdings.leave(2);
        assert_eq!(pages(&mut holdings), 400);
    }
}

#[test]
fn freeing_more_than_is_shared_is_no_doubt() {
    let mut holdings = loader(1);
    holdings.update(2, reading(4000, 0));
    holdings.settle();
    let before = family_doubt(&holdings);
    holdings.update(2, reading(400, 0));
    assert!(family_doubt(&holdings) - before <= 200 * PAGE);
}

#[test]
fn what_is_freed_while_others_are_measured_is_not_counted_and_stays_in_doubt() {
    let mut holdings = loader(1);
    holdings.update(2, reading(500, 0));
    holdings.settle();
    let begin = holdings.state_of(ONE).unwrap();
    let child = Measured {
        anon_bytes: 500 * PAGE,
        anon_pss_bytes: 300 * PAGE,
        anon_alone_bytes: 100 * PAGE,
        uses_huge_pages: false,
        faults: None,
        faults_since_begin: 0,
    };
    holdings.update(2, reading(440, 0));
    holdings.take_anon(
        ONE,
        begin,
        &HashMap::from([(1, measured(0, 200)), (2, child)]),
    );
    assert_eq!(pages(&mut holdings), 440);
    assert_eq!(family_doubt(&holdings), 30 * PAGE);
}

#[test]
fn who_joins_during_a_measurement_keeps_what_it_added() {
    let mut holdings = loader(1);
    let begin = holdings.state_of(ONE).unwrap();
    let round = HashMap::from([(1, measured(0, 200)), (2, measured(0, 200))]);
    for pid in 10..20 {
        holdings.join(newcomer(pid, ONE, 410, 0, 10));
    }
    holdings.take_anon(ONE, begin, &round);
    assert_eq!(pages(&mut holdings), 500);
    for pid in 10..20 {
        holdings.leave(pid);
    }
    assert_eq!(pages(&mut holdings), 400);
}

#[test]
fn copies_that_nobody_measured_belong_to_those_whose_faults_may_have_made_them() {
    let mut holdings = loader(2);
    // The elder worker was measured with 30 copies of its own; the younger one has copied since.
    let begin = holdings.state_of(ONE).unwrap();
    let round = HashMap::from([
        (1, measured(0, 138)),
        (2, measured(30, 154)),
        (3, measured(0, 138)),
    ]);
    holdings.take_anon(ONE, begin, &round);
    holdings.count_faults(3, 25, false);
    holdings.families.get_mut(&ONE).unwrap().anon.add(20 * PAGE);
    holdings.settle();
    let mut shares = [0; 3];
    holdings.share_out([1, 2, 3].into_iter(), is_first, |index, bytes| {
        shares[index] = bytes / PAGE;
    });
    // All that exceeds what the parent can hold.
    let total = pages(&mut holdings);
    assert_eq!(shares.iter().sum::<u64>(), total);
    assert_eq!(shares, [400, 30, total - 430]);
    assert!(shares[2] > 0);
}

#[test]
fn a_correction_for_the_bias_is_no_process_s_memory() {
    /// Enough to learn from.
    const MUCH: u64 = 1024;
    let mut holdings = loader(2);
    // Twice in a row, half of what was in doubt turned out to be there.
    for _ in 0..2 {
        let family = holdings.families.get_mut(&ONE).unwrap();
        let before = family.anon.bytes();
        let begin = family.anon.open();
        family.anon.measured(before, begin);
        family.doubt(MUCH * PAGE);
        let begin = family.anon.open();
        let by_laws = family.anon.bytes();
        family.anon.measured(by_laws + MUCH * PAGE / 2, begin);
        family.anon.remove(MUCH * PAGE / 2);
    }
    let total = pages(&mut holdings);
    holdings.families.get_mut(&ONE).unwrap().doubt(16 * PAGE);
    let shares = |holdings: &Holdings| {
        let mut shares = [0; 3];
        holdings.share_out([1, 2, 3].into_iter(), is_first, |index, bytes| {
            shares[index] = bytes / PAGE;
        });
        shares
    };
    assert_eq!(pages(&mut holdings), total + 8, "the tree has more");
    assert_eq!(shares(&holdings), [total, 0, 0]);
    // One that has copied since may have some of it.
    holdings.count_faults(3, 5, false);
    assert_eq!(shares(&holdings), [total, 0, 5]);
}

#[test]
fn a_rest_is_given_to_somebody_unless_it_is_small() {
    let shares = |rest: u64, parents: &[u32]| {
        let mut holdings = loader(2);
        holdings
            .families
            .get_mut(&ONE)
            .unwrap()
            .anon
            .add(rest * PAGE);
        holdings.settle();
        let mut shares = [0; 3];
        holdings.share_out(
            [1, 2, 3].into_iter(),
            |pid| parents.contains(&pid),
            |index, bytes| {
                shares[index] = bytes / PAGE;
            },
        );
        shares
    };
    assert_eq!(shares(15, &[1]), [400, 0, 0]);
    // Copied by a child while its siblings were measured, or shared by one with children of its own.
    assert_eq!(shares(40, &[1]), [400, 0, 40]);
    assert_eq!(shares(40, &[1, 2]), [400, 40, 0]);
}

#[test]
fn who_is_found_right_after_a_measurement_may_have_divided_the_shares() {
    let doubt_of_a_newcomer = |looked_since: bool| {
        let mut holdings = loader(1);
        let begin = holdings.state_of(ONE).unwrap();
        // The child has copied everything, and has a child of its own that nobody has found yet: it halves its share.
        let round = HashMap::from([(1, measured(400, 400)), (2, measured(0, 200))]);
        holdings.take_anon(ONE, begin, &round);
        if looked_since {
            holdings.end_look();
        }
        let before = family_doubt(&holdings);
        let grandchild = NewProcess {
            parent: 2,
            ..newcomer(3, ONE, 400, 0, 0)
        };
        holdings.join(grandchild);
        (family_doubt(&holdings) - before) / PAGE
    };
    assert!(doubt_of_a_newcomer(false) >= 200);
    // Nobody was on the way: the next fork adds nothing.
    assert!(doubt_of_a_newcomer(true) < 10);
}

#[test]
fn faults_counted_between_a_measurement_and_its_end_stay_claimed() {
    let mut holdings = loader(1);
    let begin = holdings.state_of(ONE).unwrap();
    let read = |faults| Measured {
        faults: Some(faults),
        ..measured(0, 200)
    };
    let round = HashMap::from([(1, read(500)), (2, read(0))]);
    // The child was read, then copied 100 pages, and its faults were counted before the others had been read.
    holdings.count_faults(2, 100, false);
    holdings.take_anon(ONE, begin, &round);
    let claims = |holdings: &Holdings| holdings.family_claims()[&ONE] / PAGE;
    assert_eq!(claims(&holdings), 100);
    // They are not counted twice.
    holdings.count_faults(2, 100, false);
    assert_eq!(claims(&holdings), 100);
}

#[test]
fn memory_that_came_and_went_explains_its_faults() {
    let mut holdings = loader(1);
    for round in 1..=10 {
        holdings.update(1, reading(500, 0));
        holdings.update(1, reading(400, 0));
        holdings.count_faults(1, 500 + round * 100, false);
        assert_eq!(pages(&mut holdings), 400);
    }
}

#[test]
fn growth_in_huge_pages_explains_few_faults() {
    let mut holdings = loader(1);
    holdings.update(2, reading(400 + 4096, 0));
    // Eight faults for huge pages, a hundred that copied.
    assert!(holdings.count_faults(2, 108, false).doubted_bytes >= 45 * PAGE);
    let mut small = loader(1);
    small.update(2, reading(500, 0));
    assert_eq!(small.count_faults(2, 100, false), FaultEvidence::default());
}

#[test]
fn strangers_do_not_divide_what_the_tree_holds() {
    let mut holdings = loader(1);
    // A third process outside the tree holds the same pages: a third of 400 each.
    let third = Measured {
        anon_bytes: 400 * PAGE,
        anon_pss_bytes: 133 * PAGE,
        anon_alone_bytes: 0,
        uses_huge_pages: false,
        faults: None,
        faults_since_begin: 0,
    };
    let begin = holdings.state_of(ONE).unwrap();
    holdings.take_anon(ONE, begin, &HashMap::from([(1, third), (2, third)]));
    assert_eq!(pages(&mut holdings), 400);
}
