//! What a maker's file offers: the GPUs that its driver knows, and a reading of each.

use thiserror::Error;

use crate::gpu::{GpuDevice, GpuReading};

/// The GPUs of one maker. A new maker is a type with these two, and a line in `all_gpus.rs`.
pub(super) trait GpuDriver {
    /// Every GPU; they do not change once the driver is open.
    fn devices(&self) -> &[GpuDevice];

    /// Reads the GPU at this place of [`GpuDriver::devices`] into the reading that was taken of it before.
    fn read(&mut self, place: usize, reading: &mut GpuReading) -> Result<(), GpuError>;
}

/// Why there are no GPUs to read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoGpus {
    /// No driver or no GPU: the usual thing on most machines, and nothing to speak of.
    #[error("there is no driver with a GPU here: {reason}")]
    NoDriver {
        /// In the words of the loader or of the driver.
        reason: String,
    },
    /// There is a driver, and it does not work.
    #[error("cannot query the NVIDIA driver: {reason}")]
    Broken {
        /// In the driver's words.
        reason: String,
    },
}

/// Why a GPU cannot be read at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct GpuError {
    /// In the driver's words.
    pub reason: String,
}
