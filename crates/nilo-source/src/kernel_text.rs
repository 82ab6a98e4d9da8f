//! Numbers out of the text that the kernel writes, without allocation.
//!
//! Every function takes arbitrary bytes and answers `None` where the number is missing, malformed or too large.

/// The number at the start of `text`, spaces and tabs before it skipped.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    take_number(text).map(|(value, _)| value)
}

/// The same, with what follows it.
pub(crate) fn take_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let blanks = text
        .iter()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    let text = &text[blanks..];
    let mut value: u64 = 0;
    let mut digits = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        digits += 1;
    }
    (digits > 0).then(|| (value, &text[digits..]))
}

/// The number on the line that starts with `label`.
pub(crate) fn labelled(text: &[u8], label: &[u8]) -> Option<u64> {
    number(line_after(text, label)?)
}

/// The rest of the line that starts with `label`.
pub(crate) fn line_after<'a>(text: &'a [u8], label: &[u8]) -> Option<&'a [u8]> {
    text.split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(label))
}

/// A number followed by `kB`, in bytes.
pub(crate) fn labelled_kib(text: &[u8], label: &[u8]) -> Option<u64> {
    labelled(text, label)?.checked_mul(1024)
}

/// Words between spaces; several spaces count as one.
pub(crate) fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b' ' | b'\t' | b'\n'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_and_nonsense_is_none() {
        assert_eq!(number(b"  42 kB"), Some(42));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b""), None);
        assert_eq!(
            labelled_kib(b"A: 1 kB\nVmHWM:\t  7 kB\n", b"VmHWM:"),
            Some(7168)
        );
        assert_eq!(labelled(b"xVmHWM: 1", b"VmHWM:"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>, label: Vec<u8>) {
            let _ = number(&text);
            let _ = labelled_kib(&text, &label);
            let _ = words(&text).count();
        }

        #[test]
        fn every_number_survives(value: u64) {
            prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
        }
    }
}
