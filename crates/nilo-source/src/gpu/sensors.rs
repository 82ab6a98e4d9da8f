//! What a GPU's sensors say: power, temperature, clocks, why clocks are lowered, memory errors, traffic over NVLink.

use std::time::{Duration, Instant};

/// Sensors are read this often; a little less than a second, so that a tick that comes early is in time.
/// Each is a question of its own to a driver, and none of them says more when it is asked often: drivers average power over a second themselves.
pub(super) const SENSORS_AGAIN: Duration = Duration::from_millis(900);

pub(super) fn is_recent(at: Option<Instant>, now: Instant, again: Duration) -> bool {
    at.is_some_and(|at| now.duration_since(at) < again)
}

/// The sensors of one GPU; `None` where its driver does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuSensors {
    /// Power draw.
    pub power_milliwatts: Option<u64>,
    /// The power limit in force.
    pub power_limit_milliwatts: Option<u64>,
    /// Temperature of the chip.
    pub temperature_celsius: Option<u32>,
    /// Clock of the compute units.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory.
    pub memory_clock_mhz: Option<u32>,
    /// Why clocks are lowered at the moment.
    pub throttling: Option<GpuThrottling>,
    /// Memory errors that could not be corrected, since the driver was loaded.
    pub uncorrected_ecc_errors: Option<u64>,
    /// What went over its NVLinks.
    pub nvlink: Option<NvlinkTraffic>,
}

/// What a GPU has sent to others and received from them over NVLink, all links together, since the driver was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NvlinkTraffic {
    /// Without the protocol's own bytes.
    pub sent_bytes: u64,
    /// Likewise.
    pub received_bytes: u64,
}

/// Why clocks are lowered. Idle GPUs and clocks that the user chose are not throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuThrottling {
    /// To stay within the power limit.
    pub by_power: bool,
    /// The chip or its memory is too hot.
    pub by_heat: bool,
    /// The hardware does it for another reason, such as the power supply's brake.
    pub by_hardware: bool,
}

impl GpuThrottling {
    /// The reasons by name, as they stand in columns and in Python.
    pub fn reasons(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (self.by_power, "power"),
            (self.by_heat, "heat"),
            (self.by_hardware, "hardware"),
        ];
        all.into_iter()
            .filter_map(|(is_so, name)| is_so.then_some(name))
    }
}
