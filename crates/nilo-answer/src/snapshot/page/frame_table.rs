//! The functions and call stacks that a page names, each once.

use std::collections::HashMap;

use nilo_allocator::GpuSnapshot;
use nilo_allocator::snapshot::CodeFrame;
use nilo_sample::printable::printable;
use serde::Serialize;

use super::super::call_stack::{FrameOrigin, frame_origin};
use super::super::memory_category::{MemoryCategory, category_of_stack};

/// One function.
#[derive(Debug, Clone, Serialize)]
pub struct PageFrame {
    /// The file, as recorded.
    pub file: String,
    /// The line; 0 where it is unknown.
    pub line: u32,
    /// The function.
    pub function: String,
    /// Whose code it is.
    pub origin: FrameOrigin,
}

/// A call stack in short.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PageStack {
    /// The frame to name it by, in the page's frames; `null` where it has none.
    pub main: Option<u32>,
    /// What it allocates, by its frames.
    pub category: MemoryCategory,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    pub(crate) frames: Vec<PageFrame>,
    pub(crate) stacks: Vec<PageStack>,
    frame_numbers: HashMap<CodeFrame, u32>,
    stack_numbers: HashMap<u32, u32>,
}

impl FrameTable {
    /// The page's number of a frame.
    pub(crate) fn frame(&mut self, snapshot: &GpuSnapshot, frame: CodeFrame) -> u32 {
        let frames = &mut self.frames;
        *self.frame_numbers.entry(frame).or_insert_with(|| {
            let file = snapshot.texts.get(frame.filename);
            frames.push(PageFrame {
                file: printable(&file),
                line: frame.line,
                function: printable(&snapshot.texts.get(frame.name)),
                origin: frame_origin(&file),
            });
            (frames.len() - 1) as u32
        })
    }

    /// The page's number of a stack.
    pub(crate) fn stack(&mut self, snapshot: &GpuSnapshot, stack: u32) -> u32 {
        if let Some(number) = self.stack_numbers.get(&stack) {
            return *number;
        }
        let is_users = |frame: &CodeFrame| {
            let origin = frame_origin(&snapshot.texts.get(frame.filename));
            matches!(origin, FrameOrigin::Own | FrameOrigin::Installed)
        };
        let mut frames = snapshot.stacks.stack(stack);
        let users = snapshot.stacks.stack(stack).find(is_users);
        let main = users.or_else(|| frames.next());
        let named = PageStack {
            main: main.map(|frame| self.frame(snapshot, frame)),
            category: category_of_stack(snapshot, stack).0,
        };
        self.stacks.push(named);
        let number = (self.stacks.len() - 1) as u32;
        self.stack_numbers.insert(stack, number);
        number
    }
}
