//! The virtual machine: runs through the opcodes once, keeps the stack, and gives containers to the builder as they are filled.

use super::error::PickleError;
use super::input::PickleInput;
use super::memo::PickleMemo;
use super::opcode as op;
use super::value::{PickleKind, PickleValue};

/// Stacks up to this are never too large: Python writes a thousand items at a time, and call stacks are deep.
const SMALL_STACK: usize = 1 << 16;
/// The C++ writer puts all events on the stack before it makes a list of them; each is far longer than this in the file.
const BYTES_AN_OPEN_VALUE: usize = 16;

/// Keeps the objects of a pickle. An error is one sentence; the machine adds the place.
pub trait ObjectBuilder {
    /// A text, as the bytes of the file.
    fn text(&mut self, bytes: &[u8]) -> Result<u32, String>;
    /// A whole number that does not fit into a value.
    fn wide(&mut self, number: u64) -> Result<u32, String>;
    /// A float.
    fn float(&mut self, number: f64) -> Result<u32, String>;
    /// A new, empty dict.
    fn dict(&mut self) -> Result<u32, String>;
    /// Keys and values in turn, put into a dict.
    fn set_items(&mut self, dict: u32, pairs: &[PickleValue]) -> Result<(), String>;
    /// A new, empty list.
    fn list(&mut self) -> Result<u32, String>;
    /// Items added to the end of a list.
    fn append(&mut self, list: u32, items: &[PickleValue]) -> Result<(), String>;
    /// A tuple of these items.
    fn tuple(&mut self, items: &[PickleValue]) -> Result<u32, String>;
}

/// Reads one pickle and returns the object it stands for.
pub fn run_pickle<B: ObjectBuilder>(
    bytes: &[u8],
    builder: &mut B,
) -> Result<PickleValue, PickleError> {
    if bytes.first() != Some(&op::PROTO) {
        return Err(PickleError::NotAPickle);
    }
    let machine = PickleMachine {
        input: PickleInput::new(bytes),
        builder,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: PickleMemo::default(),
        opcode_offset: 0,
        most_open: SMALL_STACK + bytes.len() / BYTES_AN_OPEN_VALUE,
    };
    machine.run()
}

struct PickleMachine<'a, B> {
    input: PickleInput<'a>,
    builder: &'a mut B,
    stack: Vec<PickleValue>,
    /// The stack's length at each open MARK.
    marks: Vec<usize>,
    memo: PickleMemo,
    opcode_offset: usize,
    /// The most values and marks that may be on the stack.
    most_open: usize,
}

