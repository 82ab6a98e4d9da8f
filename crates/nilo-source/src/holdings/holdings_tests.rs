use super::*;
use proptest::prelude::*;

const PAGE: u64 = 4096;
const ONE: FamilyKey = FamilyKey::Layout(1);

fn reading(anon_pages: u64, file_pages: u64) -> ProcessReading {
    ProcessReading {
        rss_bytes: (anon_pages + file_pages) * PAGE,
        shared_bytes: file_pages * PAGE,
        ..ProcessReading::default()
    }
}

fn newcomer(
    pid: u32,
    family: FamilyKey,
    anon_pages: u64,
    file_pages: u64,
    faults: u64,
) -> NewProcess {
    NewProcess {
        pid,
        parent: 1,
        family,
        reading: reading(anon_pages, file_pages),
        faults,
        is_newborn: true,
    }
}

fn pages(holdings: &mut Holdings) -> u64 {
    holdings.settle();
    holdings.bytes() / PAGE
}

/// A parent of 400 pages and so many forked workers.
fn loader(workers: u32) -> Holdings {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 400, 0, 500));
    holdings.settle();
    for pid in 2..2 + workers {
        holdings.join(newcomer(pid, ONE, 400, 0, 0));
        holdings.settle();
    }
    holdings
}

#[test]
fn a_fork_adds_nothing_and_an_exit_removes_only_what_was_held_alone() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 400, 0, 500));
    for epoch in 0..3 {
        for worker in 0..6 {
            holdings.join(newcomer(10 * epoch + 10 + worker, ONE, 400, 0, 0));
        }
        assert_eq!(pages(&mut holdings), 400);
        for worker in 0..6 {
            holdings.update(10 * epoch + 10 + worker, reading(410, 0));
        }
        assert_eq!(pages(&mut holdings), 460);
        for worker in 0..6 {
            holdings.leave(10 * epoch + 10 + worker);
        }
        assert_eq!(pages(&mut holdings), 400);
    }
}

/// The first process has all the others as its children.
fn is_first(pid: u32) -> bool {
    pid == 1
}

#[test]
fn siblings_that_grew_before_they_were_seen_are_children_of_their_parent() {
    let mut holdings = loader(0);
    for pid in 2..8 {
        holdings.join(newcomer(pid, ONE, 410, 0, 10));
    }
    assert_eq!(pages(&mut holdings), 460);
    let mut added = Vec::new();
    holdings.share_out(1..8, is_first, |_, bytes| added.push(bytes / PAGE));
    assert_eq!(added, [400, 10, 10, 10, 10, 10, 10]);
}

#[test]
fn a_parent_that_ends_first_leaves_its_memory_to_its_children() {
    let mut holdings = loader(2);
    holdings.leave(1);
    assert_eq!(pages(&mut holdings), 400);
    holdings.leave(2);
    assert_eq!(pages(&mut holdings), 400);
    holdings.leave(3);
    assert_eq!(pages(&mut holdings), 0);
}

fn measured(alone: u64, pss: u64) -> Measured {
    Measured {
        anon_bytes: 400 * PAGE,
        anon_pss_bytes: pss * PAGE,
        anon_alone_bytes: alone * PAGE,
        uses_huge_pages: false,
        faults: None,
        faults_since_begin: 0,
    }
}

fn family_doubt(holdings: &Holdings) -> u64 {
    holdings.family_doubts().map(|(_, doubt)| doubt).sum()
}

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
fn a_child_that_copied_before_it_was_seen_is_counted_with_its_copies() {
    let mut holdings = loader(0);
    holdings.join(newcomer(2, ONE, 400, 32, 62));
    // Two faults mapped the pages of files.
    assert_eq!(pages(&mut holdings), 400 + 60 + 32);
}

#[test]
fn who_was_read_before_it_forked_is_not_counted_beside_its_child() {
    let mut holdings = loader(0);
    let begin = holdings.state_of(ONE).unwrap();
    // The parent was read, forked, and its child was read.
    holdings.join(newcomer(2, ONE, 400, 0, 0));
    let round = HashMap::from([(1, measured(400, 400)), (2, measured(0, 200))]);
    holdings.take_anon(ONE, begin, &round);
    assert!(pages(&mut holdings) <= 402, "{}", pages(&mut holdings));
}

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
    holdings.count_faults(5, COPIES, true);
    assert_eq!(pages(&mut holdings), MANY + COPIES);
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

