//! Stacks in a writer's stream: each is declared once in a segment, and rows name it by number.

use nilo_sample::{Event, Frame, StackId};

use super::RunWriter;
use crate::clock;
use crate::segment::Segment;
use crate::written_stacks::MAX_FRAMES;

impl RunWriter {
    /// The number of a stack, from the outermost frame in, for a column called [`nilo_sample::STACK_COLUMN`]. Ask again for each row: a new segment needs the declaration anew.
    /// `None` without a frame, when the writer has all the stacks that it keeps, or when the stack could not be stored.
    ///
    /// A known stack costs a look-up for each frame, and allocates nothing.
    pub fn intern_stack(&mut self, frames: &[Frame<'_>]) -> Option<StackId> {
        if self.is_foreign() {
            return None;
        }
        let Ok(found) = self.stacks.find_or_add(frames) else {
            return self.tell_of_too_many_stacks();
        };
        let stack = found?;
        let segment = self.segment.as_ref().map(Segment::number);
        match segment.is_some_and(|number| self.stacks.is_declared(stack, number)) {
            true => Some(stack),
            false => self.declare_stack(stack),
        }
    }

    #[cold]
    fn declare_stack(&mut self, stack: StackId) -> Option<StackId> {
        let segment = self.segment.as_ref().map(Segment::number);
        let all = self.stacks.missing_in(stack, None);
        let missing = self.stacks.missing_in(stack, segment);
        let has_room = self.prepare(clock::monotonic_nanos(), all.len(), |open| {
            match segment == Some(open.number()) {
                true => missing.len(),
                false => all.len(),
            }
        });
        if !has_room {
            return None;
        }
        let open = self.segment.as_mut()?;
        let number = open.number();
        let records = if segment == Some(number) {
            missing
        } else {
            all
        };
        if let Err(error) = open.append_records(&records) {
            self.fail(&error);
            return None;
        }
        self.stacks.note_declared(stack, number);
        Some(stack)
    }

    #[cold]
    fn tell_of_too_many_stacks(&mut self) -> Option<StackId> {
        if !std::mem::replace(&mut self.has_told_of_too_many_stacks, true) {
            let text = format!(
                "more than {MAX_FRAMES} distinct frames of stacks; rows with others have none"
            );
            self.event(clock::monotonic_nanos(), &Event::Blind { text });
        }
        None
    }
}
