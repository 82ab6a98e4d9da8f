//! The record that declares a stack: one frame, and the stack that it was called from.
//!
//! Numbers are the writer's own, counted from zero, so a parent's is smaller than its child's.

use nilo_sample::Frame;

use crate::header::u32_at;
use crate::record::{self, KIND_STACK};

/// The longest function name that is kept, in bytes: names of generated code can be pages long.
const MAX_FUNCTION_LEN: usize = 256;
/// The longest file name that is kept, in bytes. Of longer ones the end is kept, which says more.
const MAX_FILE_LEN: usize = 1024;
/// Stands for the parent of an outermost frame.
const NO_PARENT: u32 = u32::MAX;
/// Number, parent, line, length of the function's name.
pub(crate) const FIXED_LEN: usize = 14;

/// A stack as a file declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeclaredStack<'a> {
    pub(crate) number: u32,
    pub(crate) parent: Option<u32>,
    pub(crate) frame: Frame<'a>,
}

impl<'a> DeclaredStack<'a> {
    /// A whole record. The frame was cut to length by [`bounded`].
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Frame {
            function,
            file,
            line,
        } = self.frame;
        let parts: [&[u8]; 6] = [
            &self.number.to_le_bytes(),
            &self.parent.unwrap_or(NO_PARENT).to_le_bytes(),
            &line.to_le_bytes(),
            &(function.len() as u16).to_le_bytes(),
            function.as_bytes(),
            file.as_bytes(),
        ];
        record::encode(KIND_STACK, &parts).expect("names are cut to length")
    }

    /// Reads a record's body; `None` when it is not one that a writer makes.
    pub(crate) fn decode(body: &'a [u8]) -> Option<DeclaredStack<'a>> {
        let names = body.get(FIXED_LEN..)?;
        let function_len = usize::from(u16::from_le_bytes([body[12], body[13]]));
        let (function, file) = names.split_at_checked(function_len)?;
        let (number, parent) = (u32_at(body, 0), u32_at(body, 4));
        let is_in_order = parent == NO_PARENT || parent < number;
        is_in_order.then_some(DeclaredStack {
            number,
            parent: (parent != NO_PARENT).then_some(parent),
            frame: Frame {
                function: std::str::from_utf8(function).ok()?,
                file: std::str::from_utf8(file).ok()?,
                line: u32_at(body, 8),
            },
        })
    }
}

/// A frame with names no longer than a file keeps.
pub(crate) fn bounded<'a>(frame: &Frame<'a>) -> Frame<'a> {
    let file_from = frame.file.len().saturating_sub(MAX_FILE_LEN);
    Frame {
        function: &frame.function[..frame.function.floor_char_boundary(MAX_FUNCTION_LEN)],
        file: &frame.file[frame.file.ceil_char_boundary(file_from)..],
        line: frame.line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{HEAD_LEN, NextRecord, Record, read_front};

    #[test]
    fn a_stack_is_read_as_it_was_written() {
        for parent in [None, Some(0), Some(6)] {
            let frame = Frame {
                function: "forward",
                file: "/home/ada/модель.py",
                line: 42,
            };
            let stack = DeclaredStack {
                number: 7,
                parent,
                frame,
            };
            let record = stack.encode();
            match read_front(&record) {
                NextRecord::Record(Record::Stack(body), len) => {
                    assert_eq!(len, record.len());
                    assert_eq!(DeclaredStack::decode(body), Some(stack));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_body_that_no_writer_makes_is_refused() {
        let frame = Frame {
            function: "f",
            file: "g",
            line: 1,
        };
        let good = DeclaredStack {
            number: 3,
            parent: Some(2),
            frame,
        };
        let body = good.encode()[HEAD_LEN..HEAD_LEN + FIXED_LEN + 2].to_vec();
        assert_eq!(DeclaredStack::decode(&body), Some(good));
        for len in 0..FIXED_LEN + 1 {
            assert_eq!(DeclaredStack::decode(&body[..len]), None, "{len} bytes");
        }
        let damaged = |at: usize, byte: u8| {
            let mut body = body.clone();
            body[at] = byte;
            DeclaredStack::decode(&body).is_none()
        };
        assert!(damaged(4, 3), "a parent that is itself");
        assert!(damaged(12, 200), "a name longer than the record");
        assert!(damaged(FIXED_LEN, 0xff), "a name that is not UTF-8");
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let function = "é".repeat(300);
        let file = format!("{}/train.py", "ü".repeat(2000));
        let cut = bounded(&Frame {
            function: &function,
            file: &file,
            line: 1,
        });
        assert_eq!(cut.function.len(), MAX_FUNCTION_LEN);
        assert!(cut.file.len() <= MAX_FILE_LEN && cut.file.ends_with("/train.py"));
    }
}
