//! Observations as stacks of frames: what of a stack is new, and how stacks lie in the user's arrays.

use crate::frame_segment::Padding;
use crate::settings::StackAxis;

/// How the frames of one stack follow each other, and how the user's array has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackLayout {
    pub(crate) stack: usize,
    pub(crate) frame_bytes: usize,
    /// Where the stack is the last axis: bytes that lie together, one pixel of one frame.
    interleaved_bytes: Option<usize>,
}

impl StackLayout {
    pub(crate) fn new(
        stack: usize,
        frame_bytes: usize,
        axis: StackAxis,
        last_axis_bytes: usize,
    ) -> StackLayout {
        StackLayout {
            stack,
            frame_bytes,
            interleaved_bytes: (stack > 1 && axis == StackAxis::Last)
                .then(|| last_axis_bytes / stack),
        }
    }

    pub(crate) fn bytes(self) -> usize {
        self.stack * self.frame_bytes
    }

    pub(crate) fn is_interleaved(self) -> bool {
        self.interleaved_bytes.is_some()
    }

    /// The frames one after the other, from the user's array.
    pub(crate) fn separate(self, array: &[u8], frames: &mut Vec<u8>) {
        frames.clear();
        match self.interleaved_bytes {
            None => frames.extend_from_slice(array),
            Some(1) => {
                for place in 0..self.stack {
                    frames.extend(array.iter().skip(place).step_by(self.stack));
                }
            }
            Some(unit) => {
                for place in 0..self.stack {
                    let pixels = array.chunks_exact(unit).skip(place).step_by(self.stack);
                    pixels.for_each(|pixel| frames.extend_from_slice(pixel));
                }
            }
        }
    }

    /// The user's array from frames one after the other.
    pub(crate) fn interleave(self, frames: &[u8], array: &mut [u8]) {
        match (self.interleaved_bytes, self.stack) {
            (None, _) => array.copy_from_slice(frames),
            (Some(1), 4) => {
                let (first, second) = frames.split_at(2 * self.frame_bytes);
                let (first, second) = (
                    first.split_at(self.frame_bytes),
                    second.split_at(self.frame_bytes),
                );
                let pairs = first
                    .0
                    .iter()
                    .zip(first.1)
                    .zip(second.0.iter().zip(second.1));
                for (pixel, ((a, b), (c, d))) in array.chunks_exact_mut(4).zip(pairs) {
                    pixel.copy_from_slice(&[*a, *b, *c, *d]);
                }
            }
            (Some(unit), _) => {
                for (place, frame) in frames.chunks_exact(self.frame_bytes).enumerate() {
                    let targets = array.chunks_exact_mut(unit).skip(place).step_by(self.stack);
                    targets
                        .zip(frame.chunks_exact(unit))
                        .for_each(|(target, pixel)| target.copy_from_slice(pixel));
                }
            }
        }
    }

    /// Whether `next` is `previous` with the oldest frame gone and a new one at the end.
    pub(crate) fn is_shifted(self, previous: &[u8], next: &[u8]) -> bool {
        let kept = self.bytes() - self.frame_bytes;
        previous[self.frame_bytes..] == next[..kept]
    }

    /// How many frames at the beginning of a stack are padding, and of which kind: what an environment puts there after a reset.
    pub(crate) fn padding(self, frames: &[u8]) -> (usize, Padding) {
        let most = self.stack - 1;
        let each = || frames.chunks_exact(self.frame_bytes);
        let zeros = each()
            .take(most)
            .take_while(|frame| frame.iter().all(|&byte| byte == 0))
            .count();
        let repeats = each()
            .zip(each().skip(1))
            .take_while(|(frame, following)| frame == following)
            .count();
        match zeros >= repeats {
            true => (zeros, Padding::Zeros),
            false => (repeats, Padding::FirstFrame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_reset_puts_before_the_first_frame_is_found() {
        let layout = StackLayout::new(4, 2, StackAxis::First, 2);
        assert_eq!(
            layout.padding(&[0, 0, 0, 0, 0, 0, 5, 6]),
            (3, Padding::Zeros)
        );
        assert_eq!(
            layout.padding(&[5, 6, 5, 6, 5, 6, 5, 6]),
            (3, Padding::FirstFrame)
        );
        assert_eq!(
            layout.padding(&[5, 6, 5, 6, 5, 7, 5, 6]),
            (1, Padding::FirstFrame)
        );
        assert_eq!(layout.padding(&[0; 8]), (3, Padding::Zeros));
        assert_eq!(layout.padding(&[1, 2, 3, 4, 5, 6, 7, 8]).0, 0);
    }

    proptest! {
        #[test]
        fn interleaving_undoes_separating(stack in 2_usize..6, pixels in 1_usize..20, channels in 1_usize..4, seed: u64) {
            let mut random = fastrand::Rng::with_seed(seed);
            let array: Vec<u8> = (0..stack * pixels * channels).map(|_| random.u8(..)).collect();
            let layout = StackLayout::new(stack, pixels * channels, StackAxis::Last, stack * channels);
            let mut frames = Vec::new();
            layout.separate(&array, &mut frames);
            prop_assert_eq!(frames[1 % channels], array[1 % channels]);
            let mut back = vec![0; array.len()];
            layout.interleave(&frames, &mut back);
            prop_assert_eq!(back, array);
        }
    }
}
