//! Text from outside on a screen: names, tags, marks and paths may hold anything.

use std::borrow::Cow;

/// The text with a blank in the place of every character that moves the cursor, starts an escape sequence,
/// turns the reading direction or takes no room, so that what is shown is what is there.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if is_printable(c) { c } else { ' ' })
        .collect()
}

/// Whether a character shows itself and leaves the rest of the line alone.
pub fn is_printable(c: char) -> bool {
    !(c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        ))
}

/// Bytes that should be UTF-8. Each byte that is not stands as Python's `os.fsdecode` and `backslashreplace` write it (`\udcff`),
/// so that the command and the Python package record one argument in one way, and two arguments stay two.
pub fn text_of_bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\udc{byte:02x}"));
        }
    }
    Cow::Owned(text)
}

/// JSON with everything that is not printable written as `\u202e`, which means the same. Line ends of the layout stay; those inside of texts are escaped already.
pub fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || is_printable(c) {
            escaped.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_written_as_python_writes_them() {
        assert_eq!(text_of_bytes("größe".as_bytes()), "größe");
        assert_eq!(
            text_of_bytes(b"--data=\xff\xfe.bin"),
            r"--data=\udcff\udcfe.bin"
        );
        // An encoded surrogate is no UTF-8 either, nor is a character that breaks off.
        assert_eq!(text_of_bytes(b"\xed\xa0\x80"), r"\udced\udca0\udc80");
        assert_eq!(text_of_bytes(b"a\xe2\x82"), r"a\udce2\udc82");
    }

    #[test]
    fn nothing_moves_the_cursor_turns_the_line_or_hides() {
        let text =
            "a\u{1b}[2Jb\nc\u{9b}d\u{202e}e\u{200b}f\u{2066}g\u{feff}h\u{ad}i\u{e0041}j\u{7f}";
        assert_eq!(printable(text), "a [2Jb c d e f g h i j ");
        assert_eq!(printable("größe 模型 🙂"), "größe 模型 🙂");
    }
}
