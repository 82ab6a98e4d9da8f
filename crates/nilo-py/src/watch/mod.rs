//! The native half of `nilometer.torch.watch`: what runs in every step of a training loop.
//!
//! `steps` knows which part of a step the loop is in, `hooks` are the objects that torch calls, `torch` is what they ask of torch,
//! `budget` says when the next look at a GPU may be taken.

mod budget;
mod hooks;
mod steps;
mod torch;

pub(crate) use hooks::{GraphHook, OptimizerHook, StepWatch, WatchedCall};
