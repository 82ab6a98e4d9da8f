//! What a character is, as far as the patterns ask: looked up in two small tables, with UTF-8 decoded on the way.

use super::tables::{BLOCKS, END, INDEX};

/// The class of a character. Its value is the digit that stands for it in `tables.rs`, so that looking it up is no more
/// than a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Class {
    /// None of the others: punctuation, symbols, controls, unassigned code points, bytes that are not UTF-8.
    Other = b'0',
    /// `\p{M}`; to every pattern but o200k the same as `Other`.
    Mark = b'1',
    /// `\s`.
    Space = b'2',
    /// `\p{N}`.
    Number = b'3',
    /// `\p{Lu}` and `\p{Lt}`.
    Upper = b'4',
    /// `\p{Ll}`.
    Lower = b'5',
    /// `\p{Lm}` and `\p{Lo}`.
    Caseless = b'6',
}

impl Class {
    /// How many there are.
    pub(crate) const COUNT: usize = 7;

    /// Numbered from zero.
    #[inline(always)]
    pub(crate) fn number(self) -> usize {
        usize::from(self as u8 - Class::Other as u8)
    }

    /// `\p{L}`.
    #[inline(always)]
    pub(crate) fn is_letter(self) -> bool {
        self >= Class::Upper
    }

    /// `[^\s\p{L}\p{N}]`.
    #[inline(always)]
    pub(crate) fn is_symbol(self) -> bool {
        self <= Class::Mark
    }

    #[inline(always)]
    fn from_digit(digit: u8) -> Self {
        match digit {
            b'1' => Class::Mark,
            b'2' => Class::Space,
            b'3' => Class::Number,
            b'4' => Class::Upper,
            b'5' => Class::Lower,
            b'6' => Class::Caseless,
            _ => Class::Other,
        }
    }
}

/// A character where it stands: its class and its length in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Character {
    pub(crate) class: Class,
    pub(crate) bytes: usize,
}

/// The class of a code point.
#[inline(always)]
pub(crate) fn class_of(code: u32) -> Class {
    if code >= END {
        return if (0xE0100..=0xE01EF).contains(&code) {
            Class::Mark
        } else {
            Class::Other
        };
    }
    let block = INDEX[(code >> 7) as usize];
    Class::from_digit(BLOCKS[block as usize][(code & 127) as usize])
}

/// The character at `at`, which lies in the text. A byte that begins no valid UTF-8 is an `Other` of one byte.
#[inline(always)]
pub(crate) fn character_at(text: &[u8], at: usize) -> Character {
    let lead = text[at];
    if lead < 0x80 {
        return Character {
            class: Class::from_digit(BLOCKS[0][lead as usize]),
            bytes: 1,
        };
    }
    wide_character_at(text, at)
}

/// The character at `at` where its first byte is not ASCII.
#[inline]
pub(crate) fn wide_character_at(text: &[u8], at: usize) -> Character {
    match decode(&text[at..]) {
        Some((code, bytes)) => Character {
            class: class_of(code),
            bytes,
        },
        None => Character {
            class: Class::Other,
            bytes: 1,
        },
    }
}

/// The code point that the bytes begin with and its length, if they are valid UTF-8 beyond ASCII.
#[inline(always)]
fn decode(bytes: &[u8]) -> Option<(u32, usize)> {
    let tail = |byte: u8| (byte & 0xC0 == 0x80).then_some(u32::from(byte & 0x3F));
    match *bytes {
        [lead @ 0xE0..=0xEF, second, third, ..] => {
            let code = u32::from(lead & 0x0F) << 12 | tail(second)? << 6 | tail(third)?;
            (code >= 0x800 && !(0xD800..=0xDFFF).contains(&code)).then_some((code, 3))
        }
        [lead @ 0xC2..=0xDF, second, ..] => Some((u32::from(lead & 0x1F) << 6 | tail(second)?, 2)),
        [lead @ 0xF0..=0xF4, second, third, fourth, ..] => {
            let code = u32::from(lead & 0x07) << 18
                | tail(second)? << 12
                | tail(third)? << 6
                | tail(fourth)?;
            (0x1_0000..=0x10_FFFF).contains(&code).then_some((code, 4))
        }
        _ => None,
    }
}

/// The character that ends just before `at`, and whether it is whole: `None` where the bytes before are not valid.
pub(crate) fn character_before(text: &[u8], at: usize) -> Option<Character> {
    let mut start = at.checked_sub(1)?;
    while at - start < 4 && start > 0 && text[start] & 0xC0 == 0x80 {
        start -= 1;
    }
    if at - start == 1 {
        return (text[start] < 0x80).then(|| character_at(text, start));
    }
    let (code, bytes) = decode(&text[start..at])?;
    (bytes == at - start).then(|| Character {
        class: class_of(code),
        bytes,
    })
}
