//! The truth: which distinct page frames a set of processes holds, from `/proc/PID/pagemap` as root.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::region::Region;

const PAGE_BYTES: u64 = 4096;
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
const ENTRIES: usize = 1 << 16;

/// Counts distinct frames; keeps its buffers between counts.
#[derive(Debug)]
pub struct PageCounter {
    buffer: Vec<u8>,
    seen: Vec<u64>,
    /// The page of zeros, which nobody pays for.
    zero_frame: u64,
}

impl PageCounter {
    /// Needs root: without it the kernel hides frame numbers.
    pub fn new() -> io::Result<PageCounter> {
        Ok(PageCounter {
            buffer: vec![0; ENTRIES * 8],
            seen: Vec::new(),
            zero_frame: zero_frame()?,
        })
    }

    /// Bytes in distinct pages that these processes hold; processes that are gone hold none.
    pub fn distinct_bytes(&mut self, pids: &[u32]) -> u64 {
        self.seen.iter_mut().for_each(|word| *word = 0);
        let mut distinct = 0;
        for &pid in pids {
            distinct += self.add(pid).unwrap_or(0);
        }
        distinct * PAGE_BYTES
    }

    /// Marks a process's frames as seen and says how many were new.
    fn add(&mut self, pid: u32) -> io::Result<u64> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
        let mut new = 0;
        for line in maps.lines().filter(|line| !line.ends_with("[vsyscall]")) {
            let Some((from, to)) = range_of(line) else {
                continue;
            };
            let mut page = from / PAGE_BYTES;
            let end = to / PAGE_BYTES;
            while page < end {
                let wanted = ((end - page) as usize).min(ENTRIES) * 8;
                let count = pagemap.read_at(&mut self.buffer[..wanted], page * 8)?;
                if count < 8 {
                    break;
                }
                for entry in 0..count / 8 {
                    let bytes = &self.buffer[entry * 8..entry * 8 + 8];
                    let value = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                    if value & PRESENT != 0 && self.is_new(value & FRAME) {
                        new += 1;
                    }
                }
                page += (count / 8) as u64;
            }
        }
        Ok(new)
    }

    fn is_new(&mut self, frame: u64) -> bool {
        let (word, bit) = ((frame / 64) as usize, 1u64 << (frame % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            return false;
        }
        self.seen[word] |= bit;
        frame != self.zero_frame
    }
}

/// The frame behind memory that was read and never written.
fn zero_frame() -> io::Result<u64> {
    let untouched = Region::anonymous(PAGE_BYTES as usize)?;
    untouched.read(0);
    let mut bytes = [0; 8];
    let entry = untouched.address() / PAGE_BYTES;
    File::open("/proc/self/pagemap")?.read_exact_at(&mut bytes, entry * 8)?;
    match u64::from_ne_bytes(bytes) & FRAME {
        0 => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the kernel hides page frames; run as root",
        )),
        frame => Ok(frame),
    }
}

fn range_of(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let parse = |text| u64::from_str_radix(text, 16).ok();
    Some((parse(from)?, parse(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_from_maps() {
        let line = "55d701d6b000-55d701d6c000 r--p 00000000 fe:00 12 /bin/x";
        assert_eq!(range_of(line), Some((0x55d7_01d6_b000, 0x55d7_01d6_c000)));
        assert_eq!(range_of(""), None);
    }
}
