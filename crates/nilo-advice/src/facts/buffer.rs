//! A replay buffer or a cache.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One buffer, as `ReplayBuffer`, `BufferManager` or `inspect_buffer` of the package see it.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct BufferFacts {
    /// Its name.
    pub name: String,
    /// The library that it is from: `nilometer`, `stable_baselines3`, `numpy`.
    pub library: Option<String>,
    /// Bytes that it will take when it is full.
    pub projected_bytes: Option<f64>,
    /// How many times smaller compression makes its frames, one by one, in a sample.
    pub image_compression_ratio: Option<f64>,
    /// Bytes in frames of images.
    pub image_bytes: Option<f64>,
    /// Share of sampled transitions whose next observation is the observation of the one after.
    pub next_observation_repeats_ratio: Option<f64>,
    /// Bytes of next observations.
    pub next_observation_bytes: Option<f64>,
    /// Frames in a stack, where neighbouring stacks share all but one.
    pub stacked_frames: Option<u64>,
    /// Bytes in float64 whose values are float32 values, or come from an environment.
    pub float64_bytes: Option<f64>,
    /// Bytes in 64-bit integers.
    pub int64_bytes: Option<f64>,
    /// The largest of those integers; all are at least zero.
    pub int64_largest: Option<u64>,
}
