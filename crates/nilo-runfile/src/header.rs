//! The 128 bytes at the front of every file of a run: what it is, who writes it, and how its clock relates to the wall.
//!
//! `docs/run-format.md` has the table of fields.
//! Bytes 0 to 63 never change and are covered by the checksum at 64; the counter at 72, the length at 80 and the time at 88 are updated in place.

use crate::checksum;
use crate::clock;

/// Length of the header in this version.
pub const HEADER_LEN: usize = 128;
/// Where the counter of dropped rows lies.
pub(crate) const DROPPED_ROWS_AT: usize = 72;
/// Where the length of a closed file lies.
pub(crate) const CLOSED_LEN_AT: usize = 80;
/// Where the time of closing lies.
pub(crate) const CLOSED_NANOS_AT: usize = 88;
/// The format version that this crate writes, and the last that it reads.
pub const FORMAT_VERSION: u16 = 1;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magic {
    /// Records in the order of their arrival.
    Segment,
    /// Blocks of compressed columns.
    Compacted,
}

impl Magic {
    fn bytes(self) -> &'static [u8; 8] {
        match self {
            Magic::Segment => b"NILOSEG\n",
            Magic::Compacted => b"NILOCOL\n",
        }
    }
}

/// A decoded header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) magic: Magic,
    pub(crate) header_len: usize,
    pub(crate) segment: u32,
    pub(crate) pid: u32,
    pub(crate) pid_start_ticks: u64,
    pub(crate) clock: ClockPair,
    pub(crate) dropped_rows: u64,
    /// What the file had when its writer closed it, or after the last block; 0 where it was not closed, or by an earlier version.
    pub(crate) closed_len: u64,
    /// When its writer closed it, by the monotonic clock; 0 where it was not closed, or by an earlier version.
    pub(crate) closed_nanos: u64,
}

/// The two clocks read together, and the boot that the monotonic one belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClockPair {
    pub(crate) monotonic_nanos: u64,
    pub(crate) unix_nanos: u64,
    /// Zero when unknown.
    pub(crate) boot_id: [u8; 16],
}

impl ClockPair {
    /// Reads both clocks.
    pub(crate) fn now(boot_id: [u8; 16]) -> ClockPair {
        ClockPair {
            monotonic_nanos: clock::monotonic_nanos(),
            unix_nanos: clock::unix_nanos(),
            boot_id,
        }
    }
}

/// Why bytes are not a header that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// The file ends within its header: nothing was ever recorded in it.
    Short,
    /// Not one of our files.
    Foreign,
    /// The checksum is wrong.
    Damaged,
    /// A later format.
    Later(u16),
}

impl HeaderFault {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            HeaderFault::Short => "the file ends within its header",
            HeaderFault::Foreign => "not a run file",
            HeaderFault::Damaged => "the header of the run file is damaged",
            HeaderFault::Later(_) => "written by a later version of nilo",
        }
    }
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..8].copy_from_slice(self.magic.bytes());
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&(HEADER_LEN as u16).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.segment.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.pid.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.pid_start_ticks.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.clock.monotonic_nanos.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.clock.unix_nanos.to_le_bytes());
        bytes[48..64].copy_from_slice(&self.clock.boot_id);
        let crc = crc32c::crc32c(&bytes[..64]);
        bytes[64..68].copy_from_slice(&crc.to_le_bytes());
        bytes[DROPPED_ROWS_AT..DROPPED_ROWS_AT + 8]
            .copy_from_slice(&self.dropped_rows.to_le_bytes());
        bytes[CLOSED_LEN_AT..CLOSED_LEN_AT + 8].copy_from_slice(&self.closed_len.to_le_bytes());
        bytes[CLOSED_NANOS_AT..CLOSED_NANOS_AT + 8]
            .copy_from_slice(&self.closed_nanos.to_le_bytes());
        bytes
    }

    /// Reads a header. The version is looked at before the checksum, since a later version may lay out the rest anew.
    pub(crate) fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderFault> {
        let magic = [Magic::Segment, Magic::Compacted]
            .into_iter()
            .find(|magic| bytes.starts_with(magic.bytes()));
        let Some(magic) = magic else {
            // A file that was created and never filled is all zeros: nothing was lost with it.
            let empty = bytes.len() < 8 || bytes.iter().all(|byte| *byte == 0);
            return Err(if empty {
                HeaderFault::Short
            } else {
                HeaderFault::Foreign
            });
        };
        if bytes.len() < 12 {
            return Err(HeaderFault::Short);
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version > FORMAT_VERSION {
            return Err(HeaderFault::Later(version));
        }
        if bytes.len() < HEADER_LEN {
            return Err(HeaderFault::Short);
        }
        let header_len = usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
        let crc_is_right = checksum::is_right(u32_at(bytes, 64), crc32c::crc32c(&bytes[..64]));
        if !crc_is_right || version == 0 || header_len < HEADER_LEN || header_len % 4 != 0 {
            return Err(HeaderFault::Damaged);
        }
        let mut boot_id = [0; 16];
        boot_id.copy_from_slice(&bytes[48..64]);
        Ok(SegmentHeader {
            magic,
            header_len,
            segment: u32_at(bytes, 12),
            pid: u32_at(bytes, 16),
            pid_start_ticks: u64_at(bytes, 24),
            clock: ClockPair {
                monotonic_nanos: u64_at(bytes, 32),
                unix_nanos: u64_at(bytes, 40),
                boot_id,
            },
            dropped_rows: u64_at(bytes, DROPPED_ROWS_AT),
            closed_len: u64_at(bytes, CLOSED_LEN_AT),
            closed_nanos: u64_at(bytes, CLOSED_NANOS_AT),
        })
    }

    /// What is to be said of a file that ends here, if it had more when it was closed: a cut between two records leaves no other trace.
    pub(crate) fn missing_end(&self, end: u64) -> Option<String> {
        let missing = self.closed_len.checked_sub(end).filter(|len| *len > 0)?;
        Some(format!("{missing} bytes at the end are missing"))
    }
}

/// The little-endian number at an offset that the caller has checked.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// The little-endian number at an offset that the caller has checked.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            magic: Magic::Segment,
            header_len: HEADER_LEN,
            segment: 3,
            pid: 4711,
            pid_start_ticks: 99,
            clock: ClockPair {
                monotonic_nanos: 5,
                unix_nanos: 6,
                boot_id: [7; 16],
            },
            dropped_rows: 8,
            closed_len: 9,
            closed_nanos: 10,
        }
    }

    #[test]
    fn headers_survive_their_bytes() {
        assert_eq!(SegmentHeader::decode(&header().encode()), Ok(header()));
    }

    #[test]
    fn the_dropped_counter_is_outside_the_checksum() {
        let mut bytes = header().encode();
        bytes[DROPPED_ROWS_AT] = 200;
        assert_eq!(SegmentHeader::decode(&bytes).unwrap().dropped_rows, 200);
    }

    #[test]
    fn every_flipped_bit_before_the_checksum_is_noticed() {
        for at in 0..68 {
            for bit in 0..8 {
                let mut bytes = header().encode();
                bytes[at] ^= 1 << bit;
                assert!(
                    SegmentHeader::decode(&bytes).is_err(),
                    "byte {at} bit {bit}"
                );
            }
        }
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        let mut bytes = header().encode();
        bytes[8] = 2;
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFault::Later(2)));
    }
}
