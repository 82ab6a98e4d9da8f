//! Which pages of files and shared memory a tree holds, each counted once whoever else maps it.
//!
//! A page of a file is known by its place in the file, so no frame numbers and no privileges are needed:
//! `maps` says where files lie in the address space, `pagemap` which of their pages are present.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

use crate::holdings::{CountedFiles, LEAST_TWICE_BYTES, MemberShare, PlainFiles};
use crate::kernel_text::words;
use crate::linux::proc_folder::ProcFolder;

/// Pages of one entry of [`FilePages::chunks`].
const CHUNK_PAGES: u64 = 512;
/// No process has this number.
const NOBODY: u32 = 0;

const PRESENT: u64 = 1 << 63;
const OF_FILE: u64 = 1 << 61;
/// Entries of `pagemap` that are read at once where it cannot be searched.
const ENTRIES: usize = 4096;

/// A file on some device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FileId {
    device: u64,
    inode: u64,
}

/// A file in an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapping {
    file: FileId,
    from: u64,
    to: u64,
    /// Where in the file it begins, in bytes.
    offset: u64,
}

/// Who holds a page: the first process that was found to, and the last.
#[derive(Debug, Clone, Copy, Default)]
struct PageHolder {
    first: u32,
    last: u32,
}

/// The pages of a tree, process by process.
#[derive(Debug, Default)]
pub(crate) struct FilePages {
    chunks: HashMap<(FileId, u64), Box<[PageHolder; CHUNK_PAGES as usize]>>,
    distinct: u64,
    held: HashMap<u32, HeldPages>,
    plain: Option<PlainFiles>,
}

/// Pages of files that one process holds, each counted once however often it is mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HeldPages {
    all: u64,
    alone: u64,
    /// Found once more in another mapping.
    again: u64,
}

impl FilePages {
    /// Adds what a process holds that shares nothing with others: its pages are looked for only where it may have mapped some twice.
    pub(crate) fn add_alone(&mut self, proc: &ProcFolder, pid: u32) -> rustix::io::Result<()> {
        let mappings = mappings_of(proc, pid)?;
        let covered = Coverage::of(&mappings);
        if covered.again_bytes < LEAST_TWICE_BYTES {
            self.plain = Some(PlainFiles {
                pid,
                most_bytes: covered.once_bytes,
            });
            return Ok(());
        }
        self.add_mapped(proc, pid, &mappings)
    }

    /// Adds what a process holds.
    pub(crate) fn add(&mut self, proc: &ProcFolder, pid: u32) -> rustix::io::Result<()> {
        let mappings = mappings_of(proc, pid)?;
        self.add_mapped(proc, pid, &mappings)
    }

    fn add_mapped(
        &mut self,
        proc: &ProcFolder,
        pid: u32,
        mappings: &[Mapping],
    ) -> rustix::io::Result<()> {
        let pagemap = proc.open_of(pid, "pagemap")?;
        self.held.entry(pid).or_default();
        // The parts of one library lie side by side; one search finds the pages of all of them.
        let mut rest = mappings;
        while let Some(first) = rest.first() {
            let touching = rest
                .windows(2)
                .take_while(|pair| pair[0].to == pair[1].from);
            let (near, far) = rest.split_at(1 + touching.count());
            let end = near.last().map_or(first.to, |last| last.to);
            let mut at = 0;
            present_file_pages(&pagemap, first.from, end, proc.page_bytes, |from, to| {
                let mut start = from;
                while start < to {
                    while near.get(at).is_some_and(|mapping| mapping.to <= start) {
                        at += 1;
                    }
                    let Some(mapping) = near.get(at) else { return };
                    let stop = to.min(mapping.to);
                    let place = (mapping.offset + start - mapping.from) / proc.page_bytes;
                    self.hold(mapping.file, place, (stop - start) / proc.page_bytes, pid);
                    start = stop;
                }
            })?;
            rest = far;
        }
        Ok(())
    }

