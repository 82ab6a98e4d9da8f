//! BERT, ViT, T5 and Whisper against traces of the real models, the catalogue and configurations that make no sense.
#![allow(clippy::unwrap_used)]

mod support;

use nilo_model::config::{ConfigError, ModelConfig, ModelShape};
use nilo_model::dry_run::Dtype;
use nilo_model::dry_run::optimizer::Optimizer;
use nilo_model::estimate::{Checkpointing, EstimateSettings, Precision, Trial, Work, try_model};
use nilo_model::family::TextEncoderHead;
use proptest::prelude::*;
use serde_json::{Value, json};
use support::encoder_cases;

const TYPES: [&str; 4] = ["bert", "t5", "vit", "whisper"];

fn share(ours: u64, theirs: u64) -> f64 {
    (ours as f64 / theirs as f64 - 1.0).abs()
}

fn shape(config: &Value) -> ModelShape {
    ModelConfig::from_value(config).unwrap().shape
}

fn refused(config: Value) -> ConfigError {
    ModelConfig::from_value(&config).unwrap_err()
}

fn training(batch: u64, length: u64) -> EstimateSettings {
    EstimateSettings {
        batch,
        length,
        ..EstimateSettings::default()
    }
}

fn tried(config: &Value, settings: &EstimateSettings) -> Trial {
    try_model(&shape(config), settings).unwrap()
}

#[test]
fn every_trace_is_met() {
    let mut misses = Vec::new();
    for case in encoder_cases("") {
        let trial = try_model(&case.config.shape, &case.settings).unwrap();
        let allocated = share(trial.allocated_bytes, case.allocated_bytes);
        let reserved = share(trial.reserved_bytes, case.reserved_bytes);
        // Autocast frees what it has converted in the order of a hash table, in which the allocator cannot be followed.
        let most = match case.settings.precision {
            Precision::Autocast(_) => 0.05,
            Precision::Pure(_) => 0.03,
        };
        let is_met = allocated <= 0.005 && reserved <= most && trial.parameters == case.parameters;
        if !is_met {
            misses.push(format!("{}: {allocated:.4} {reserved:.4}", case.name));
        }
    }
    assert_eq!(misses, Vec::<String>::new(), "name: allocated reserved");
}

#[test]
fn parameters_of_the_catalogue_are_exact() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/catalogue");
    let table = std::fs::read_to_string(format!("{folder}/models.tsv")).unwrap();
    let mut seen = 0;
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let text = std::fs::read_to_string(format!("{folder}/models/{}.json", columns[0])).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        if !TYPES.contains(&value["model_type"].as_str().unwrap()) {
            continue;
        }
        seen += 1;
        let settings = EstimateSettings {
            work: Work::Inference,
            ..training(1, 1)
        };
        let trial = tried(&value, &settings);
        assert_eq!(
            trial.parameters,
            columns[3].parse::<u64>().unwrap(),
            "{}",
            columns[0]
        );
        assert_eq!(trial.trained_parameters, 0);
    }
    assert_eq!(seen, 12);
}