#[test]
fn exec_leaves_the_family_and_starts_anew() {
    let mut holdings = loader(1);
    holdings.exec(2, FamilyKey::Layout(2), 0);
    holdings.update(2, reading(5, 0));
    assert_eq!(pages(&mut holdings), 405);
    holdings.leave(1);
    assert_eq!(pages(&mut holdings), 5);
}

#[test]
fn a_child_of_an_unnoticed_exec_shares_with_its_parent() {
    const NEW: FamilyKey = FamilyKey::Layout(2);
    let mut holdings = loader(1);
    // Process 2 has called exec and grown to 300 pages, and its child is seen first.
    holdings.join(newcomer(3, NEW, 300, 0, 0));
    holdings.update(2, reading(310, 0));
    holdings.exec(2, NEW, 0);
    assert_eq!(pages(&mut holdings), 400 + 310);
    assert!(family_doubt(&holdings) >= 150 * PAGE);
}

#[test]
fn growth_in_huge_pages_explains_few_faults() {
    let mut holdings = loader(1);
    holdings.update(2, reading(400 + 4096, 0));
    // Eight faults for huge pages, a hundred that copied.
    assert!(holdings.count_faults(2, 108, false) >= 45 * PAGE);
    let mut small = loader(1);
    small.update(2, reading(500, 0));
    assert_eq!(small.count_faults(2, 100, false), 0);
}

#[test]
fn memory_that_a_parent_frees_stays_while_a_child_has_it() {
    let mut holdings = loader(2);
    holdings.update(1, reading(50, 0));
    assert_eq!(pages(&mut holdings), 400);
}

#[test]
fn a_buffer_that_workers_map_later_counts_once() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 10, 400, 0));
    holdings.join(newcomer(2, FamilyKey::Layout(2), 10, 0, 0));
    holdings.settle();
    holdings.update(2, reading(10, 400));
    assert_eq!(pages(&mut holdings), 420);
    assert!(holdings.file_doubt_bytes() >= 400 * PAGE);
    // They turn out to be other pages.
    let part = MemberShare {
        bytes: 400 * PAGE,
        alone: 300 * PAGE,
    };
    let counted = CountedFiles {
        distinct_bytes: 700 * PAGE,
        held: HashMap::from([(1, part), (2, part)]),
        plain: None,
    };
    holdings.take_files(&counted, holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 720);
    holdings.leave(2);
    assert_eq!(pages(&mut holdings), 410);
}

#[test]
fn a_process_that_left_before_it_could_be_counted_takes_nothing_along() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 10, 400, 0));
    holdings.join(newcomer(2, FamilyKey::Layout(2), 10, 400, 0));
    let count = |distinct: u64, held: &[u32], alone: u64| CountedFiles {
        distinct_bytes: distinct * PAGE,
        held: HashMap::from_iter(held.iter().map(|pid| {
            let part = MemberShare {
                bytes: 400 * PAGE,
                alone: alone * PAGE,
            };
            (*pid, part)
        })),
        plain: None,
    };
    holdings.take_files(&count(700, &[1, 2], 300), holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 720);
    // Its memory is gone already when the next count looks at it.
    holdings.take_files(&count(400, &[1], 400), holdings.file_doubt());
    holdings.leave(2);
    assert_eq!(pages(&mut holdings), 410);
}

#[test]
fn whoever_leaves_after_another_may_have_become_the_only_holder() {
    let mut holdings = loader(3);
    holdings.leave(2);
    let before = family_doubt(&holdings);
    holdings.leave(3);
    assert!(family_doubt(&holdings) >= before + 100 * PAGE);
}

#[test]
fn a_file_that_one_process_maps_twice_counts_once() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 10, 600, 0));
    holdings.join(newcomer(2, FamilyKey::Layout(2), 10, 0, 0));
    let half = MemberShare {
        bytes: 300 * PAGE,
        alone: 300 * PAGE,
    };
    let counted = CountedFiles {
        distinct_bytes: 300 * PAGE,
        held: HashMap::from([(1, half), (2, MemberShare::default())]),
        plain: None,
    };
    holdings.take_files(&counted, holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 320);
    holdings.update(1, reading(10, 650));
    assert_eq!(pages(&mut holdings), 370);
    let before = holdings.file_doubt_bytes();
    holdings.update(1, reading(10, 400));
    assert_eq!(pages(&mut holdings), 370);
    // It may as well have unmapped what it had mapped once.
    assert!(holdings.file_doubt_bytes() >= before + 250 * PAGE);
}

