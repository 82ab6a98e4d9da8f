//! Programs that load and then stand still: an alarm on the way is false, however short it is.
//!
//! The drawn traces are asked every ten seconds, which misses an alarm that stands for the last seconds of loading; here every sample is asked.

use nilo_forecast::{Forecaster, Reading, RiskLevel};

use crate::random::Random;
use crate::table::TextTable;

/// Seconds that loading takes.
const LOAD_SECS: [f64; 5] = [20.0, 30.0, 40.0, 50.0, 60.0];
/// Where it ends, as shares of the limit.
const END_SHARES: [f64; 6] = [0.6, 0.7, 0.8, 0.85, 0.9, 0.95];
/// How long the program goes on after that.
const STILL_SECS: f64 = 120.0;

const MIB: f64 = 1_048_576.0;
const LIMIT_MIB: f64 = 900.0;
const INTERVAL_SECS: f64 = 0.1;

/// For how many seconds an alarm stood while a program loaded straight up to a share of its limit.
pub fn false_alarm_secs(load_secs: f64, end_share: f64) -> f64 {
    let mut forecaster = Forecaster::new();
    let mut random = Random::new(0, 1);
    let samples = ((load_secs + STILL_SECS) / INTERVAL_SECS) as u64;
    let mut alarmed = 0;
    for sample in 0..samples {
        let secs = sample as f64 * INTERVAL_SECS;
        let level_mib = 12.0 + (end_share * LIMIT_MIB - 12.0) * (secs / load_secs).min(1.0);
        forecaster.observe(&Reading {
            time_nanos: (secs * 1e9) as u64,
            used_bytes: (level_mib + 0.5 * random.normal()).max(1.0) * MIB,
            limit_bytes: Some(LIMIT_MIB * MIB),
            ..Reading::default()
        });
        alarmed += u64::from(forecaster.forecast().level >= RiskLevel::High);
    }
    alarmed as f64 * INTERVAL_SECS
}

/// Seconds of false alarm by how long loading takes and where it ends.
pub fn table() -> TextTable {
    let mut header = vec!["loading takes".to_string()];
    header.extend(END_SHARES.map(|share| format!("to {:.0} % of the limit", 100.0 * share)));
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = TextTable::new(&names);
    for load_secs in LOAD_SECS {
        let mut row = vec![format!("{load_secs:.0} s")];
        row.extend(
            END_SHARES.map(|share| match false_alarm_secs(load_secs, share) {
                0.0 => "quiet".to_string(),
                secs => format!("{secs:.0} s"),
            }),
        );
        table.push(row);
    }
    table
}
