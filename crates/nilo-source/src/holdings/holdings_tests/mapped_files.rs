//! Pages of files and of shared buffers, which several processes map, or one twice.

use super::super::*;
use super::{ONE, PAGE, newcomer, pages, reading};

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
        plain: Some(PlainFiles {
            pid: 1,
            most_bytes: 400 * PAGE,
        }),
        ..CountedFiles::default()
    };
    holdings.take_files(&plain, holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 310);
}

/// As read of a program that has mapped a file of 400 MiB twice, in the middle of its second `munmap`: one mapping is left.
#[test]
fn pages_of_a_mapping_that_is_being_given_back_are_those_of_the_mapping_that_stays() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 10, 850, 0));
    let held = MemberShare {
        bytes: 430 * PAGE,
        alone: 430 * PAGE,
    };
    let counted = CountedFiles {
        distinct_bytes: 430 * PAGE,
        held: HashMap::from([(1, held)]),
        plain: None,
    };
    holdings.take_files(&counted, holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 440);
    holdings.update(1, reading(10, 610));
    let plain = PlainFiles {
        pid: 1,
        most_bytes: 440 * PAGE,
    };
    let counted = CountedFiles {
        plain: Some(plain),
        ..CountedFiles::default()
    };
    holdings.take_files(&counted, holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 450);
    holdings.update(1, reading(10, 430));
    assert_eq!(pages(&mut holdings), 440);
}

/// What is counted of a process before it would raise the level.
#[test]
fn what_is_counted_as_mapped_twice_before_it_counts_raises_nothing() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 10, 4_000, 0));
    holdings.settle();
    assert!(!holdings.may_count_twice(1, 4_000 * PAGE));
    assert!(holdings.may_count_twice(1, 6_000 * PAGE));
    // Counted a moment later, when even more was mapped.
    holdings.see_mapped_twice(1, 2_500 * PAGE);
    holdings.update(1, reading(10, 6_000));
    assert_eq!(pages(&mut holdings), 4_010);
    assert_eq!(holdings.mapped_twice_bytes(1), 2_000 * PAGE);
    // Nothing is twice of what comes then: it counts, and needs no further proof.
    holdings.see_mapped_twice(1, 2_000 * PAGE);
    holdings.update(1, reading(10, 7_000));
    assert_eq!(pages(&mut holdings), 5_010);
    assert_eq!(holdings.raised_file_bytes(), 0);
}

#[test]
fn a_child_that_has_mapped_twice_what_its_parent_holds_adds_nothing() {
    let mut holdings = Holdings::new(PAGE);
    holdings.join(newcomer(1, ONE, 10, 4_000, 0));
    assert!(holdings.may_count_twice(2, 8_000 * PAGE));
    holdings.join(NewProcess {
        mapped_twice_bytes: Some(4_000 * PAGE),
        ..newcomer(2, ONE, 10, 8_000, 500)
    });
    assert!(pages(&mut holdings) <= 4_010 + 32);
}
