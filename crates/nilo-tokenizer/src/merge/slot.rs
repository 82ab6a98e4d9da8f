//! A slot of the symbol arena: 16 bits wide while the vocabulary allows it, else 32.
//!
//! Slots are atomic so that threads can work on disjoint stretches of one arena without unsafe code; with relaxed ordering they compile to plain loads and stores.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};

/// One symbol of the arena.
pub(super) trait SymbolSlot: Send + Sync + Sized + 'static {
    /// What a slot takes.
    const BYTES: u64;
    /// Stands between words.
    const SEPARATOR: u32;
    /// Stands where a token began that has become the right half of a longer one.
    const DEAD: u32;
    /// Ids are smaller than this.
    const MOST_IDS: u32 = Self::DEAD;

    /// Fresh slots; pages that are never written stay out of memory.
    fn zeroed(length: usize) -> Box<[Self]>;
    /// The symbol.
    fn get(&self) -> u32;
    /// Puts a symbol.
    fn set(&self, symbol: u32);
}

impl SymbolSlot for AtomicU16 {
    const BYTES: u64 = 2;
    const SEPARATOR: u32 = u16::MAX as u32;
    const DEAD: u32 = u16::MAX as u32 - 1;

    fn zeroed(length: usize) -> Box<[Self]> {
        let plain = vec![0u16; length].into_boxed_slice();
        // SAFETY: an `AtomicU16` has the size, alignment and bit validity of a `u16` (documented), and the box is the only owner.
        unsafe { Box::from_raw(Box::into_raw(plain) as *mut [Self]) }
    }

    #[inline(always)]
    fn get(&self) -> u32 {
        u32::from(self.load(Relaxed))
    }

    #[inline(always)]
    fn set(&self, symbol: u32) {
        self.store(symbol as u16, Relaxed);
    }
}

impl SymbolSlot for AtomicU32 {
    const BYTES: u64 = 4;
    const SEPARATOR: u32 = u32::MAX;
    const DEAD: u32 = u32::MAX - 1;

    fn zeroed(length: usize) -> Box<[Self]> {
        let plain = vec![0u32; length].into_boxed_slice();
        // SAFETY: an `AtomicU32` has the size, alignment and bit validity of a `u32` on every platform where `u32` is aligned to four bytes, and the box is the only owner.
        unsafe { Box::from_raw(Box::into_raw(plain) as *mut [Self]) }
    }

    #[inline(always)]
    fn get(&self) -> u32 {
        self.load(Relaxed)
    }

    #[inline(always)]
    fn set(&self, symbol: u32) {
        self.store(symbol, Relaxed);
    }
}

/// Asks for large pages: places are met in strides, and each page of 4 KiB costs a walk through the page table.
#[cfg(target_os = "linux")]
pub(super) fn ask_for_large_pages<S: SymbolSlot>(slots: &[S]) {
    const PAGE: usize = 4096;
    let start = slots.as_ptr().addr().next_multiple_of(PAGE);
    let end = slots.as_ptr_range().end.addr() / PAGE * PAGE;
    if end.saturating_sub(start) < 4 << 20 {
        return;
    }
    let pages = slots.as_ptr().with_addr(start).cast_mut().cast();
    // SAFETY: the range lies within the slots, and the advice changes how they are mapped, never what they hold.
    let _ = unsafe { rustix::mm::madvise(pages, end - start, rustix::mm::Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn ask_for_large_pages<S: SymbolSlot>(_slots: &[S]) {}
