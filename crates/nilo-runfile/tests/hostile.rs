//! Declared sizes are not believed: memory stays in proportion to the file.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use nilo_runfile::{HEADER_LEN, RunWriter};
use support::{Scratch, metrics, small_segments};

/// Counts what is allocated and remembers the most.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test, since the counters are those of the whole process.
#[test]
fn declared_sizes_do_not_allocate() {
    let scratch = Scratch::new();
    let mut writer = RunWriter::create(scratch.run.path(), "w", small_segments(true)).unwrap();
    let table = writer.define(&metrics("m", 2));
    for index in 0..8000u64 {
        assert!(writer.append(table, scratch.start + index, None, &[1.0, 2.0]));
    }
    writer.close();
    let (name, good) = scratch.bytes_of(".nilc");
    let path = scratch.run.path().join(name);
    let (block, head_len) = (HEADER_LEN, 96);
    let directory_len = u32_at(&good, block + 20) as usize;
    let directory = block + head_len;

    // A directory that claims four billion rows, tables, columns or bytes of text, with its checksums made right.
    let spec_len = u32_at(&good, directory + 4 + 24) as usize;
    let after_spec = directory + 4 + 28 + spec_len;
    for at in [directory, directory + 8, directory + 28, after_spec + 27] {
        for value in [u32::MAX, 1 << 30, 1 << 22] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            seal(&mut bytes, block, directory, directory_len);
            std::fs::write(&path, &bytes).unwrap();
            assert_bounded(&scratch, &format!("{value} at {at}"));
        }
    }
    // A head that claims large parts.
    for at in [8, 12, 20, 28, 36] {
        let mut bytes = good.clone();
        bytes[block + at..block + at + 4].copy_from_slice(&0x7fff_fff0u32.to_le_bytes());
        seal(&mut bytes, block, directory, directory_len);
        std::fs::write(&path, &bytes).unwrap();
        assert_bounded(&scratch, &format!("head field {at}"));
    }
    // A segment whose records claim a megabyte each, and one that is a huge hole.
    std::fs::write(&path, &good).unwrap();
    let mut segment = scratch.file_names();
    segment.retain(|name| name.ends_with(".nilo"));
    let path = scratch.run.path().join(&segment[0]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(HEADER_LEN);
    bytes.extend((3u32 << 20 | 0xf_ffff).to_le_bytes().repeat(1000));
    std::fs::write(&path, &bytes).unwrap();
    assert_bounded(&scratch, "long records");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_bounded(&scratch, "a sparse terabyte");
    let description = std::fs::File::options()
        .write(true)
        .open(scratch.run.path().join("run.json"));
    description.unwrap().set_len(1 << 40).unwrap();
    assert!(
        scratch
            .run
            .load()
            .unwrap_err()
            .to_string()
            .contains("larger than")
    );
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Makes the checksums of a forged block right.
fn seal(bytes: &mut [u8], block: usize, directory: usize, directory_len: usize) {
    let crc = crc32c::crc32c(&bytes[directory..directory + directory_len]);
    bytes[block + 24..block + 28].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[block..block + 92]);
    bytes[block + 92..block + 96].copy_from_slice(&crc.to_le_bytes());
}

fn assert_bounded(scratch: &Scratch, what: &str) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let recording = scratch.run.load().unwrap();
    scratch.run.verify().unwrap();
    drop(recording);
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most < 24 << 20, "{what}: {most} bytes");
}
