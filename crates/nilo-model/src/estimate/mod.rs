//! How much GPU memory a training or an inference takes: a dry run of some steps, through the model of PyTorch's allocator.

mod estimated;
mod largest_batch;
mod multiplications;
mod network_trial;
mod phase_peaks;
mod range;
mod settings;
mod sharding;
mod size_limit;
mod trial;
mod ways;

pub use estimated::{EstimateError, EstimatedPart, ModelEstimate, estimate, has_fused_kernel};
pub use largest_batch::{LARGEST_BATCH, LargestBatch, largest_batch};
pub use multiplications::forward_multiplications;
pub use phase_peaks::PhasePeak;
pub use range::{ByteRange, EstimateSpread};
pub use settings::{Checkpointing, EstimateSettings, LossKind, Precision, Work};
pub use sharding::{Parallelism, Sharding};
pub use trial::{Trial, try_decoder, try_model};
pub use ways::{TriedWay, Way, WayCost, ways_to_fit, ways_together};
