//! What a process tree holds: families of forked processes, by what is measured, mapped, too short-lived, and true of any tree.

mod laws;
mod mapped_files;
mod measurements;
mod short_lived;

use super::*;

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
        mapped_twice_bytes: None,
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
fn a_child_that_copied_before_it_was_seen_is_counted_with_its_copies() {
    let mut holdings = loader(0);
    holdings.join(newcomer(2, ONE, 400, 32, 62));
    // Two faults mapped the pages of files.
    assert_eq!(pages(&mut holdings), 400 + 60 + 32);
}

/// As read of a worker on a busy machine: 63 MiB of shared memory took it 1,353 faults where 1,008 would do.
#[test]
fn a_child_whose_faults_may_have_mapped_shared_memory_one_by_one_has_not_copied_as_much() {
    let (anon, buffer) = (1_682, 20_480);
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, anon, buffer, 30_000));
    holdings.join(newcomer(2, ONE, anon, 16_128, 1_353));
    assert_eq!(pages(&mut holdings), anon + buffer + 32);
    assert!(family_doubt(&holdings) >= (1_353 - 1_008) / 2 * PAGE);
}

/// As read of a worker that took 976 KiB and copied some 80 pages, of a parent in huge pages.
#[test]
fn growth_of_a_child_is_not_taken_for_copies_where_its_parent_has_huge_pages() {
    let (before, anon) = (1_000, 27_571);
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, before, 0, before));
    holdings.update(1, reading(anon, 0));
    holdings.count_faults(1, before + 100, false);
    holdings.join(newcomer(2, ONE, anon + 244, 1_126, 384));
    assert!((anon + 244 + 1_126..anon + 244 + 1_126 + 80).contains(&pages(&mut holdings)));
    assert!(family_doubt(&holdings) >= 70 / 2 * PAGE);
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
fn memory_that_a_parent_frees_stays_while_a_child_has_it() {
    let mut holdings = loader(2);
    holdings.update(1, reading(50, 0));
    assert_eq!(pages(&mut holdings), 400);
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
