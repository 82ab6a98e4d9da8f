//! What `nilo gpu` answers: the GPUs, memory in use, what well-known models take, measured throughput, and which models fit.

pub mod answer;
pub mod compatibility;
pub mod devices;
pub mod requirements;
pub mod throughput;

pub use answer::{GpuAnswer, MachineGpus};
