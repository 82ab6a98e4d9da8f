//! The printable stand-ins for bytes that GPT-2 brought in: Hugging Face files and ids are written in them.
//!
//! Printable bytes of Latin-1 stand for themselves, the other 68 take the code points from U+0100 on, in order.

/// The character that stands for a byte.
#[must_use]
pub fn char_of_byte(byte: u8) -> char {
    if stands_for_itself(byte) {
        return char::from(byte);
    }
    let others_before = (0..byte).filter(|&other| !stands_for_itself(other)).count();
    char::from_u32(0x100 + others_before as u32).expect("68 characters of Latin Extended-A")
}

fn stands_for_itself(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// Characters for all bytes and back.
#[derive(Debug, Clone)]
pub struct ByteLevel {
    chars: [char; 256],
    bytes: [Option<u8>; 0x144],
}

impl Default for ByteLevel {
    fn default() -> Self {
        let chars = std::array::from_fn(|byte| char_of_byte(byte as u8));
        let mut bytes = [None; 0x144];
        for (byte, &char) in chars.iter().enumerate() {
            bytes[char as usize] = Some(byte as u8);
        }
        Self { chars, bytes }
    }
}

impl ByteLevel {
    /// Bytes written in their stand-ins.
    #[must_use]
    pub fn text_of(&self, bytes: &[u8]) -> String {
        bytes
            .iter()
            .map(|&byte| self.chars[usize::from(byte)])
            .collect()
    }

    /// The bytes a text of stand-ins means; `None` if a character stands for no byte.
    #[must_use]
    pub fn bytes_of(&self, text: &str) -> Option<Vec<u8>> {
        text.chars()
            .map(|char| self.bytes.get(char as usize).copied().flatten())
            .collect()
    }

    /// All bytes, in the order of their stand-ins: the order of the alphabet's ids.
    #[must_use]
    pub fn alphabet(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..=255).collect();
        bytes.sort_unstable_by_key(|&byte| self.chars[usize::from(byte)]);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_are_those_of_gpt2() {
        let level = ByteLevel::default();
        assert_eq!(level.text_of(b" a\n\x00\xad\xff"), "ĠaĊĀŃÿ");
        assert_eq!(level.bytes_of("Ġthe").as_deref(), Some(&b" the"[..]));
        assert_eq!(level.bytes_of("a b"), None);
        assert_eq!(level.bytes_of("漢"), None);
    }

    #[test]
    fn every_byte_comes_back() {
        let level = ByteLevel::default();
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(level.bytes_of(&level.text_of(&all)), Some(all));
        let alphabet = level.alphabet();
        assert_eq!((alphabet[0], alphabet[255]), (b'!', 0xAD));
    }
}