/// Measured on an H200 in three steps of training in 32 bits: the configuration, batch, length, optimizer and the peaks.
#[test]
fn measured_peaks_of_an_h200_are_met() {
    let cases = [
        (
            json!({"model_type": "bert"}),
            training(32, 128),
            5_489_238_016,
            5_609_881_600,
        ),
        (
            json!({"model_type": "t5", "d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12}),
            training(8, 512),
            16_958_710_272,
            17_263_755_264,
        ),
        (
            json!({"model_type": "vit"}),
            EstimateSettings {
                optimizer: Optimizer::SgdMomentum,
                ..training(64, 1)
            },
            8_528_074_240,
            8_749_318_144,
        ),
    ];
    for (config, settings, allocated_bytes, reserved_bytes) in cases {
        let trial = tried(&config, &settings);
        let allocated = share(trial.allocated_bytes, allocated_bytes);
        let reserved = share(trial.reserved_bytes, reserved_bytes);
        assert!(allocated <= 0.01, "{config}: allocated {allocated}");
        assert!(reserved <= 0.03, "{config}: reserved {reserved}");
    }
}

#[test]
fn checkpoints_and_fewer_images_take_less() {
    for model_type in TYPES {
        let config = json!({"model_type": model_type});
        let all = tried(&config, &training(4, 64));
        let checkpointed = EstimateSettings {
            checkpointing: Checkpointing::Full,
            ..training(4, 64)
        };
        let fewer = tried(&config, &training(2, 64));
        let checkpointed = tried(&config, &checkpointed);
        assert!(
            checkpointed.allocated_bytes <= all.allocated_bytes,
            "{model_type}"
        );
        assert!(fewer.allocated_bytes < all.allocated_bytes, "{model_type}");
        assert_eq!(checkpointed.parameters, all.parameters);
    }
}

#[test]
fn the_length_of_sequences_does_not_matter_to_images() {
    let config = json!({"model_type": "vit"});
    assert_eq!(
        tried(&config, &training(2, 1)),
        tried(&config, &training(2, 512))
    );
}

#[test]
fn the_length_of_sequences_is_that_of_the_text_of_speech() {
    let config = json!({"model_type": "whisper"});
    let [short, long] = [64, 448].map(|length| tried(&config, &training(2, length)));
    assert!(short.allocated_bytes < long.allocated_bytes);
    assert_eq!(short.parameters, long.parameters);
}

#[test]
fn generation_takes_more_with_more_tokens() {
    for model_type in ["t5", "whisper"] {
        let config = json!({"model_type": model_type});
        let of = |count| {
            let work = Work::Generation(count);
            tried(
                &config,
                &EstimateSettings {
                    work,
                    ..training(8, 16)
                },
            )
        };
        assert!(
            of(8).allocated_bytes < of(400).allocated_bytes,
            "{model_type}"
        );
    }
}

#[test]
fn positions_of_sound_are_not_trained() {
    let trial = tried(&json!({"model_type": "whisper"}), &training(1, 8));
    assert_eq!(trial.parameters - trial.trained_parameters, 1500 * 384);
}

#[test]
fn a_trial_is_the_same_each_time() {
    let settings = EstimateSettings {
        precision: Precision::Autocast(Dtype::Bf16),
        ..training(2, 64)
    };
    for model_type in TYPES {
        let config = json!({"model_type": model_type});
        assert_eq!(tried(&config, &settings), tried(&config, &settings));
    }
}

#[test]
fn a_classifier_of_texts_is_known_by_its_architecture() {
    let config = json!({
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "no", "1": "perhaps", "2": "yes"},
    });
    let ModelShape::TextEncoder(shape) = shape(&config) else {
        panic!("BERT is an encoder of text");
    };
    let head = TextEncoderHead::Classes {
        count: 3,
        dropout: 0.1,
    };
    assert_eq!(shape.head, head);
}

#[test]
fn classes_of_images_are_counted_by_number_or_by_name() {
    for (field, value, classes) in [
        ("num_labels", json!(1000), 1000),
        ("id2label", json!({"0": "cat"}), 1),
        ("hidden_size", json!(768), 2),
    ] {
        let mut config = json!({"model_type": "vit"});
        config[field] = value;
        let ModelShape::ImageEncoder(shape) = shape(&config) else {
            panic!("ViT is an encoder of images");
        };
        assert_eq!(shape.classes, classes);
    }
}

#[test]
fn images_and_patches_may_be_oblong() {
    let config = json!({"model_type": "vit", "image_size": [224, 448], "patch_size": [16, 32]});
    let ModelShape::ImageEncoder(shape) = shape(&config) else {
        panic!("ViT is an encoder of images");
    };
    assert_eq!(shape.patches(), 14 * 14);
}

#[test]
fn sizes_that_do_not_go_together_are_refused() {
    let cases = [
        json!({"model_type": "bert", "hidden_size": 100, "num_attention_heads": 12}),
        json!({"model_type": "whisper", "d_model": 100, "decoder_attention_heads": 3}),
        json!({"model_type": "vit", "image_size": 8, "patch_size": 16}),
        json!({"model_type": "bert", "hidden_size": 100_000_000, "intermediate_size": 100_000_000, "num_attention_heads": 1}),
        json!({"model_type": "t5", "d_kv": 100_000_000, "num_heads": 100_000_000}),
        json!({"model_type": "t5", "num_layers": 100_000_000, "d_model": 100_000_000}),
        json!({"model_type": "vit", "image_size": 100_000_000, "patch_size": 100_000_000, "num_channels": 100_000_000}),
        json!({"model_type": "whisper", "max_source_positions": 100_000_000, "d_model": 100_000_000, "encoder_attention_heads": 1, "decoder_attention_heads": 1}),
    ];
    for config in cases {
        let error = refused(config.clone());
        assert!(
            matches!(error, ConfigError::Contradiction { .. }),
            "{config}: {error}"
        );
    }
}

#[test]
fn values_of_the_wrong_kind_are_refused_by_name() {
    let cases = [
        (
            json!({"model_type": "bert", "hidden_size": "768"}),
            "hidden_size",
        ),
        (
            json!({"model_type": "bert", "hidden_dropout_prob": 1.5}),
            "hidden_dropout_prob",
        ),
        (
            json!({"model_type": "bert", "tie_word_embeddings": 1}),
            "tie_word_embeddings",
        ),
        (
            json!({"model_type": "vit", "image_size": [224]}),
            "image_size",
        ),
        (
            json!({"model_type": "vit", "image_size": [224, 0]}),
            "image_size",
        ),
        (
            json!({"model_type": "vit", "patch_size": -16}),
            "patch_size",
        ),
        (
            json!({"model_type": "t5", "feed_forward_proj": 3}),
            "feed_forward_proj",
        ),
        (json!({"model_type": "t5", "num_heads": 0}), "num_heads"),
        (
            json!({"model_type": "whisper", "num_mel_bins": 1e300}),
            "num_mel_bins",
        ),
    ];
    for (config, name) in cases {
        match refused(config) {
            ConfigError::Wrong { field, .. } => assert_eq!(field, name),
            error => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn variants_whose_memory_is_not_known_are_refused() {
    let cases = [
        json!({"model_type": "bert", "is_decoder": true}),
        json!({"model_type": "bert", "architectures": ["BertForQuestionAnswering"]}),
        json!({"model_type": "bert", "hidden_act": "quick_gelu"}),
        json!({"model_type": "vit", "architectures": ["ViTForMaskedImageModeling"]}),
        json!({"model_type": "t5", "architectures": ["T5EncoderModel"]}),
        json!({"model_type": "t5", "feed_forward_proj": "doubly-gated-gelu"}),
        json!({"model_type": "whisper", "architectures": ["WhisperForAudioClassification"]}),
    ];
    for config in cases {
        let error = refused(config.clone());
        assert!(
            matches!(error, ConfigError::UnknownVariant { .. }),
            "{config}: {error}"
        );
    }
}

const FIELDS: [&str; 24] = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "hidden_act",
    "architectures",
    "id2label",
    "num_labels",
    "image_size",
    "patch_size",
    "num_channels",
    "d_model",
    "d_kv",
    "d_ff",
    "num_layers",
    "num_heads",
    "feed_forward_proj",
    "tie_word_embeddings",
    "dropout",
    "encoder_layers",
    "encoder_attention_heads",
    "num_mel_bins",
    "max_source_positions",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u64..2000).prop_map(Value::from),
        (99_000_000u64..101_000_000).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map(".{0,4}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_configuration_is_read_or_refused(
        model_type in prop::sample::select(TYPES.to_vec()),
        entries in prop::collection::vec((prop::sample::select(FIELDS.to_vec()), any_value()), 0..8),
    ) {
        let mut config = json!({"model_type": model_type});
        for (field, value) in entries {
            config[field] = value;
        }
        let _ = ModelConfig::from_value(&config).map_err(|error| error.to_string());
    }

    #[test]
    fn twice_the_batch_takes_no_less(batch in 1u64..5, length in 1u64..96, is_half in any::<bool>()) {
        let precision = match is_half {
            true => Precision::Pure(Dtype::Bf16),
            false => Precision::Autocast(Dtype::Bf16),
        };
        for config in [
            json!({"model_type": "bert", "num_hidden_layers": 1}),
            json!({"model_type": "t5", "num_layers": 1}),
        ] {
            let of = |batch| tried(&config, &EstimateSettings { precision, ..training(batch, length) });
            // The allocator gives a tensor a whole block where little would be left of it.
            let [once, twice] = [batch, 2 * batch].map(|batch| of(batch).allocated_bytes as f64);
            prop_assert!(once <= 1.01 * twice);
        }
    }
}