    /// A process holds `count` pages of a file from `place` on.
    fn hold(&mut self, file: FileId, place: u64, count: u64, pid: u32) {
        let (mut place, end) = (place, place + count);
        let (mut new, mut shared, mut again) = (0, 0, 0);
        while place < end {
            let number = place / CHUNK_PAGES;
            let from = (place % CHUNK_PAGES) as usize;
            let to = (end - number * CHUNK_PAGES).min(CHUNK_PAGES) as usize;
            let chunk = self
                .chunks
                .entry((file, number))
                .or_insert_with(|| Box::new([PageHolder::default(); CHUNK_PAGES as usize]));
            for holder in &mut chunk[from..to] {
                // The same file may be mapped twice.
                if holder.last == pid {
                    again += 1;
                    continue;
                }
                if holder.first == NOBODY {
                    holder.first = pid;
                    new += 1;
                } else {
                    shared += 1;
                    if holder.last == holder.first
                        && let Some(held) = self.held.get_mut(&holder.first)
                    {
                        held.alone -= 1;
                    }
                }
                holder.last = pid;
            }
            place = (number + 1) * CHUNK_PAGES;
        }
        self.distinct += new;
        let held = self.held.entry(pid).or_default();
        held.all += new + shared;
        held.alone += new;
        held.again += again;
    }

    /// Distinct bytes, and what each process holds; processes that are gone by now count no more.
    pub(crate) fn finish(self, page_bytes: u64, is_alive: impl Fn(u32) -> bool) -> CountedFiles {
        let gone = self.held.iter().filter(|(pid, _)| !is_alive(**pid));
        let gone: u64 = gone.map(|(_, held)| held.alone).sum();
        let held = self.held.iter().map(|(pid, held)| {
            let part = MemberShare {
                bytes: held.all * page_bytes,
                alone: held.alone * page_bytes,
            };
            (*pid, part)
        });
        CountedFiles {
            distinct_bytes: (self.distinct - gone) * page_bytes,
            held: held.collect(),
            plain: self.plain.filter(|plain| is_alive(plain.pid)),
        }
    }
}

/// What the resident memory of a process counts more than once at this moment, of so much that was read of files and shared memory;
/// `None` where it has no memory any more.
pub(crate) fn counted_twice_bytes(
    proc: &ProcFolder,
    pid: u32,
    shared_bytes: u64,
) -> rustix::io::Result<Option<u64>> {
    let mappings = mappings_of(proc, pid)?;
    if mappings.is_empty() {
        return Ok(None);
    }
    let covered = Coverage::of(&mappings);
    let impossible_bytes = shared_bytes.saturating_sub(covered.once_bytes);
    if covered.again_bytes < LEAST_TWICE_BYTES {
        return Ok(Some(impossible_bytes));
    }
    let mut pages = FilePages::default();
    pages.add_mapped(proc, pid, &mappings)?;
    let held = pages.held.get(&pid).copied().unwrap_or_default();
    Ok(Some(impossible_bytes.max(held.again * proc.page_bytes)))
}

fn mappings_of(proc: &ProcFolder, pid: u32) -> rustix::io::Result<Vec<Mapping>> {
    let maps = read_whole(proc.open_of(pid, "maps")?)?;
    let lines = maps.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(parse_mapping).collect())
}

/// How much of files a process has mapped, present or not.
///
/// A mapping that is being given back is not among them any more while its pages still are: they go one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Coverage {
    /// Each byte of a file once: it cannot hold more.
    once_bytes: u64,
    /// Mapped a further time.
    again_bytes: u64,
}

impl Coverage {
    fn of(mappings: &[Mapping]) -> Coverage {
        let range = |mapping: &Mapping| {
            let end = mapping.offset.saturating_add(mapping.to - mapping.from);
            let FileId { device, inode } = mapping.file;
            ((device, inode), mapping.offset, end)
        };
        let mut ranges: Vec<_> = mappings.iter().map(range).collect();
        ranges.sort_unstable();
        let (mut file, mut covered) = ((0, 0), 0);
        let mut sums = Coverage::default();
        for (of, from, to) in ranges {
            if of != file {
                (file, covered) = (of, 0);
            }
            let again = to.min(covered).saturating_sub(from);
            sums.again_bytes = sums.again_bytes.saturating_add(again);
            sums.once_bytes = sums.once_bytes.saturating_add(to - from - again);
            covered = to.max(covered);
        }
        sums
    }
}

