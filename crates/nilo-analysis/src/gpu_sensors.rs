//! What a GPU's sensors said over a run: power, temperature, clocks, how long clocks were lowered and why, memory errors, traffic over NVLink.

use nilo_sample::{RecordedTable, SeriesView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::gpus::held_mean;

/// Figures of the sensors; a figure that the driver does not tell is absent.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct GpuSensorSummary {
    /// The last reading of the power draw.
    pub power_watts: Option<f64>,
    /// Mean power draw over time.
    pub mean_power_watts: Option<f64>,
    /// The highest reading of it.
    pub peak_power_watts: Option<f64>,
    /// The last power limit in force.
    pub power_limit_watts: Option<f64>,
    /// The last temperature of the chip.
    pub temperature_celsius: Option<f64>,
    /// The highest.
    pub peak_temperature_celsius: Option<f64>,
    /// The last clock of the compute units.
    pub sm_clock_mhz: Option<f64>,
    /// Mean clock of the compute units over time.
    pub mean_sm_clock_mhz: Option<f64>,
    /// The last clock of the memory.
    pub memory_clock_mhz: Option<f64>,
    /// Share of the time in which clocks were lowered to stay within the power limit.
    pub throttled_by_power_share: Option<f64>,
    /// Share of the time in which clocks were lowered because the GPU was too hot.
    pub throttled_by_heat_share: Option<f64>,
    /// Share of the time in which the hardware lowered clocks for another reason, such as the power supply's brake.
    pub throttled_by_hardware_share: Option<f64>,
    /// Memory errors that could not be corrected, counted while it was recorded.
    pub uncorrected_ecc_errors: Option<u64>,
    /// Sent to other GPUs over NVLink while it was recorded.
    pub nvlink_sent_bytes: Option<u64>,
    /// Received from other GPUs over NVLink while it was recorded.
    pub nvlink_received_bytes: Option<u64>,
}

/// Summarizes the sensors of a GPU's table; nothing where it has none.
pub(crate) fn summarize_sensors(table: &RecordedTable, end_nanos: u64) -> Option<GpuSensorSummary> {
    let last = |column: &str| table.series(column)?.last();
    let peak = |column: &str| table.series(column)?.max().map(|(_, value)| value);
    let mean = |column: &str| held_mean(table.series(column)?, end_nanos);
    let counted = |column: &str| growth(table.series(column)?);
    let sensors = GpuSensorSummary {
        power_watts: last("power_watts"),
        mean_power_watts: mean("power_watts"),
        peak_power_watts: peak("power_watts"),
        power_limit_watts: last("power_limit_watts"),
        temperature_celsius: last("temperature_celsius"),
        peak_temperature_celsius: peak("temperature_celsius"),
        sm_clock_mhz: last("sm_clock_mhz"),
        mean_sm_clock_mhz: mean("sm_clock_mhz"),
        memory_clock_mhz: last("memory_clock_mhz"),
        throttled_by_power_share: mean("throttled_by_power"),
        throttled_by_heat_share: mean("throttled_by_heat"),
        throttled_by_hardware_share: mean("throttled_by_hardware"),
        uncorrected_ecc_errors: counted("uncorrected_ecc_errors"),
        nvlink_sent_bytes: counted("nvlink_sent_bytes"),
        nvlink_received_bytes: counted("nvlink_received_bytes"),
    };
    (sensors != GpuSensorSummary::default()).then_some(sensors)
}

/// How far a counter rose; one that begins anew, as after a reset of the GPU, counts from nothing again.
fn growth(counter: SeriesView<'_>) -> Option<u64> {
    let mut values = counter.present().map(|(_, value)| value);
    let mut before = values.next()?;
    let mut total = 0.0;
    for value in values {
        total += if value >= before {
            value - before
        } else {
            value
        };
        before = value;
    }
    Some(total as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::TableSpec;
    use nilo_sample::fixture::{table, tick};
    use nilo_sample::rows::GpuRow;

    fn row(power_watts: f64, throttled_by_power: f64, uncorrected_ecc_errors: f64) -> GpuRow {
        GpuRow {
            power_watts,
            power_limit_watts: 700.0,
            temperature_celsius: power_watts / 10.0,
            sm_clock_mhz: 1980.0 - power_watts,
            throttled_by_power,
            uncorrected_ecc_errors,
            nvlink_sent_bytes: 1000.0 * power_watts,
            ..GpuRow::ABSENT
        }
    }

    #[test]
    fn means_are_over_time_and_errors_are_those_of_the_run() {
        let mut rows = table(TableSpec::gpu(0));
        tick(&mut rows, 0, row(100.0, 0.0, 3.0));
        tick(&mut rows, 300, row(700.0, 1.0, 5.0));
        tick(&mut rows, 400, GpuRow::ABSENT);
        // The driver was loaded anew meanwhile.
        tick(&mut rows, 900, row(100.0, 0.0, 1.0));
        let sensors = summarize_sensors(&rows, 1000).unwrap();
        let expected = GpuSensorSummary {
            power_watts: Some(100.0),
            mean_power_watts: Some(220.0),
            peak_power_watts: Some(700.0),
            power_limit_watts: Some(700.0),
            temperature_celsius: Some(10.0),
            peak_temperature_celsius: Some(70.0),
            sm_clock_mhz: Some(1880.0),
            mean_sm_clock_mhz: Some(1760.0),
            memory_clock_mhz: None,
            throttled_by_power_share: Some(0.2),
            throttled_by_heat_share: None,
            throttled_by_hardware_share: None,
            uncorrected_ecc_errors: Some(3),
            nvlink_sent_bytes: Some(700_000),
            nvlink_received_bytes: None,
        };
        assert_eq!(sensors, expected);
    }

    #[test]
    fn a_table_without_sensors_has_no_figures() {
        let mut rows = table(TableSpec::gpu(0));
        let row = GpuRow {
            used_bytes: 5.0,
            ..GpuRow::ABSENT
        };
        tick(&mut rows, 0, row);
        assert_eq!(summarize_sensors(&rows, 10), None);
        rows.spec.columns.truncate(4);
        rows.columns.truncate(4);
        assert_eq!(summarize_sensors(&rows, 10), None, "an earlier version's");
    }
}
