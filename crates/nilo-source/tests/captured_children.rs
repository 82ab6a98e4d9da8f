//! CPU time of children in captured trees: each nanosecond counts once, whoever waited for it and whoever saw it.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use nilo_source::{ProcessTree, TreeOptions};
use proptest::prelude::*;
use support::Ticker;
use support::kernel_model::{INIT, KernelModel, TICK};

const ROOT: u32 = 100;
const REAPER: u32 = 50;

/// A kernel, a tree that watches [`ROOT`] in it, and a clock.
struct Watched {
    kernel: KernelModel,
    tree: ProcessTree,
    ticker: Ticker,
}

impl Watched {
    /// `nilo watch`: orphans go to a stranger.
    fn attached() -> Watched {
        Watched::with_reaper(INIT, None)
    }

    /// `nilo run`: orphans come to us.
    fn started() -> Watched {
        Watched::with_reaper(REAPER, Some(REAPER))
    }

    fn with_reaper(reaper: u32, ours: Option<u32>) -> Watched {
        let mut kernel = KernelModel::new(reaper);
        kernel.fork(reaper, ROOT);
        let options = TreeOptions {
            include_orphans_of: ours,
            exclude_pid: ours,
            ..TreeOptions::default()
        };
        let mut tree = ProcessTree::new(&kernel.roots(), options).unwrap();
        tree.add_root(ROOT).unwrap();
        let mut watched = Watched {
            kernel,
            tree,
            ticker: Ticker::new(),
        };
        watched.tick();
        watched
    }

    /// Ticks once, and says what was counted in ticks of `stat`.
    fn tick(&mut self) -> u64 {
        let before = self.tree.cpu_nanos_total();
        self.ticker.tick(&mut self.tree);
        let counted = self.tree.cpu_nanos_total();
        assert!(counted >= before, "it fell from {before} to {counted}");
        assert!(counted <= self.kernel.used_nanos());
        counted / TICK
    }

    /// Ticks for more than a second, in which everybody who ran is asked.
    fn settle(&mut self) -> u64 {
        for _ in 0..15 {
            self.tick();
        }
        self.tick()
    }

    /// Somebody who waits has run.
    fn wait_for(&mut self, pid: u32, parent: u32) {
        self.kernel.wait_for(pid);
        self.kernel.burn(parent, 1);
    }
}

#[test]
fn a_child_that_nobody_saw_counts_when_it_was_waited_for() {
    let mut watched = Watched::attached();
    watched.kernel.burn(ROOT, 1);
    watched.kernel.short_child(ROOT, 30);
    assert_eq!(watched.tick(), 31);
    assert_eq!(watched.tick(), 31);
}

#[test]
fn a_child_that_was_seen_counts_once_with_its_last_moments() {
    let mut watched = Watched::attached();
    watched.kernel.fork(ROOT, 101);
    watched.kernel.burn(101, 50);
    assert_eq!(watched.tick(), 50);
    watched.kernel.burn(101, 7);
    watched.kernel.end(101);
    watched.wait_for(101, ROOT);
    assert_eq!(watched.tick(), 58);
    assert_eq!(watched.settle(), 58);
}

#[test]
fn parents_that_end_together_with_their_children_hand_on_both() {
    // From the child upwards and all at once; seen in another order than they were born.
    for waits_for_child in [true, false] {
        let mut watched = Watched::attached();
        watched.kernel.fork(ROOT, 103);
        watched.kernel.fork(103, 102);
        watched.kernel.fork(102, 101);
        (101..=103).for_each(|pid| watched.kernel.burn(pid, 100));
        assert_eq!(watched.tick(), 300);
        (101..=103).for_each(|pid| watched.kernel.burn(pid, 2));
        if waits_for_child {
            for (pid, parent) in [(101, 102), (102, 103), (103, ROOT)] {
                watched.kernel.end(pid);
                watched.wait_for(pid, parent);
            }
            // And each who waited has used a tick for it.
            assert_eq!(watched.settle(), 309);
        } else {
            // The topmost first: the others are orphans, and a stranger waits for them.
            for pid in [103, 102, 101] {
                watched.kernel.end(pid);
            }
            watched.kernel.wait_for(101);
            watched.kernel.wait_for(102);
            watched.wait_for(103, ROOT);
            // What the orphans used since the last look is nobody's to tell; of 103 it is, but ROOT may have waited for them.
            let counted = watched.settle();
            assert!((301..=303).contains(&counted), "{counted}");
        }
    }
}

