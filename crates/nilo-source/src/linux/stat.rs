//! The texts of `/proc/PID/{statm,stat,status,io,smaps_rollup}`, parsed. Pure functions over arbitrary bytes.

use std::ops::Range;

use crate::kernel_text::{labelled, labelled_kib, number, take_number, words};

/// `/proc/PID/stat`, as far as it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat<'a> {
    /// At most 15 bytes, possibly with spaces, parentheses and newlines.
    pub(crate) comm: &'a [u8],
    /// `R`, `S`, `Z`…
    pub(crate) state: u8,
    pub(crate) parent: u32,
    /// Its process group; zero of kernel threads.
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// Bits of `PF_…` (include/linux/sched.h).
    flags: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) cpu_ticks: u64,
    /// Of the children that it waited for, and of theirs.
    pub(crate) children_ticks: u64,
    pub(crate) threads: u64,
    pub(crate) start_ticks: u64,
    /// Its address space; zero of kernel threads and zombies, which have none.
    pub(crate) virtual_bytes: u64,
    /// To some dozens of pages on recent kernels: zero of a program that has just begun.
    pub(crate) rss_pages: u64,
    /// Where the arguments lie; moves on `exec`. Zero when we may not know.
    pub(crate) arguments_at: u64,
    /// Where the program and its stack begin: drawn anew on `exec`, kept by `fork`.
    starts: (u64, u64),
}

/// Forked, and no `exec` since.
const PF_FORKNOEXEC: u64 = 0x40;

impl Stat<'_> {
    /// Whether the process was forked and has run no other program since.
    pub(crate) fn is_fork(&self) -> bool {
        self.flags & PF_FORKNOEXEC != 0
    }

    /// What tells address spaces apart that do not come from one another by `fork`; `None` when we may not know.
    pub(crate) fn layout(&self) -> Option<u64> {
        let parts = [self.starts.0, self.starts.1, self.arguments_at];
        (self.arguments_at != 0).then(|| {
            parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, part| {
                (hash ^ part)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29)
            })
        })
    }
}

/// Parses `stat`. The name may contain anything, so the last `)` ends it.
pub(crate) fn parse_stat(text: &[u8]) -> Option<Stat<'_>> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let comm = text.get(open + 1..close)?;
    let mut fields = words(&text[close + 1..]);
    let state = *fields.next()?.first()?;
    let mut field = 3;
    // The number in field `wanted`, counted from 1 as the manual does.
    let mut at = |wanted: usize| -> Option<u64> {
        let skipped = wanted.checked_sub(field + 1)?;
        field = wanted;
        number(fields.nth(skipped)?)
    };
    let parent = u32::try_from(at(4)?).ok()?;
    let group = u32::try_from(at(5)?).ok()?;
    let session = u32::try_from(at(6)?).ok()?;
    let flags = at(9)?;
    let minor_faults = at(10)?;
    let major_faults = at(12)?;
    let user_ticks = at(14)?;
    let system_ticks = at(15)?;
    let children_ticks = at(16)?.saturating_add(at(17)?);
    let threads = at(20)?;
    let start_ticks = at(22)?;
    let virtual_bytes = at(23)?;
    let rss_pages = at(24)?;
    let starts = (at(26).unwrap_or(0), at(28).unwrap_or(0));
    let arguments_at = at(48).unwrap_or(0);
    Some(Stat {
        comm,
        state,
        parent,
        group,
        session,
        flags,
        minor_faults,
        major_faults,
        cpu_ticks: user_ticks.saturating_add(system_ticks),
        children_ticks,
        threads,
        start_ticks,
        virtual_bytes,
        rss_pages,
        arguments_at,
        starts,
    })
}

/// Where the arguments of a process lie in its memory, of its `stat`; the kernel tells it only to whom may look there.
pub(crate) fn parse_arguments(text: &[u8]) -> Option<Range<usize>> {
    let close = text.iter().rposition(|byte| *byte == b')')?;
    // Fields 48 and 49; the third one follows the name.
    let mut fields = words(&text[close + 1..]).skip(48 - 3);
    let mut address = || usize::try_from(number(fields.next()?)?).ok();
    let range = address()?..address()?;
    (range.start > 0 && !range.is_empty()).then_some(range)
}

/// Size, resident and shared pages of `statm`; size 0 is a process without memory: a zombie or a kernel thread.
pub(crate) fn parse_statm(text: &[u8]) -> Option<(u64, u64, u64)> {
    let (size, rest) = take_number(text)?;
    let (resident, rest) = take_number(rest)?;
    Some((size, resident, number(rest).unwrap_or(0)))
}