/// Parses a line of `maps`; mappings without a file are `None`. The first System V segment of a machine has the inode 0.
fn parse_mapping(line: &[u8]) -> Option<Mapping> {
    let mut words = words(line);
    let mut range = words.next()?.split(|byte| *byte == b'-');
    let (from, to) = (hex(range.next()?)?, hex(range.next()?)?);
    let _permissions = words.next()?;
    let offset = hex(words.next()?)?;
    let mut device = words.next()?.split(|byte| *byte == b':');
    let device = (hex(device.next()?)? << 32) | hex(device.next()?)?;
    let inode = crate::kernel_text::number(words.next()?)?;
    let file = FileId { device, inode };
    let has_file = inode != 0 || words.next().is_some_and(|name| name.starts_with(b"/"));
    (has_file && from < to).then_some(Mapping {
        file,
        from,
        to,
        offset,
    })
}

fn hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

fn read_whole(file: OwnedFd) -> rustix::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut buffer = [0u8; 16384];
    loop {
        match rustix::io::read(&file, &mut buffer) {
            Ok(0) => return Ok(text),
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Calls `each` with every stretch of present pages that belong to files.
fn present_file_pages(
    pagemap: &OwnedFd,
    from: u64,
    to: u64,
    page_bytes: u64,
    mut each: impl FnMut(u64, u64),
) -> rustix::io::Result<()> {
    match search(pagemap, from, to, &mut each) {
        // Before Linux 6.7 pages cannot be searched for; every entry is read.
        Err(Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => {
            read_entries(pagemap, from, to, page_bytes, &mut each)
        }
        outcome => outcome,
    }
}

/// The argument of the `PAGEMAP_SCAN` request.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_count: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any_mask: u64,
    return_mask: u64,
}

/// What it returns.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ScanRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;

fn search(
    pagemap: &OwnedFd,
    from: u64,
    to: u64,
    each: &mut impl FnMut(u64, u64),
) -> rustix::io::Result<()> {
    let mut regions = [ScanRegion::default(); 128];
    let mut start = from;
    while start < to {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start,
            end: to,
            regions: regions.as_mut_ptr() as u64,
            regions_count: regions.len() as u64,
            category_mask: IS_FILE | IS_PRESENT,
            return_mask: IS_FILE | IS_PRESENT,
            ..ScanArgument::default()
        };
        // SAFETY: the request fills at most `regions_count` regions of ours and the argument's `walk_end`.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &mut argument) };
        let Ok(found) = usize::try_from(found) else {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        };
        for region in regions.iter().take(found) {
            each(region.start, region.end);
        }
        if argument.walk_end <= start {
            break;
        }
        start = argument.walk_end;
    }
    Ok(())
}

fn read_entries(
    pagemap: &OwnedFd,
    from: u64,
    to: u64,
    page_bytes: u64,
    each: &mut impl FnMut(u64, u64),
) -> rustix::io::Result<()> {
    let mut buffer = vec![0u8; ENTRIES * 8];
    let mut page = from / page_bytes;
    let end = to / page_bytes;
    while page < end {
        let wanted = usize::try_from(end - page).unwrap_or(ENTRIES).min(ENTRIES) * 8;
        let count = rustix::io::pread(pagemap, &mut buffer[..wanted], page * 8)? / 8;
        if count == 0 {
            break;
        }
        for entry in buffer[..count * 8].chunks_exact(8) {
            let entry = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
            if entry & (PRESENT | OF_FILE) == PRESENT | OF_FILE {
                each(page * page_bytes, (page + 1) * page_bytes);
            }
            page += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: FileId = FileId {
        device: 1,
        inode: 2,
    };

    #[test]
    fn only_mappings_of_files_are_taken() {
        let line = b"7f01a000-7f01c000 r-xp 00003000 fe:00 131 /usr/lib/x (deleted)";
        let mapping = parse_mapping(line).unwrap();
        assert_eq!((mapping.from, mapping.to), (0x7f01_a000, 0x7f01_c000));
        assert_eq!((mapping.offset, mapping.file.inode), (0x3000, 131));
        assert_eq!(mapping.file.device, 0xfe << 32);
        assert_eq!(
            parse_mapping(b"7f01a000-7f01c000 rw-p 00000000 00:00 0 [heap]"),
            None
        );
        assert_eq!(parse_mapping(b""), None);
        let first_segment = b"7f01a000-7f01c000 rw-s 00000000 00:01 0 /SYSV00000000 (deleted)";
        assert_eq!(parse_mapping(first_segment).unwrap().file.inode, 0);
    }

    #[test]
    fn what_is_mapped_twice_is_found_within_one_file_only() {
        let of = |file: FileId, offset: u64, length: u64| Mapping {
            file,
            from: 0x1000,
            to: 0x1000 + length,
            offset,
        };
        let other = FileId {
            device: 1,
            inode: 3,
        };
        let covered = |mappings: &[Mapping]| {
            let covered = Coverage::of(mappings);
            (covered.once_bytes, covered.again_bytes)
        };
        assert_eq!(covered(&[]), (0, 0));
        // The parts of a library, and another file at the same places.
        let apart = [of(FILE, 0, 10), of(FILE, 10, 20), of(other, 5, 20)];
        assert_eq!(covered(&apart), (50, 0));
        let nested = [of(FILE, 0, 100), of(FILE, 90, 30), of(FILE, 10, 20)];
        assert_eq!(covered(&nested), (120, 30));
        let thrice = [of(other, 0, 50), of(other, 0, 50), of(other, 0, 50)];
        assert_eq!(covered(&thrice), (50, 100));
    }

    fn parts(counted: &CountedFiles, pid: u32) -> (u64, u64) {
        let part = counted.held[&pid];
        (part.bytes, part.alone)
    }

    #[test]
    fn a_page_counts_once_and_is_alone_while_one_process_holds_it() {
        let mut pages = FilePages::default();
        for (pid, place) in [(10, 0), (10, 1), (10, 1), (11, 1), (12, 1), (11, 600)] {
            pages.hold(FILE, place, 1, pid);
        }
        let counted = pages.finish(1, |_| true);
        assert_eq!(counted.distinct_bytes, 3);
        assert_eq!(parts(&counted, 10), (2, 1));
        assert_eq!(parts(&counted, 11), (2, 1));
        assert_eq!(parts(&counted, 12), (1, 0));
    }

    #[test]
    fn a_stretch_may_cross_chunks_and_be_mapped_twice() {
        let mut pages = FilePages::default();
        pages.hold(FILE, 500, 600, 10);
        pages.hold(FILE, 700, 100, 10);
        pages.hold(FILE, 1023, 2, 11);
        let counted = pages.finish(1, |_| true);
        assert_eq!(
            (counted.distinct_bytes, parts(&counted, 10)),
            (600, (600, 598))
        );
    }

    #[test]
    fn what_a_gone_process_held_alone_does_not_count() {
        let mut pages = FilePages::default();
        for (pid, place) in [(10, 0), (11, 0), (11, 1)] {
            pages.hold(FILE, place, 1, pid);
        }
        assert_eq!(pages.finish(1, |pid| pid == 10).distinct_bytes, 1);
    }

    #[test]
    fn searching_and_reading_entries_find_the_same_pages_of_our_own() {
        let proc = ProcFolder::open(std::path::Path::new("/proc")).unwrap();
        let pid = std::process::id();
        let maps = read_whole(proc.open_of(pid, "maps").unwrap()).unwrap();
        let pagemap = proc.open_of(pid, "pagemap").unwrap();
        let mut compared = 0;
        for mapping in maps.split(|byte| *byte == b'\n').filter_map(parse_mapping) {
            let (mut searched, mut read) = (0, 0);
            let found = search(&pagemap, mapping.from, mapping.to, &mut |from, to| {
                searched += to - from;
            });
            if found == Err(Errno::NOTTY) {
                return;
            }
            read_entries(
                &pagemap,
                mapping.from,
                mapping.to,
                proc.page_bytes,
                &mut |from, to| {
                    read += to - from;
                },
            )
            .unwrap();
            // Other tests run in this process at the same time and may touch a page between the two.
            assert!(
                searched.abs_diff(read) <= 64 * proc.page_bytes,
                "{searched} {read}"
            );
            compared += read;
        }
        assert!(compared > 0);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(line: Vec<u8>) {
            let _ = parse_mapping(&line);
        }
    }
}
