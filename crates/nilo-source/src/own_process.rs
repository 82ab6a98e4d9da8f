//! What the kernel says of the process that asks.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::descriptors::read_kernel_file;
use crate::linux::{page_bytes, parse_arguments, parse_statm, parse_status};

const OWN: &str = "/proc/self";

/// The largest resident memory of this process so far (`VmHWM`).
///
/// Not from `getrusage`: `ru_maxrss` is inherited across `exec`, so it may be that of the program that started us.
pub fn own_peak_rss_bytes() -> Option<u64> {
    let status = read_kernel_file(Path::new(OWN).join("status")).ok()?;
    parse_status(&status).peak_rss_bytes
}

/// The largest resident memory of this process so far (`VmHWM`), and what is resident now.
pub fn own_resident_bytes() -> Option<(u64, Option<u64>)> {
    let status = read_kernel_file(Path::new(OWN).join("status")).ok()?;
    let status = parse_status(&status);
    Some((status.peak_rss_bytes?, status.rss_bytes))
}

/// What is resident of this process now; cheaper than [`own_resident_bytes`], for callers in a training loop.
pub fn own_rss_bytes() -> Option<u64> {
    // Opened each time: a file that is kept open would be the parent's after a fork.
    let statm = read_kernel_file(Path::new(OWN).join("statm")).ok()?;
    let (_, resident_pages, _) = parse_statm(&statm)?;
    Some(resident_pages * page_bytes())
}

/// The addresses at which our command line lies, which is what `ps` shows.
pub fn own_arguments() -> Option<Range<usize>> {
    let stat = read_kernel_file(Path::new(OWN).join("stat")).ok()?;
    parse_arguments(&stat)
}

/// Opens what our standard error is once more for writing, with these flags: a description that is not shared with other processes.
pub fn reopen_stderr(flags: i32) -> io::Result<File> {
    let path = Path::new(OWN).join("fd/2");
    File::options().write(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_follows_what_was_held() {
        let before = own_peak_rss_bytes().unwrap();
        let block = std::hint::black_box(vec![1_u8; 256 << 20]);
        assert!(own_peak_rss_bytes().unwrap() >= 256 << 20);
        let (peak, now) = own_resident_bytes().unwrap();
        assert!(peak >= 256 << 20 && now.unwrap() >= 256 << 20);
        assert!(own_rss_bytes().unwrap() >= 256 << 20);
        drop(block);
        assert!(own_peak_rss_bytes().unwrap() >= before.max(256 << 20));
        assert!(own_rss_bytes().unwrap() < 256 << 20);
    }

    #[test]
    fn our_arguments_lie_where_the_kernel_says() {
        let arguments = own_arguments().unwrap();
        let first = std::ptr::with_exposed_provenance::<u8>(arguments.start);
        // SAFETY: the kernel keeps our own arguments there, which nobody has changed.
        let text = unsafe { std::slice::from_raw_parts(first, arguments.len()) };
        let name = std::env::args_os().next().unwrap();
        assert!(text.starts_with(name.as_encoded_bytes()));
        assert_eq!(text.last(), Some(&0));
    }
}
