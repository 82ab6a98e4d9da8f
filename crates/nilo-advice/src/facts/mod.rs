//! What is known of a training program. Everything may be absent, and JSON that a later version wrote is read as far as it is understood.

mod batch;
mod buffer;
mod collector;
mod host;
mod lenient;
mod loader;
mod model;
mod out_of_memory;
mod thresholds;
mod torch;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use batch::BatchFacts;
pub use buffer::BufferFacts;
pub use collector::CollectorFacts;
pub use host::HostFacts;
pub use loader::LoaderFacts;
pub use model::ModelFacts;
pub use out_of_memory::OutOfMemoryFacts;
pub use thresholds::ThresholdFacts;
pub use torch::TorchFacts;

/// What was measured or read of a program, by subject.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Memory of the process tree and its heap.
    pub host: HostFacts,
    /// How it ran out of memory, where it did.
    pub out_of_memory: OutOfMemoryFacts,
    /// Python's garbage collector.
    pub gc: CollectorFacts,
    /// Replay buffers and caches, each by its name.
    pub buffers: Vec<BufferFacts>,
    /// The data loader.
    pub loader: LoaderFacts,
    /// GPU memory by PyTorch's account.
    pub torch: TorchFacts,
    /// The model, its optimizer, and where the memory of a step goes.
    pub model: ModelFacts,
    /// Batches and their fit.
    pub batch: BatchFacts,
    /// What the user allows the program.
    pub thresholds: ThresholdFacts,
}
