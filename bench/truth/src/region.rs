//! Mapped memory that jobs touch, page by page.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// The size of a small page.
pub const PAGE_BYTES: usize = 4096;

/// A mapping of this process; unmapped when dropped.
#[derive(Debug)]
pub struct Region {
    start: *mut u8,
    bytes: usize,
    writable: bool,
}

impl Region {
    /// Private memory, in small pages.
    pub fn anonymous(bytes: usize) -> io::Result<Region> {
        let region = Region::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, true)?;
        region.advise(libc::MADV_NOHUGEPAGE);
        Ok(region)
    }

    /// Private memory, in huge pages where the kernel has them.
    pub fn huge(bytes: usize) -> io::Result<Region> {
        let region = Region::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, true)?;
        region.advise(libc::MADV_HUGEPAGE);
        Ok(region)
    }

    /// Memory that forked processes share.
    pub fn shared_memory(bytes: usize) -> io::Result<Region> {
        Region::map(bytes, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, true)
    }

    /// A file's pages, shared with whoever else maps it.
    pub fn shared_file(file: &File, bytes: usize) -> io::Result<Region> {
        Region::map(bytes, libc::MAP_SHARED, file.as_raw_fd(), true)
    }

    /// A file's pages, private once written.
    pub fn private_file(file: &File, bytes: usize) -> io::Result<Region> {
        Region::map(bytes, libc::MAP_PRIVATE, file.as_raw_fd(), true)
    }

    /// Memory behind a descriptor, shared.
    pub fn shared_descriptor(descriptor: RawFd, bytes: usize) -> io::Result<Region> {
        Region::map(bytes, libc::MAP_SHARED, descriptor, true)
    }

    fn map(bytes: usize, flags: i32, descriptor: RawFd, writable: bool) -> io::Result<Region> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping at an address of the kernel's choice; nothing of ours is replaced.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                flags,
                descriptor,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Region {
            start: start.cast(),
            bytes,
            writable,
        })
    }

    fn advise(&self, advice: i32) {
        // SAFETY: the range is this mapping; the advice changes no contents.
        unsafe { libc::madvise(self.start.cast(), self.bytes, advice) };
    }

    /// Where it lies.
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// How many pages it has.
    pub fn pages(&self) -> usize {
        self.bytes / PAGE_BYTES
    }

    /// Reads the first byte of a page.
    pub fn read(&self, page: usize) -> u8 {
        assert!(page < self.pages());
        // SAFETY: the page lies inside the mapping, which is readable.
        unsafe { self.start.add(page * PAGE_BYTES).read_volatile() }
    }

    /// Writes the first byte of a page.
    pub fn write(&self, page: usize, value: u8) {
        assert!(page < self.pages() && self.writable);
        // SAFETY: the page lies inside the mapping, which is writable and not referenced elsewhere in this process.
        unsafe { self.start.add(page * PAGE_BYTES).write_volatile(value) };
    }

    /// Gives a range of pages back to the kernel.
    pub fn discard(&self, from: usize, count: usize) {
        assert!(from + count <= self.pages());
        // SAFETY: the range lies inside the mapping; its contents are not needed any more.
        unsafe {
            let start = self.start.add(from * PAGE_BYTES);
            libc::madvise(start.cast(), count * PAGE_BYTES, libc::MADV_DONTNEED);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody uses it any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

// SAFETY: a mapping is plain memory; writes are of single bytes whose values nobody depends on.
unsafe impl Sync for Region {}
