//! Any bytes as the configuration of a model: refused in one sentence, or a model that is small enough to be tried out and then is.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilo_model::config::{ModelConfig, ModelShape};
use nilo_model::estimate::{EstimateSettings, estimate};
use nilo_model::gpus::find_gpu;

/// Larger models take longer to try than a fuzzer has.
const MOST_LAYERS: u64 = 4;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let config = match ModelConfig::from_json(text) {
        Ok(config) => config,
        Err(error) => return assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
    };
    let ModelShape::Decoder(shape) = &config.shape else {
        return;
    };
    if shape.layers > MOST_LAYERS {
        return;
    }
    let gpu = find_gpu("H100").expect("in the catalogue");
    let settings = EstimateSettings {
        length: 8,
        ..EstimateSettings::default()
    };
    if let Ok(found) = estimate(&config.shape, &settings, &gpu) {
        assert!(found.allocated.expected <= found.reserved.expected);
        assert_eq!(found.parts.values().sum::<u64>(), found.process.expected);
    }
});
