//! Every model of the catalogue, against its published number of weights.
#![allow(clippy::unwrap_used)]

use nilo_model::catalogue::models;
use nilo_model::config::ModelShape;
use nilo_model::dry_run::tensor::Dtype;
use nilo_model::estimate::{EstimateSettings, Precision, Work, try_model};

/// One token, so that hardly anything but weights is allocated.
fn one_token() -> EstimateSettings {
    EstimateSettings {
        work: Work::Inference,
        length: 1,
        precision: Precision::Pure(Dtype::Bf16),
        workspace_bytes: 0,
        ..EstimateSettings::default()
    }
}

#[test]
fn every_decoder_has_exactly_its_published_weights() {
    let mut decoders = 0;
    for model in models() {
        let config = model
            .config()
            .unwrap_or_else(|error| panic!("{}: {error}", model.slug));
        if matches!(config.shape, ModelShape::Decoder(_)) {
            let trial = try_model(&config.shape, &one_token()).unwrap();
            assert_eq!(trial.parameters, model.parameters, "{}", model.slug);
            assert!(
                trial.allocated_bytes >= 2 * model.parameters,
                "{}",
                model.slug
            );
            decoders += 1;
        }
    }
    assert!(decoders >= 50, "only {decoders} decoders");
}