#[test]
fn zombies_do_not_hide_what_others_used() {
    let mut watched = Watched::attached();
    watched.kernel.fork(ROOT, 101);
    watched.kernel.burn(101, 100);
    watched.tick();
    watched.kernel.end(101);
    assert_eq!(watched.tick(), 100);
    for round in 1..=3 {
        watched.kernel.burn(ROOT, 1);
        watched.kernel.short_child(ROOT, 40);
        assert_eq!(watched.tick(), 100 + 41 * round);
    }
    watched.wait_for(101, ROOT);
    watched.kernel.short_child(ROOT, 5);
    assert_eq!(watched.settle(), 100 + 123 + 6);
}

#[test]
fn children_whose_end_nobody_waits_for_keep_their_time_and_hide_none() {
    let mut watched = Watched::attached();
    watched.kernel.ignore_children(ROOT);
    for pid in 101..=110 {
        watched.kernel.fork(ROOT, pid);
        watched.kernel.burn(pid, 30);
        watched.tick();
        watched.kernel.end(pid);
        watched.tick();
    }
    assert_eq!(watched.settle(), 300);
}

#[test]
fn orphans_keep_their_time_where_a_stranger_waits_for_them() {
    let mut watched = Watched::attached();
    watched.kernel.fork(ROOT, 101);
    watched.kernel.fork(101, 102);
    watched.kernel.burn(102, 80);
    watched.tick();
    watched.kernel.end(101);
    watched.wait_for(101, ROOT);
    watched.tick();
    watched.kernel.end(102);
    watched.kernel.wait_for(102);
    assert_eq!(watched.settle(), 81);
    // Nothing is owed for it.
    watched.kernel.burn(ROOT, 1);
    watched.kernel.short_child(ROOT, 60);
    assert_eq!(watched.settle(), 142);
}

#[test]
fn orphans_that_come_to_us_count_once_seen_or_not() {
    let mut watched = Watched::started();
    watched.kernel.fork(ROOT, 101);
    watched.kernel.fork(101, 102);
    watched.kernel.fork(101, 103);
    watched.kernel.burn(102, 80);
    watched.tick();
    watched.kernel.end(101);
    watched.wait_for(101, ROOT);
    watched.tick();
    watched.kernel.burn(102, 20);
    watched.kernel.end(102);
    watched.kernel.wait_for(102);
    assert_eq!(watched.settle(), 101);
    watched.kernel.short_child(REAPER, 40);
    assert_eq!(watched.settle(), 141);
}

#[test]
fn a_tree_that_is_killed_at_once_counts_once() {
    let mut watched = Watched::started();
    for (parent, pid) in [(ROOT, 101), (101, 102), (101, 103), (103, 104)] {
        watched.kernel.fork(parent, pid);
    }
    let all = [ROOT, 101, 102, 103, 104];
    for pid in all {
        watched.kernel.burn(pid, 100);
    }
    assert_eq!(watched.tick(), 500);
    for pid in all {
        watched.kernel.burn(pid, 4);
        watched.kernel.end(pid);
    }
    for pid in all {
        watched.kernel.wait_for(pid);
    }
    watched.tree.be_thorough();
    let counted = watched.settle();
    assert!((500..=520).contains(&counted), "{counted}");
}