#[test]
fn a_process_alone_is_its_rss_less_what_it_maps_twice() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 100, 50, 0));
    holdings.settle();
    for (anon, file) in [(400, 50), (10, 5), (10, 300)] {
        holdings.update(1, reading(anon, file));
        assert_eq!(pages(&mut holdings), anon + file);
    }
    assert_eq!(holdings.family_doubts().next().unwrap().1, 0);
    assert!(holdings.file_doubt_bytes() >= 295 * PAGE);
    let twice = MemberShare {
        bytes: 200 * PAGE,
        alone: 200 * PAGE,
    };
    let counted = CountedFiles {
        distinct_bytes: 200 * PAGE,
        held: HashMap::from([(1, twice)]),
        plain: None,
    };
    holdings.take_files(&counted, holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 210);
    assert_eq!(holdings.file_doubt_bytes(), 0);
    // No longer: what RSS says counts again.
    let plain = CountedFiles {
        plain: Some(1),
        ..CountedFiles::default()
    };
    holdings.take_files(&plain, holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 310);
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

/// What may happen to a tree.
#[derive(Debug, Clone)]
enum Happening {
    Fork(u32),
    Exit(u32),
    Exec(u32),
    Become(u32, u64, u64),
    Fault(u32, u64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let pid = 1..12u32;
    prop_oneof![
        pid.clone().prop_map(Happening::Fork),
        pid.clone().prop_map(Happening::Exit),
        pid.clone().prop_map(Happening::Exec),
        (pid.clone(), 0..500u64, 0..500u64)
            .prop_map(|(pid, anon, file)| Happening::Become(pid, anon, file)),
        (pid, 0..300u64).prop_map(|(pid, count)| Happening::Fault(pid, count)),
    ]
}

proptest! {
    #[test]
    fn the_tree_holds_at_least_its_largest_process_and_at_most_the_sum(
        happenings in proptest::collection::vec(happening(), 1..80),
    ) {
        let mut holdings = Holdings::new(PAGE);
        let mut alive: HashMap<u32, (FamilyKey, u64, u64, u64)> = HashMap::new();
        for (time, happening) in happenings.into_iter().enumerate() {
            match happening {
                Happening::Fork(pid) => {
                    let child = 1 + (pid + time as u32) % 11;
                    if alive.contains_key(&child) {
                        continue;
                    }
                    let (family, anon, file, _) = alive.get(&pid).copied().unwrap_or((FamilyKey::Founder(child), 40, 10, 0));
                    holdings.join(newcomer(child, family, anon, file, 0));
                    alive.insert(child, (family, anon, file, 0));
                }
                Happening::Exit(pid) => {
                    alive.remove(&pid);
                    holdings.leave(pid);
                }
                Happening::Exec(pid) => {
                    let family = FamilyKey::Layout(1000 + time as u64);
                    holdings.exec(pid, family, 0);
                    if let Some(process) = alive.get_mut(&pid) {
                        process.0 = family;
                    }
                }
                Happening::Become(pid, anon, file) => {
                    holdings.update(pid, reading(anon, file));
                    if let Some(process) = alive.get_mut(&pid) {
                        (process.1, process.2) = (anon, file);
                    }
                }
                Happening::Fault(pid, count) => {
                    if let Some(process) = alive.get_mut(&pid) {
                        process.3 += count;
                        holdings.count_faults(pid, process.3, false);
                    }
                }
            }
            let bytes = pages(&mut holdings);
            let sum: u64 = alive.values().map(|process| process.1 + process.2).sum();
            let most = alive.values().map(|process| process.1 + process.2).max().unwrap_or(0);
            prop_assert!((most..=sum).contains(&bytes), "{most} {bytes} {sum}");
            let mut shared_out = 0;
            let mut pids: Vec<u32> = alive.keys().copied().collect();
            pids.sort_unstable();
            holdings.share_out(pids.into_iter(), is_first, |_, bytes| shared_out += bytes);
            // Rounding of scaled parts may lose a byte for each process; small rests are nobody's.
            let least = holdings.bytes() - holdings.bytes() / SMALL_REST_PART - alive.len() as u64;
            prop_assert!((least..=holdings.bytes()).contains(&shared_out));
        }
    }
}
