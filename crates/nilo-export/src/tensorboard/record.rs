//! The frames of an event file (TFRecord): length, its checksum, data, their checksum.

use std::io::{self, Write};

/// Writes one record.
pub(super) fn write_record(output: &mut impl Write, data: &[u8]) -> io::Result<()> {
    let length = (data.len() as u64).to_le_bytes();
    output.write_all(&length)?;
    output.write_all(&masked_checksum(&length).to_le_bytes())?;
    output.write_all(data)?;
    output.write_all(&masked_checksum(data).to_le_bytes())
}

/// CRC-32C, turned and shifted: the format's guard against checksums of data that hold checksums.
fn masked_checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
        .rotate_right(15)
        .wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_framed_as_specified() {
        let mut written = Vec::new();
        write_record(&mut written, b"abc").unwrap();
        assert_eq!(written.len(), 8 + 4 + 3 + 4);
        assert_eq!(written[..8], 3u64.to_le_bytes());
        assert_eq!(&written[12..15], b"abc");
        // CRC-32C of "abc" is 364b3fb7.
        let masked = 0x364b_3fb7u32.rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(written[15..], masked.to_le_bytes());
    }
}