#[test]
fn what_a_process_used_before_it_joined_is_left_out_also_when_it_is_waited_for() {
    let mut watched = Watched::attached();
    watched.kernel.fork(INIT, 200);
    watched.kernel.fork(200, 201);
    watched.kernel.burn(200, 70);
    watched.kernel.burn(201, 90);
    watched.kernel.short_child(200, 500);
    watched.kernel.forget_used();
    watched.tree.add_root(200).unwrap();
    assert_eq!(watched.tick(), 0);
    watched.kernel.burn(201, 5);
    assert_eq!(watched.tick(), 5);
    watched.kernel.end(201);
    watched.wait_for(201, 200);
    watched.kernel.short_child(200, 30);
    assert_eq!(watched.settle(), 36);
}

/// Something that happens in the modelled kernel.
#[derive(Debug, Clone)]
enum Happening {
    Fork(usize, u32),
    Burn(usize, u64),
    ShortChild(usize, u64),
    End(usize),
    Wait(usize),
    IgnoreChildren(usize),
    Tick,
}

fn happening() -> impl Strategy<Value = Happening> {
    let who = 0..64usize;
    prop_oneof![
        4 => (who.clone(), 101..160u32).prop_map(|(who, pid)| Happening::Fork(who, pid)),
        6 => (who.clone(), 1..200u64).prop_map(|(who, ticks)| Happening::Burn(who, ticks)),
        3 => (who.clone(), 1..300u64).prop_map(|(who, ticks)| Happening::ShortChild(who, ticks)),
        3 => who.clone().prop_map(Happening::End),
        4 => who.clone().prop_map(Happening::Wait),
        1 => who.prop_map(Happening::IgnoreChildren),
        6 => Just(Happening::Tick),
    ]
}

/// Plays one, if it can happen; who waits has run.
fn play(watched: &mut Watched, happening: &Happening, waits_at_once: bool) {
    let kernel = &mut watched.kernel;
    let of = |alive: bool, who: usize| {
        let found: Vec<u32> = (ROOT..160)
            .filter(|pid| kernel.exists(*pid) && kernel.is_alive(*pid) == alive)
            .collect();
        (!found.is_empty()).then(|| found[who % found.len()])
    };
    match *happening {
        Happening::Fork(who, pid) => {
            if let Some(parent) = of(true, who)
                && !kernel.exists(pid)
            {
                kernel.fork(parent, pid);
            }
        }
        Happening::Burn(who, ticks) => {
            if let Some(pid) = of(true, who) {
                kernel.burn(pid, ticks);
            }
        }
        Happening::ShortChild(who, ticks) => {
            if let Some(pid) = of(true, who) {
                kernel.burn(pid, 1);
                kernel.short_child(pid, ticks);
            }
        }
        Happening::End(who) => {
            if let Some(pid) = of(true, who).filter(|pid| *pid != ROOT) {
                kernel.end(pid);
            }
        }
        Happening::Wait(who) => {
            if let Some(pid) = of(false, who) {
                let parent = kernel.parent_of(pid);
                kernel.wait_for(pid);
                kernel.burn_unless_reaper(parent, 1);
            }
        }
        Happening::IgnoreChildren(who) => {
            if let Some(pid) = of(true, who)
                && !waits_at_once
            {
                kernel.ignore_children(pid);
            }
        }
        Happening::Tick => {
            watched.tick();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// `tick` asserts that the total never falls and never exceeds what was used.
    #[test]
    fn nothing_counts_twice(happenings in prop::collection::vec(happening(), 1..80), ours: bool) {
        let mut watched = if ours { Watched::started() } else { Watched::attached() };
        for happening in &happenings {
            play(&mut watched, happening, false);
        }
        watched.settle();
    }

    /// Where everybody's children come to somebody whose account is read, next to nothing is missing.
    #[test]
    fn nothing_is_missing_where_everybody_is_waited_for(happenings in prop::collection::vec(happening(), 1..80)) {
        let mut watched = Watched::started();
        for happening in &happenings {
            play(&mut watched, happening, true);
            // Looked at after each: so nobody ends together with its parent.
            watched.tick();
        }
        let counted = watched.settle();
        let used = watched.kernel.used_nanos() / TICK;
        // Two ticks for each account: what may have been cut off.
        prop_assert!(counted + 2 * 61 >= used, "{counted} of {used}");
    }
}
