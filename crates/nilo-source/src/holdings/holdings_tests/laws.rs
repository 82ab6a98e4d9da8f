//! Whatever happens to a tree, it holds at least its largest process and at most the sum.

use proptest::prelude::*;

use super::super::*;
use super::{PAGE, is_first, newcomer, pages, reading};

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
