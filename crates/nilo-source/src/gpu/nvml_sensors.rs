//! The sensors of an NVIDIA GPU.
//!
//! Each is a call of the driver, as expensive as a reading of the memory. They are read once a second (six calls, five where there is no NVLink) while memory is read up to five times a second (two to four calls),
//! and what hardly ever changes every ten seconds (two calls).
//! PCIe throughput is left out: the driver measures for 20 ms before it answers.
//!
//! What a GPU or its driver does not have is not asked for again.

use std::time::{Duration, Instant};

use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use crate::gpu::nvml::in_words;
use crate::gpu::nvml_links::nvlink_traffic;
use crate::gpu::sensors::{SENSORS_AGAIN, is_recent};
use crate::gpu::{GpuReading, GpuThrottling};

/// The power limit and error counters are read this often.
const RARELY_AGAIN: Duration = Duration::from_millis(9_900);

/// One thing to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sensor {
    Power,
    PowerLimit,
    Temperature,
    SmClock,
    MemoryClock,
    Throttling,
    EccErrors,
    Nvlink,
}

const SENSORS: usize = Sensor::Nvlink as usize + 1;

impl Sensor {
    fn name(self) -> &'static str {
        match self {
            Sensor::Power => "power",
            Sensor::PowerLimit => "power limit",
            Sensor::Temperature => "temperature",
            Sensor::SmClock => "clock",
            Sensor::MemoryClock => "memory clock",
            Sensor::Throttling => "throttling",
            Sensor::EccErrors => "ECC errors",
            Sensor::Nvlink => "NVLink traffic",
        }
    }
}

/// What is known of one GPU's sensors.
#[derive(Debug, Default)]
pub(super) struct NvmlSensors {
    missing: [bool; SENSORS],
    read_at: Option<Instant>,
    rarely_read_at: Option<Instant>,
}

impl NvmlSensors {
    /// Reads what is due into the reading that was taken before.
    pub(super) fn read(&mut self, device: &Device<'_>, reading: &mut GpuReading) {
        let now = Instant::now();
        if is_recent(self.read_at, now, SENSORS_AGAIN) {
            return;
        }
        self.read_at = Some(now);
        let mut failure = None;
        let mut sensors = reading.sensors;
        sensors.power_milliwatts = self
            .ask(Sensor::Power, &mut failure, || device.power_usage())
            .map(u64::from);
        sensors.temperature_celsius = self.ask(Sensor::Temperature, &mut failure, || {
            device.temperature(TemperatureSensor::Gpu)
        });
        sensors.sm_clock_mhz = self.ask(Sensor::SmClock, &mut failure, || {
            device.clock_info(Clock::SM)
        });
        sensors.memory_clock_mhz = self.ask(Sensor::MemoryClock, &mut failure, || {
            device.clock_info(Clock::Memory)
        });
        sensors.throttling = self
            .ask(Sensor::Throttling, &mut failure, || {
                device.current_throttle_reasons()
            })
            .map(throttling_of);
        sensors.nvlink = self.ask(Sensor::Nvlink, &mut failure, || nvlink_traffic(device));
        if !is_recent(self.rarely_read_at, now, RARELY_AGAIN) {
            self.rarely_read_at = Some(now);
            sensors.power_limit_milliwatts = self
                .ask(Sensor::PowerLimit, &mut failure, || {
                    device.enforced_power_limit()
                })
                .map(u64::from);
            sensors.uncorrected_ecc_errors = self.ask(Sensor::EccErrors, &mut failure, || {
                device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)
            });
        }
        reading.sensors = sensors;
        reading.sensor_failure = failure;
    }

    /// The GPU could not be read: whatever it says next is read anew.
    pub(super) fn forget(&mut self) {
        self.read_at = None;
        self.rarely_read_at = None;
    }

    /// Asks for one of them; a driver that fails says why, and one that has no such thing is not asked again.
    fn ask<T>(
        &mut self,
        sensor: Sensor,
        failure: &mut Option<String>,
        question: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Option<T> {
        if self.missing[sensor as usize] {
            return None;
        }
        match question() {
            Ok(value) => Some(value),
            // Parts of a divided GPU have no sensors: drivers call the question itself invalid.
            Err(
                NvmlError::NotSupported
                | NvmlError::NoPermission
                | NvmlError::InvalidArg
                | NvmlError::FailedToLoadSymbol(_)
                | NvmlError::FunctionNotFound,
            ) => {
                self.missing[sensor as usize] = true;
                None
            }
            Err(error) => {
                failure.get_or_insert_with(|| format!("{}: {}", sensor.name(), in_words(&error)));
                None
            }
        }
    }
}

fn throttling_of(reasons: ThrottleReasons) -> GpuThrottling {
    let has = |reason| reasons.intersects(reason);
    let is_hot = has(ThrottleReasons::HW_THERMAL_SLOWDOWN);
    GpuThrottling {
        by_power: has(ThrottleReasons::SW_POWER_CAP),
        by_heat: is_hot || has(ThrottleReasons::SW_THERMAL_SLOWDOWN),
        // The general slowdown is set with that for heat, too.
        by_hardware: has(ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN)
            || has(ThrottleReasons::HW_SLOWDOWN) && !is_hot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lowers_clocks_is_told_apart_and_an_idle_gpu_is_not_throttled() {
        let reasons = |bits| -> Vec<&str> {
            let reasons = ThrottleReasons::from_bits_truncate(bits);
            throttling_of(reasons).reasons().collect()
        };
        assert!(reasons(0).is_empty());
        // Idle, the user's clocks, sync boost, the display's clock.
        assert!(reasons(0x1 | 0x2 | 0x10 | 0x100).is_empty());
        assert_eq!(reasons(0x4), ["power"]);
        assert_eq!(reasons(0x20), ["heat"]);
        assert_eq!(reasons(0x8 | 0x40), ["heat"]);
        assert_eq!(reasons(0x8), ["hardware"]);
        assert_eq!(reasons(0x8 | 0x40 | 0x80), ["heat", "hardware"]);
        assert_eq!(reasons(0x4 | 0x20 | 0x80), ["power", "heat", "hardware"]);
    }
}