/// What `status` tells of memory, in bytes; kernel threads and dying processes have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StatusMemory {
    /// `VmPeak`
    pub(crate) peak_virtual_bytes: Option<u64>,
    /// `VmHWM`
    pub(crate) peak_rss_bytes: Option<u64>,
    /// `VmRSS`
    pub(crate) rss_bytes: Option<u64>,
    /// `RssAnon`, from Linux 4.5 on.
    pub(crate) anon_bytes: Option<u64>,
    /// `VmData`
    pub(crate) data_bytes: Option<u64>,
    /// `VmSwap`
    pub(crate) swap_bytes: Option<u64>,
}

/// Parses `status`, whose lines of memory end with `VmSwap`.
pub(crate) fn parse_status(text: &[u8]) -> StatusMemory {
    let mut memory = StatusMemory::default();
    for line in text.split(|byte| *byte == b'\n') {
        let Some((label, value)) = line.split_at_checked(7) else {
            continue;
        };
        let field = match label {
            b"VmPeak:" => &mut memory.peak_virtual_bytes,
            b"VmData:" => &mut memory.data_bytes,
            b"VmSwap:" => &mut memory.swap_bytes,
            b"RssAnon" => &mut memory.anon_bytes,
            _ if label.starts_with(b"VmHWM:") => &mut memory.peak_rss_bytes,
            _ if label.starts_with(b"VmRSS:") => &mut memory.rss_bytes,
            _ => continue,
        };
        *field =
            number(value.strip_prefix(b":").unwrap_or(value)).and_then(|kib| kib.checked_mul(1024));
        if label == b"VmSwap:" {
            break;
        }
    }
    memory
}

/// The real user id of `status`.
pub(crate) fn parse_uid(status: &[u8]) -> Option<u32> {
    labelled(status, b"Uid:").and_then(|uid| u32::try_from(uid).ok())
}

/// Bytes read from and written to storage, of `io`.
pub(crate) fn parse_io(text: &[u8]) -> (Option<u64>, Option<u64>) {
    (
        labelled(text, b"read_bytes:"),
        labelled(text, b"write_bytes:"),
    )
}

/// What `smaps_rollup` sums up, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rollup {
    pub(crate) rss_bytes: u64,
    pub(crate) pss_bytes: u64,
    pub(crate) uss_bytes: u64,
    pub(crate) private_dirty_bytes: u64,
    pub(crate) anon_bytes: u64,
    pub(crate) anon_pss_bytes: u64,
    pub(crate) anon_alone_bytes: u64,
    /// Anonymous memory in huge pages, which one fault brings in whole.
    pub(crate) anon_huge_bytes: u64,
}

