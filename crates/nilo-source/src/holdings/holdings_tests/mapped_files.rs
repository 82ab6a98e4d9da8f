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
        plain: Some(1),
        ..CountedFiles::default()
    };
    holdings.take_files(&plain, holdings.file_doubt());
    assert_eq!(pages(&mut holdings), 310);
}
