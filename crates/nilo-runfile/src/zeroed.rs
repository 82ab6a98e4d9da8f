//! Long vectors of zeros: their pages come with the first write, large ones where the system has them.

use std::alloc::{Layout, alloc_zeroed};

use crate::column::Num;

/// From here on large pages are worth a system call; numpy draws the line at the same place.
const LARGE_BYTES: usize = 4 << 20;

/// The size of a large page on x86; where they are larger, small pages stay.
#[cfg(target_os = "linux")]
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// So many zeros; `None` when there is no such memory, which `vec!` would answer by ending the process.
pub(crate) fn zeroed<T: Num>(len: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the size is not zero.
    let pointer = unsafe { alloc_zeroed(layout) };
    if pointer.is_null() {
        return None;
    }
    if layout.size() >= LARGE_BYTES {
        ask_for_large_pages(pointer, layout.size());
    }
    // SAFETY: the global allocator gave the memory, for this length, with the alignment of `T`, and zeros are numbers.
    Some(unsafe { Vec::from_raw_parts(pointer.cast(), len, len) })
}

/// A million points are 6 000 small pages, and touching these for the first time takes as long as decoding the points.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(pointer: *mut u8, bytes: usize) {
    let skipped = pointer.align_offset(LARGE_PAGE_BYTES);
    let Some(bytes) = bytes.checked_sub(skipped) else {
        return;
    };
    // SAFETY: the range begins at a page, a large one, and lies within one allocation; the advice changes no contents.
    // A kernel that does not follow it costs time only.
    let _ = unsafe {
        rustix::mm::madvise(
            pointer.add(skipped).cast(),
            bytes,
            rustix::mm::Advice::LinuxHugepage,
        )
    };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_pointer: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_vectors_are_zeros_and_grow_like_others() {
        for len in [0, 1, 1000, LARGE_BYTES / 8 + 3] {
            let mut numbers = zeroed::<f64>(len).unwrap();
            assert!(numbers.len() == len && numbers.iter().all(|n| n.to_bits() == 0));
            numbers.push(1.0);
            assert_eq!(numbers.last(), Some(&1.0));
        }
    }

    #[test]
    fn memory_that_nobody_has_is_refused() {
        assert_eq!(zeroed::<u64>(usize::MAX), None);
        assert_eq!(zeroed::<u64>(1 << 58), None);
    }
}