impl<B: ObjectBuilder> PickleMachine<'_, B> {
    fn run(mut self) -> Result<PickleValue, PickleError> {
        loop {
            self.opcode_offset = self.input.position();
            if self.stack.len() + self.marks.len() > self.most_open {
                return Err(PickleError::TooManyOpen {
                    offset: self.opcode_offset,
                });
            }
            let opcode = self.input.byte()?;
            match opcode {
                op::BINGET => {
                    let index = u32::from(self.input.byte()?);
                    self.get(index)?;
                }
                op::LONG_BINGET => {
                    let index = self.input.u32()?;
                    self.get(index)?;
                }
                op::MEMOIZE => {
                    let value = self.last("MEMOIZE")?;
                    self.memo.push(value);
                }
                op::BINPUT => {
                    let index = u32::from(self.input.byte()?);
                    let value = self.last("BINPUT")?;
                    self.memo.put(index, value);
                }
                op::LONG_BINPUT => {
                    let index = self.input.u32()?;
                    let value = self.last("LONG_BINPUT")?;
                    self.memo.put(index, value);
                }
                op::MARK => self.marks.push(self.stack.len()),
                op::BININT1 => {
                    let number = self.input.byte()?;
                    self.push(PickleKind::Int(i64::from(number)));
                }
                op::BININT2 => {
                    let number = u16::from_le_bytes(self.input.array()?);
                    self.push(PickleKind::Int(i64::from(number)));
                }
                op::BININT => {
                    let number = i32::from_le_bytes(self.input.array()?);
                    self.push(PickleKind::Int(i64::from(number)));
                }
                op::LONG1 => {
                    let length = u64::from(self.input.byte()?);
                    self.long(length)?;
                }
                op::LONG4 => {
                    let length = u64::from(self.input.u32()?);
                    self.long(length)?;
                }
                op::SHORT_BINUNICODE | op::SHORT_BINSTRING => {
                    let length = u64::from(self.input.byte()?);
                    self.text(length)?;
                }
                op::BINUNICODE | op::BINSTRING => {
                    let length = u64::from(self.input.u32()?);
                    self.text(length)?;
                }
                op::BINUNICODE8 => {
                    let length = u64::from_le_bytes(self.input.array()?);
                    self.text(length)?;
                }
                op::EMPTY_DICT => {
                    let dict = self.builder.dict();
                    let dict = self.placed(dict)?;
                    self.push(PickleKind::Dict(dict));
                }
                op::EMPTY_LIST | op::EMPTY_SET => {
                    let list = self.builder.list();
                    let list = self.placed(list)?;
                    self.push(PickleKind::List(list));
                }
                op::SETITEMS => {
                    let mark = self.mark("SETITEMS")?;
                    self.set_items("SETITEMS", mark)?;
                }
                op::SETITEM => {
                    let start = self.below("SETITEM", 2)?;
                    self.set_items("SETITEM", start)?;
                }
                op::APPENDS => {
                    let mark = self.mark("APPENDS")?;
                    self.append("APPENDS", mark)?;
                }
                op::ADDITEMS => {
                    let mark = self.mark("ADDITEMS")?;
                    self.append("ADDITEMS", mark)?;
                }
                op::APPEND => {
                    let start = self.below("APPEND", 1)?;
                    self.append("APPEND", start)?;
                }
                op::EMPTY_TUPLE => self.tuple(self.stack.len())?,
                op::TUPLE1 => {
                    let start = self.below("TUPLE1", 1)?;
                    self.tuple(start)?;
                }
                op::TUPLE2 => {
                    let start = self.below("TUPLE2", 2)?;
                    self.tuple(start)?;
                }
                op::TUPLE3 => {
                    let start = self.below("TUPLE3", 3)?;
                    self.tuple(start)?;
                }
                op::TUPLE => {
                    let mark = self.mark("TUPLE")?;
                    self.tuple(mark)?;
                }
                op::FROZENSET => {
                    let mark = self.mark("FROZENSET")?;
                    self.tuple(mark)?;
                }
                op::LIST => self.whole_list()?,
                op::DICT => self.whole_dict()?,
                op::NONE => self.push(PickleKind::None),
                op::NEWTRUE => self.push(PickleKind::Bool(true)),
                op::NEWFALSE => self.push(PickleKind::Bool(false)),
                op::BINFLOAT => {
                    let number = f64::from_be_bytes(self.input.array()?);
                    let float = self.builder.float(number);
                    let float = self.placed(float)?;
                    self.push(PickleKind::Float(float));
                }
                op::SHORT_BINBYTES => {
                    let length = u64::from(self.input.byte()?);
                    self.opaque(length)?;
                }
                op::BINBYTES => {
                    let length = u64::from(self.input.u32()?);
                    self.opaque(length)?;
                }
                op::BINBYTES8 | op::BYTEARRAY8 => {
                    let length = u64::from_le_bytes(self.input.array()?);
                    self.opaque(length)?;
                }
                op::POP => match self.marks.last() {
                    Some(&mark) if mark == self.stack.len() => drop(self.marks.pop()),
                    _ => {
                        let start = self.below("POP", 1)?;
                        self.stack.truncate(start);
                    }
                },
                op::POP_MARK => {
                    let mark = self.mark("POP_MARK")?;
                    self.stack.truncate(mark);
                }
                op::DUP => {
                    let value = self.last("DUP")?;
                    self.stack.push(value);
                }
                op::FRAME => drop(self.input.array::<8>()?),
                op::PROTO => {
                    let protocol = self.input.byte()?;
                    if !(2..=5).contains(&protocol) {
                        return Err(PickleError::Protocol { protocol });
                    }
                }
                op::STOP => return self.last("STOP"),
                _ => return Err(self.refuse(opcode)),
            }
        }
    }

    fn refuse(&self, byte: u8) -> PickleError {
        let offset = self.opcode_offset;
        match op::code_opcode(byte) {
            Some(opcode) => PickleError::RunsCode { opcode, offset },
            None => PickleError::UnknownOpcode { byte, offset },
        }
    }

    fn placed<T>(&self, result: Result<T, String>) -> Result<T, PickleError> {
        result.map_err(|problem| PickleError::Content {
            offset: self.opcode_offset,
            problem,
        })
    }

    fn operands(&self, opcode: &'static str) -> PickleError {
        PickleError::Operands {
            opcode,
            offset: self.opcode_offset,
        }
    }

    #[inline]
    fn push(&mut self, kind: PickleKind) {
        self.stack.push(PickleValue::new(kind));
    }

    #[inline]
    fn get(&mut self, index: u32) -> Result<(), PickleError> {
        let offset = self.opcode_offset;
        let value = self
            .memo
            .get(index)
            .ok_or(PickleError::MissingMemo { index, offset })?;
        self.stack.push(value);
        Ok(())
    }

    #[inline]
    fn last(&self, opcode: &'static str) -> Result<PickleValue, PickleError> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        match self.stack.last() {
            Some(value) if self.stack.len() > bottom => Ok(*value),
            _ => Err(self.operands(opcode)),
        }
    }

    /// Where the topmost `count` values begin; they must lie above the last mark.
    #[inline]
    fn below(&self, opcode: &'static str, count: usize) -> Result<usize, PickleError> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        let start = self.stack.len().checked_sub(count);
        start
            .filter(|start| *start >= bottom)
            .ok_or_else(|| self.operands(opcode))
    }

    #[inline]
    fn mark(&mut self, opcode: &'static str) -> Result<usize, PickleError> {
        self.marks.pop().ok_or_else(|| self.operands(opcode))
    }

    fn text(&mut self, length: u64) -> Result<(), PickleError> {
        let bytes = self.input.slice(length)?;
        let text = self.builder.text(bytes);
        let text = self.placed(text)?;
        self.push(PickleKind::Text(text));
        Ok(())
    }

    fn opaque(&mut self, length: u64) -> Result<(), PickleError> {
        self.input.slice(length)?;
        self.push(PickleKind::Opaque);
        Ok(())
    }

    /// A whole number in two's complement. Addresses from 2^63 on have nine bytes, the last of them zero.
    fn long(&mut self, length: u64) -> Result<(), PickleError> {
        let bytes = self.input.slice(length)?;
        let negative = bytes.last().is_some_and(|last| *last >= 0x80);
        let mut low = [if negative { 0xff } else { 0 }; 8];
        let kept = bytes.len().min(8);
        low[..kept].copy_from_slice(&bytes[..kept]);
        // The rest may only repeat the sign; a last zero byte keeps a large number positive.
        let extension = if negative { 0xff } else { 0 };
        let is_number = bytes[kept..].iter().all(|byte| *byte == extension);
        let number = i64::from_le_bytes(low);
        let kind = if !is_number || (negative && number >= 0) {
            PickleKind::Opaque
        } else if (number < 0) == negative && PickleValue::fits(number) {
            PickleKind::Int(number)
        } else {
            let wide = self.builder.wide(number as u64);
            PickleKind::Wide(self.placed(wide)?)
        };
        self.push(kind);
        Ok(())
    }

    fn set_items(&mut self, opcode: &'static str, start: usize) -> Result<(), PickleError> {
        let dict = start.checked_sub(1).map(|place| self.stack[place].kind());
        let pairs = &self.stack[start..];
        let (Some(PickleKind::Dict(dict)), true) = (dict, pairs.len().is_multiple_of(2)) else {
            return Err(self.operands(opcode));
        };
        let result = self.builder.set_items(dict, pairs);
        self.placed(result)?;
        self.stack.truncate(start);
        Ok(())
    }

    fn append(&mut self, opcode: &'static str, start: usize) -> Result<(), PickleError> {
        let list = start.checked_sub(1).map(|place| self.stack[place].kind());
        let Some(PickleKind::List(list)) = list else {
            return Err(self.operands(opcode));
        };
        let result = self.builder.append(list, &self.stack[start..]);
        self.placed(result)?;
        self.stack.truncate(start);
        Ok(())
    }

    fn tuple(&mut self, start: usize) -> Result<(), PickleError> {
        let tuple = self.builder.tuple(&self.stack[start..]);
        let tuple = self.placed(tuple)?;
        self.stack.truncate(start);
        self.push(PickleKind::Tuple(tuple));
        Ok(())
    }

    /// LIST: everything since the mark becomes a list.
    fn whole_list(&mut self) -> Result<(), PickleError> {
        let mark = self.mark("LIST")?;
        let list = self.builder.list();
        let list = self.placed(list)?;
        let result = self.builder.append(list, &self.stack[mark..]);
        self.placed(result)?;
        self.stack.truncate(mark);
        self.push(PickleKind::List(list));
        Ok(())
    }

    /// DICT: everything since the mark becomes a dict.
    fn whole_dict(&mut self) -> Result<(), PickleError> {
        let mark = self.mark("DICT")?;
        let pairs = &self.stack[mark..];
        if !pairs.len().is_multiple_of(2) {
            return Err(self.operands("DICT"));
        }
        let dict = self.builder.dict();
        let dict = self.placed(dict)?;
        let result = self.builder.set_items(dict, &self.stack[mark..]);
        self.placed(result)?;
        self.stack.truncate(mark);
        self.push(PickleKind::Dict(dict));
        Ok(())
    }
}
