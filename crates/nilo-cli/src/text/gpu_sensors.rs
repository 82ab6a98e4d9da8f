//! Power, temperature, clocks and traffic of a GPU in words.

use nilo_analysis::gpu_sensors::GpuSensorSummary;
use nilo_sample::units::format_bytes;

/// Clocks that were lowered for less of the time than this are not spoken of.
const LEAST_SHARE: f64 = 0.005;

/// As they are now: `412 W of 700 W, 54 °C, 1980 MHz, throttled by the power cap 12 % of the time`.
pub(crate) fn current_sensors(sensors: &GpuSensorSummary) -> String {
    let parts = [
        power(sensors.power_watts, sensors.power_limit_watts, ""),
        sensors.temperature_celsius.map(|t| format!("{t:.0} °C")),
        sensors.sm_clock_mhz.map(|clock| format!("{clock:.0} MHz")),
    ];
    join(parts.into_iter().flatten().chain(troubles(sensors)))
}

/// As they were over a run: `390 W of 700 W on average, 689 W at most, up to 61 °C, 1980 MHz on average`, traffic over NVLink, and troubles.
pub(crate) fn sensors_of_run(sensors: &GpuSensorSummary) -> String {
    let mean = " on average";
    let parts = [
        power(sensors.mean_power_watts, sensors.power_limit_watts, mean),
        sensors
            .peak_power_watts
            .map(|watts| format!("{watts:.0} W at most")),
        sensors
            .peak_temperature_celsius
            .map(|celsius| format!("up to {celsius:.0} °C")),
        sensors
            .mean_sm_clock_mhz
            .map(|clock| format!("{clock:.0} MHz{mean}")),
        nvlink(sensors),
    ];
    join(parts.into_iter().flatten().chain(troubles(sensors)))
}

/// What somebody should hear of who did not ask: throttling, except by the power cap, and memory errors.
pub(crate) fn is_troubled(sensors: &GpuSensorSummary) -> bool {
    let shares = [
        sensors.throttled_by_heat_share,
        sensors.throttled_by_hardware_share,
    ];
    let is_throttled = shares.into_iter().flatten().any(|s| s >= LEAST_SHARE);
    is_throttled
        || sensors
            .uncorrected_ecc_errors
            .is_some_and(|count| count > 0)
}

fn power(watts: Option<f64>, limit: Option<f64>, how: &str) -> Option<String> {
    let limit = limit.map_or(String::new(), |limit| format!(" of {limit:.0} W"));
    Some(format!("{:.0} W{limit}{how}", watts?))
}

/// `3.20 GiB sent and 3.10 GiB received over NVLink`, if anything was.
fn nvlink(sensors: &GpuSensorSummary) -> Option<String> {
    let (sent, received) = (sensors.nvlink_sent_bytes?, sensors.nvlink_received_bytes?);
    let size = |bytes: u64| format_bytes(bytes as f64);
    (sent > 0 || received > 0).then(|| {
        let (sent, received) = (size(sent), size(received));
        format!("{sent} sent and {received} received over NVLink")
    })
}

fn troubles(sensors: &GpuSensorSummary) -> impl Iterator<Item = String> {
    let reasons = [
        ("the power cap", sensors.throttled_by_power_share),
        ("heat", sensors.throttled_by_heat_share),
        ("the hardware", sensors.throttled_by_hardware_share),
    ];
    let throttled = reasons.into_iter().filter_map(|(reason, share)| {
        let share = share.filter(|share| *share >= LEAST_SHARE)?;
        let percent = 100.0 * share;
        Some(format!("throttled by {reason} {percent:.0} % of the time"))
    });
    let errors = sensors.uncorrected_ecc_errors.filter(|count| *count > 0);
    let errors = errors.map(|count| match count {
        1 => "1 uncorrected ECC error".to_owned(),
        count => format!("{count} uncorrected ECC errors"),
    });
    throttled.chain(errors)
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensors() -> GpuSensorSummary {
        GpuSensorSummary {
            power_watts: Some(412.0),
            mean_power_watts: Some(390.4),
            peak_power_watts: Some(689.0),
            power_limit_watts: Some(700.0),
            temperature_celsius: Some(54.0),
            peak_temperature_celsius: Some(61.0),
            sm_clock_mhz: Some(1980.0),
            mean_sm_clock_mhz: Some(1755.5),
            memory_clock_mhz: Some(3201.0),
            throttled_by_power_share: Some(0.12),
            throttled_by_heat_share: Some(0.004),
            throttled_by_hardware_share: Some(0.0),
            uncorrected_ecc_errors: Some(0),
            nvlink_sent_bytes: None,
            nvlink_received_bytes: None,
        }
    }

    #[test]
    fn what_is_known_is_said_and_the_rest_is_left_out() {
        let mut sensors = sensors();
        assert_eq!(
            current_sensors(&sensors),
            "412 W of 700 W, 54 °C, 1980 MHz, throttled by the power cap 12 % of the time"
        );
        assert_eq!(
            sensors_of_run(&sensors),
            "390 W of 700 W on average, 689 W at most, up to 61 °C, 1756 MHz on average, \
             throttled by the power cap 12 % of the time"
        );
        sensors.power_limit_watts = None;
        sensors.temperature_celsius = None;
        sensors.throttled_by_power_share = None;
        assert_eq!(current_sensors(&sensors), "412 W, 1980 MHz");
        assert_eq!(current_sensors(&GpuSensorSummary::default()), "");
    }

    #[test]
    fn traffic_over_nvlink_is_said_where_there_was_some() {
        let mut sensors = sensors();
        let text = sensors_of_run(&sensors);
        (sensors.nvlink_sent_bytes, sensors.nvlink_received_bytes) = (Some(0), Some(0));
        assert_eq!(sensors_of_run(&sensors), text, "links that nobody uses");
        sensors.nvlink_sent_bytes = Some(3 << 30);
        assert_eq!(
            sensors_of_run(&sensors),
            text.replace(
                "1756 MHz on average, ",
                "1756 MHz on average, 3.00 GiB sent and 0 B received over NVLink, "
            )
        );
    }

    #[test]
    fn heat_and_memory_errors_are_troubles_and_a_power_cap_is_none() {
        let mut sensors = sensors();
        assert!(!is_troubled(&sensors));
        sensors.throttled_by_heat_share = Some(0.3);
        sensors.uncorrected_ecc_errors = Some(2);
        assert!(is_troubled(&sensors));
        let text = current_sensors(&sensors);
        assert!(
            text.ends_with("throttled by heat 30 % of the time, 2 uncorrected ECC errors"),
            "{text}"
        );
        sensors.throttled_by_heat_share = None;
        assert!(is_troubled(&sensors), "memory errors");
    }
}
