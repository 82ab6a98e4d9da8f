//! The native half of `nilometer.torch.watch`: what runs in every step of a training loop.
//!
//! `steps` is a watched model, `state` where its loop is, `passes` what happens in it, `storing` how phases are stored; `hooks` are the objects that torch calls, `torch` is what they ask of torch,
//! `budget` says when the next look at a GPU may be taken.

mod budget;
mod hooks;
mod passes;
mod state;
mod steps;
mod storing;
mod torch;

pub(crate) use hooks::{GraphHook, OptimizerHook, StepWatch, WatchedCall};
