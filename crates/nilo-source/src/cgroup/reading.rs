//! The files of a memory cgroup, parsed. Pure functions over arbitrary bytes.

use nilo_sample::limit::NO_LIMIT_FROM;

use crate::kernel_text::{number, take_number};

/// What a memory cgroup says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupReading {
    /// Everything charged to it, page cache included.
    pub usage_bytes: Option<u64>,
    /// Usage less inactive file pages, which the kernel takes back before it kills; shared memory stays in.
    pub working_set_bytes: Option<u64>,
    /// The kernel's high-water mark of usage.
    pub peak_bytes: Option<u64>,
    /// Its own limit; the one in force may be an ancestor's.
    pub limit_bytes: Option<u64>,
    /// Anonymous memory.
    pub anon_bytes: Option<u64>,
    /// Page cache, shared memory included.
    pub file_bytes: Option<u64>,
    /// Shared memory and tmpfs.
    pub shmem_bytes: Option<u64>,
    /// Memory in swap.
    pub swap_bytes: Option<u64>,
    /// OOM kills in it and below, since it was made.
    pub oom_kills: Option<u64>,
    /// How often usage was about to exceed the limit; version 2 only (`memory.failcnt` of version 1 stays 0).
    pub limit_hits: Option<u64>,
}

/// The parts of `memory.stat` that are used; of version 1 the `total_` lines, which include the cgroups below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MemoryStat {
    pub(crate) anon_bytes: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) shmem_bytes: Option<u64>,
    pub(crate) swap_bytes: Option<u64>,
    pub(crate) inactive_file_bytes: Option<u64>,
}

pub(crate) fn parse_memory_stat(text: &[u8], version: u8) -> MemoryStat {
    let mut stat = MemoryStat::default();
    for line in text.split(|byte| *byte == b'\n') {
        let Some(blank) = line.iter().position(|byte| *byte == b' ') else {
            continue;
        };
        let (key, value) = (&line[..blank], &line[blank..]);
        let slot = match (version, key) {
            (1, b"total_rss") | (2, b"anon") => &mut stat.anon_bytes,
            (1, b"total_cache") | (2, b"file") => &mut stat.file_bytes,
            (1, b"total_shmem") | (2, b"shmem") => &mut stat.shmem_bytes,
            (1, b"total_swap") => &mut stat.swap_bytes,
            (1, b"total_inactive_file") | (2, b"inactive_file") => &mut stat.inactive_file_bytes,
            _ => continue,
        };
        *slot = number(value);
    }
    stat
}

/// A limit; `max` and numbers too large to mean anything are none.
pub(crate) fn parse_limit(text: &[u8]) -> Option<u64> {
    let (limit, rest) = take_number(text)?;
    let is_whole = rest.iter().all(u8::is_ascii_whitespace);
    (is_whole && limit < NO_LIMIT_FROM).then_some(limit)
}

/// The number on the line of this key, of `memory.events` and `memory.oom_control`.
pub(crate) fn parse_count(text: &[u8], key: &str) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        // The blank keeps `oom_kill` apart from `oom_kill_disable`.
        number(line.strip_prefix(key.as_bytes())?.strip_prefix(b" ")?)
    })
}

/// Usage less what can be dropped at once.
pub(crate) fn working_set(usage: Option<u64>, inactive_file: Option<u64>) -> Option<u64> {
    Some(usage?.saturating_sub(inactive_file?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_limit_has_two_spellings() {
        assert_eq!(parse_limit(b"max\n"), None);
        assert_eq!(parse_limit(b"9223372036854771712\n"), None);
        assert_eq!(parse_limit(b"209715200\n"), Some(209_715_200));
        assert_eq!(parse_limit(b"12 apples"), None);
    }

    #[test]
    fn version_one_counts_the_cgroups_below() {
        let text =
            b"cache 1\nrss 2\ntotal_cache 10\ntotal_rss 20\ntotal_shmem 5\ntotal_inactive_file 7\n";
        let stat = parse_memory_stat(text, 1);
        assert_eq!(stat.anon_bytes, Some(20));
        assert_eq!(stat.file_bytes, Some(10));
        assert_eq!(stat.inactive_file_bytes, Some(7));
        assert_eq!(stat.swap_bytes, None);
    }

    #[test]
    fn one_event_is_not_taken_for_another() {
        let text = b"low 0\nhigh 3\nmax 35\noom 1\noom_kill 2\noom_group_kill 4\n";
        assert_eq!(parse_count(text, "oom_kill"), Some(2));
        assert_eq!(parse_count(text, "max"), Some(35));
        assert_eq!(
            parse_count(b"oom_kill_disable 0\noom_kill 9\n", "oom_kill"),
            Some(9)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse_memory_stat(&text, 1);
            let _ = parse_memory_stat(&text, 2);
            let _ = parse_limit(&text);
            let _ = parse_count(&text, "oom_kill");
        }

        #[test]
        fn the_working_set_lies_between_nothing_and_usage(usage: u64, inactive: u64) {
            let set = working_set(Some(usage), Some(inactive)).unwrap();
            prop_assert!(set <= usage);
        }
    }
}