/// Parses `smaps_rollup`.
pub(crate) fn parse_rollup(text: &[u8]) -> Option<Rollup> {
    let kib = |label: &[u8]| labelled_kib(text, label);
    let (rss_bytes, pss_bytes) = (kib(b"Rss:")?, kib(b"Pss:")?);
    let private_dirty_bytes = kib(b"Private_Dirty:")?;
    let uss_bytes = kib(b"Private_Clean:")?.saturating_add(private_dirty_bytes);
    let anon_bytes = kib(b"Anonymous:").unwrap_or(0).min(rss_bytes);
    // Before Linux 5.14 the share is not told by kind; anonymous pages are dirty, so their share is that of dirty ones.
    let anon_pss_bytes = kib(b"Pss_Anon:")
        .or_else(|| kib(b"Pss_Dirty:"))
        .unwrap_or(pss_bytes);
    let anon_pss_bytes = anon_pss_bytes.min(anon_bytes);
    // Anonymous pages are dirty, but so is shared memory. Each page that is shared counts half or less in the share,
    // so what others hold too is at least, and at most twice, what the share leaves out.
    let left_out = anon_bytes - anon_pss_bytes;
    let shared_dirty = kib(b"Shared_Dirty:").unwrap_or(0);
    // With more than twice, shared memory is in it; then what is private tells more, unless some of that is too.
    let not_private = anon_bytes.saturating_sub(private_dirty_bytes);
    let shared = match shared_dirty > 2 * left_out && not_private >= left_out {
        true => not_private,
        false => shared_dirty,
    };
    let shared = shared.clamp(left_out, 2 * left_out).min(anon_bytes);
    Some(Rollup {
        rss_bytes,
        pss_bytes,
        uss_bytes,
        private_dirty_bytes,
        anon_bytes,
        anon_pss_bytes,
        anon_alone_bytes: anon_bytes - shared,
        anon_huge_bytes: kib(b"AnonHugePages:").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAT: &str = "8899 (a) b\n(c) S 8854 8853 3459 0 -1 4194368 2854 6543 1 0 5 7 6 0 20 0 2 0 101984 92479488 3385 18446744073709551615 94590677835776 94590677836117 140728755158976 0 0 0 0 16781312 2 0 0 0 -1 0 0 0 0 0 0 94590677847472 94590677848088 94591586746368 140728755165427 140728755165478 140728755165478 140728755167183 0\n";

    #[test]
    fn a_name_with_parentheses_and_newlines_does_not_confuse() {
        let stat = parse_stat(STAT.as_bytes()).unwrap();
        assert_eq!(stat.comm, b"a) b\n(c");
        assert_eq!((stat.state, stat.parent, stat.session), (b'S', 8854, 3459));
        assert_eq!((stat.minor_faults, stat.major_faults), (2854, 1));
        assert_eq!((stat.flags, stat.is_fork()), (4_194_368, true));
        assert_eq!((stat.cpu_ticks, stat.children_ticks), (12, 6));
        assert_eq!(stat.threads, 2);
        assert_eq!((stat.start_ticks, stat.rss_pages), (101_984, 3385));
        assert_eq!(stat.arguments_at, 140_728_755_165_427);
    }

    #[test]
    fn a_cut_stat_is_none_or_whole_but_never_a_panic() {
        for end in 0..STAT.len() {
            let _ = parse_stat(&STAT.as_bytes()[..end]);
        }
        assert_eq!(parse_stat(b")("), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn status_of_a_kernel_thread_has_no_memory() {
        assert_eq!(
            parse_status(b"Name:\tkthreadd\nUid:\t0\t0\t0\t0\n"),
            StatusMemory::default()
        );
        assert_eq!(parse_uid(b"Name:\tx\nUid:\t7\t8\t9\t10\n"), Some(7));
        let text =
            b"VmPeak:\t 900 kB\nVmHWM:\t 100 kB\nVmRSS:\t 90 kB\nRssAnon:\t 60 kB\nRssFile:\t 30 kB\nVmData:\t 7 kB\nVmSwap:\t 3 kB\nVmPeak:\t 1 kB\n";
        let expected = StatusMemory {
            peak_virtual_bytes: Some(921_600),
            peak_rss_bytes: Some(102_400),
            rss_bytes: Some(92_160),
            anon_bytes: Some(61_440),
            data_bytes: Some(7168),
            swap_bytes: Some(3072),
        };
        assert_eq!(parse_status(text), expected);
    }

    #[test]
    fn rollup_adds_private_pages() {
        let text = b"00-ff ---p 00 00:00 0 [rollup]\nRss: 10 kB\nPss: 7 kB\nPss_Dirty: 1 kB\nPrivate_Clean: 2 kB\nPrivate_Dirty: 3 kB\n";
        let rollup = parse_rollup(text).unwrap();
        assert_eq!(
            (rollup.rss_bytes, rollup.pss_bytes, rollup.uss_bytes),
            (10_240, 7168, 5120)
        );
        assert_eq!(rollup.private_dirty_bytes, 3072);
        assert_eq!(parse_rollup(b""), None);
    }

    #[test]
    fn rollup_tells_anonymous_memory_that_is_not_private() {
        let text = b"Rss: 110 kB\nPss: 60 kB\nPss_Anon: 50 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: 10 kB\nShared_Clean: 10 kB\nShared_Dirty: 90 kB\nAnonymous: 90 kB\n";
        let rollup = parse_rollup(text).unwrap();
        // 90 less twice 40: shared memory is dirty too, and only 80 can be shared by two or more.
        assert_eq!(
            (rollup.anon_bytes, rollup.anon_alone_bytes),
            (92_160, 10_240)
        );
    }

    #[test]
    fn what_one_of_many_workers_copied_is_told_beside_shared_memory() {
        // Of a worker among forty that have mapped 80 MiB of shared memory.
        let text = b"Rss: 91516 kB\nPss: 2500 kB\nPss_Anon: 352 kB\nPss_Shmem: 1998 kB\nShared_Clean: 2868 kB\nShared_Dirty: 88454 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: 194 kB\nAnonymous: 6728 kB\n";
        assert_eq!(parse_rollup(text).unwrap().anon_alone_bytes, 194 << 10);
        // Where the worker has mapped some that nobody else has, that is private as well, and tells nothing.
        let text = b"Rss: 20 kB\nPss: 20 kB\nPss_Anon: 5 kB\nShared_Dirty: 30 kB\nPrivate_Clean: 0 kB\nPrivate_Dirty: 10 kB\nAnonymous: 10 kB\n";
        assert_eq!(parse_rollup(text).unwrap().anon_alone_bytes, 0);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse_stat(&text);
            let _ = parse_statm(&text);
            let _ = parse_status(&text);
            let _ = parse_uid(&text);
            let _ = parse_io(&text);
            let _ = parse_rollup(&text);
        }

        #[test]
        fn any_name_is_found_whole(comm in "[^\0]{0,15}") {
            let text = format!("1 ({comm}) S 2 3 4 0 -1 0 10 0 12 0 14 15 0 0 20 0 7 0 22 0 24 0");
            let stat = parse_stat(text.as_bytes()).unwrap();
            prop_assert_eq!(stat.comm, comm.as_bytes());
            prop_assert_eq!((stat.parent, stat.threads, stat.start_ticks), (2, 7, 22));
        }
    }
}
