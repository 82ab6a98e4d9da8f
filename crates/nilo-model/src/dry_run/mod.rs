//! Training steps on tensors that have sizes and no data: which memory PyTorch would allocate, in which order.
//!
//! [`memory`] notes allocations; [`tensor`] frees them where Python would; [`session`] has PyTorch's state (autocast, gradients on or off, checkpoints);
//! [`ops`] say of each operation what it allocates, what it keeps for backward, and what backward allocates; [`graph`] runs backward in the order of PyTorch's engine.

pub mod checkpoint;
pub mod graph;
pub mod memory;
pub mod ops;
pub mod optimizer;
pub mod session;
pub mod tensor;

pub use memory::{Memory, Purpose, StepPhase};
pub use session::DryRun;
pub use tensor::{Dtype, Parameter, Tensor};

#[cfg(test)]
mod tests;
