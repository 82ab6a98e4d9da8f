//! Base64 with padding, as ranks are written.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(3) {
        let number = group.iter().enumerate().fold(0u32, |sum, (index, &byte)| {
            sum | u32::from(byte) << (16 - 8 * index)
        });
        for digit in 0..4 {
            if digit <= group.len() {
                out.push(char::from(
                    DIGITS[(number >> (18 - 6 * digit) & 63) as usize],
                ));
            } else {
                out.push('=');
            }
        }
    }
}

/// `None` for anything that [`encode`] does not write.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for (index, group) in text.chunks(4).enumerate() {
        let padding = group
            .iter()
            .rev()
            .take_while(|&&digit| digit == b'=')
            .count();
        if padding > 2 || padding > 0 && (index + 1) * 4 != text.len() {
            return None;
        }
        let mut number = 0u32;
        for &digit in &group[..4 - padding] {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            number = number << 6 | u32::from(value);
        }
        number <<= 6 * padding;
        let group = [(number >> 16) as u8, (number >> 8) as u8, number as u8];
        if group[3 - padding..].iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(&group[..3 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts_are_written_and_read() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}>", "w78+"),
        ] {
            let mut written = String::new();
            encode(bytes.as_bytes(), &mut written);
            assert_eq!(written, text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for wrong in ["Zg", "Zg=", "Z===", "Zg==Zg==", "Zh==", "Zm9=", "Z g="] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
