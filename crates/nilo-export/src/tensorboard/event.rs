//! The two protocol-buffer messages that scalars need, written by hand.
//!
//! `Event`: 1 wall time (double), 2 step (int64), 3 file version (string), 5 summary (message).
//! `Summary`: 1 value (message), and in it 1 tag (string), 2 simple value (float).

/// What the first record of a file says.
const FILE_VERSION: &str = "brain.Event:2";

const VARINT: u8 = 0;
const EIGHT_BYTES: u8 = 1;
const WITH_LENGTH: u8 = 2;
const FOUR_BYTES: u8 = 5;

/// The event that opens a file.
pub(super) fn encode_file_version(wall_secs: f64) -> Vec<u8> {
    let mut event = Vec::new();
    push_double(&mut event, 1, wall_secs);
    push_bytes(&mut event, 3, FILE_VERSION.as_bytes());
    event
}

/// Encodes scalars one after the other, without allocating for each.
#[derive(Default)]
pub(super) struct ScalarEncoder {
    event: Vec<u8>,
    value: Vec<u8>,
    summary: Vec<u8>,
}

impl ScalarEncoder {
    /// The event of one scalar.
    pub(super) fn encode(&mut self, wall_secs: f64, step: i64, tag: &str, value: f32) -> &[u8] {
        self.value.clear();
        push_bytes(&mut self.value, 1, tag.as_bytes());
        push_key(&mut self.value, 2, FOUR_BYTES);
        self.value.extend(value.to_le_bytes());
        self.summary.clear();
        push_bytes(&mut self.summary, 1, &self.value);
        self.event.clear();
        push_double(&mut self.event, 1, wall_secs);
        push_key(&mut self.event, 2, VARINT);
        // Negative numbers are their two's complement, ten bytes long.
        push_varint(&mut self.event, step as u64);
        push_bytes(&mut self.event, 5, &self.summary);
        &self.event
    }
}

fn push_key(message: &mut Vec<u8>, field: u8, kind: u8) {
    message.push(field << 3 | kind);
}

fn push_double(message: &mut Vec<u8>, field: u8, value: f64) {
    push_key(message, field, EIGHT_BYTES);
    message.extend(value.to_le_bytes());
}

fn push_bytes(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    push_key(message, field, WITH_LENGTH);
    push_varint(message, bytes.len() as u64);
    message.extend(bytes);
}

fn push_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_is_encoded_as_specified() {
        let mut encoder = ScalarEncoder::default();
        let event = encoder.encode(2.0, 300, "loss", 0.5).to_vec();
        let expected: Vec<u8> = [
            &[0x09][..],
            &2.0f64.to_le_bytes(),
            &[0x10, 0xac, 0x02],
            &[0x2a, 13, 0x0a, 11, 0x0a, 4],
            b"loss",
            &[0x15],
            &0.5f32.to_le_bytes(),
        ]
        .concat();
        assert_eq!(event, expected);
    }

    #[test]
    fn negative_steps_are_ten_bytes() {
        let mut message = Vec::new();
        push_varint(&mut message, -1i64 as u64);
        assert_eq!(message, [[0xff; 9].as_slice(), &[1]].concat());
    }
}
