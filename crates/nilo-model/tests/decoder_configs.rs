//! Configurations of decoders that make no sense: each has its own error, and none a crash.
#![allow(clippy::unwrap_used)]

use nilo_model::config::{ConfigError, ModelConfig, ModelShape};
use nilo_model::dry_run::ops::AttentionKernel;
use nilo_model::dry_run::tensor::Dtype;
use nilo_model::estimate::{Checkpointing, EstimateSettings, Precision, Work, try_model};
use nilo_model::family::Adapters;
use proptest::prelude::*;
use serde_json::{Value, json};

fn llama() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
    })
}

fn with(mut config: Value, field: &str, value: Value) -> Value {
    config[field] = value;
    config
}

fn error(config: &Value) -> ConfigError {
    ModelConfig::from_value(config).unwrap_err()
}

fn is_wrong(config: &Value, name: &str) -> bool {
    matches!(error(config), ConfigError::Wrong { field, .. } if field == name)
}

#[test]
fn text_that_is_not_json_is_refused() {
    let refused = ModelConfig::from_json("{\"model_type\"").unwrap_err();
    assert!(matches!(refused, ConfigError::NotJson { .. }));
}

#[test]
fn json_that_is_not_an_object_is_refused() {
    for value in [json!([]), json!(1), json!("llama"), json!(null)] {
        assert_eq!(error(&value), ConfigError::NotAnObject);
    }
}

#[test]
fn a_configuration_must_say_what_it_is() {
    assert_eq!(error(&json!({"hidden_size": 64})), ConfigError::NoModelType);
}

#[test]
fn an_unknown_architecture_is_told_with_the_known_ones() {
    let refused = error(&with(llama(), "model_type", json!("mamba")));
    assert!(matches!(refused, ConfigError::UnknownArchitecture { .. }));
    assert!(refused.to_string().contains("deepseek_v3"));
}

#[test]
fn each_size_that_is_missing_is_named() {
    for name in [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "vocab_size",
    ] {
        let config = with(llama(), name, Value::Null);
        assert!(matches!(error(&config), ConfigError::Missing { field } if field == name));
    }
}

#[test]
fn nonsense_sizes_are_told_with_their_field() {
    for value in [
        json!(0),
        json!(-64),
        json!(64.5),
        json!("64"),
        json!([64]),
        json!({}),
        json!(true),
        json!(1e300),
        json!(100_000_001),
        json!(u64::MAX),
    ] {
        for name in [
            "hidden_size",
            "num_key_value_heads",
            "vocab_size",
            "head_dim",
        ] {
            assert!(
                is_wrong(&with(llama(), name, value.clone()), name),
                "{name}: {value}"
            );
        }
    }
}

#[test]
fn probabilities_fractions_and_truth_values_are_checked() {
    for value in [json!(1.0), json!(-0.1), json!("none")] {
        assert!(is_wrong(
            &with(llama(), "attention_dropout", value),
            "attention_dropout"
        ));
    }
    for value in [json!(0.0), json!(1.5), json!("half")] {
        let phi = with(
            with(llama(), "model_type", json!("phi")),
            "num_key_value_heads",
            json!(4),
        );
        let config = with(phi, "partial_rotary_factor", value);
        assert!(is_wrong(&config, "partial_rotary_factor"));
    }
    let tied = with(llama(), "tie_word_embeddings", json!("yes"));
    assert!(is_wrong(&tied, "tie_word_embeddings"));
    assert!(is_wrong(
        &with(llama(), "hidden_act", json!(1)),
        "hidden_act"
    ));
}

#[test]
fn more_than_ten_thousand_layers_are_refused() {
    let config = |layers: u64| with(llama(), "num_hidden_layers", json!(layers));
    assert!(ModelConfig::from_value(&config(10_000)).is_ok());
    assert!(is_wrong(&config(10_001), "num_hidden_layers"));
}

#[test]
fn sizes_that_do_not_go_together_are_refused() {
    let contradicts = |config: &Value| matches!(error(config), ConfigError::Contradiction { .. });
    assert!(contradicts(&with(llama(), "num_key_value_heads", json!(3))));
    assert!(contradicts(&with(
        llama(),
        "num_attention_heads",
        json!(128)
    )));
    let huge = with(llama(), "hidden_size", json!(100_000_000));
    let huge = with(huge, "intermediate_size", json!(100_000_000));
    assert!(contradicts(&huge));
    let mixtral = with(llama(), "model_type", json!("mixtral"));
    let mixtral = with(mixtral, "num_local_experts", json!(2));
    assert!(contradicts(&with(mixtral, "num_experts_per_tok", json!(3))));
    assert!(contradicts(&with(deepseek(), "n_group", json!(3))));
}

fn deepseek() -> Value {
    json!({
        "model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 128, "vocab_size": 100, "q_lora_rank": 16, "kv_lora_rank": 16,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 8, "n_group": 2,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1,
    })
}

#[test]
fn variants_whose_memory_is_not_known_are_refused() {
    let refused = |config: &Value| matches!(error(config), ConfigError::UnknownVariant { .. });
    let of_type = |model_type: &str| with(llama(), "model_type", json!(model_type));
    assert!(refused(&with(
        of_type("qwen2"),
        "use_sliding_window",
        json!(true)
    )));
    assert!(refused(&with(of_type("phi"), "qk_layernorm", json!(true))));
    assert!(refused(&with(of_type("falcon"), "alibi", json!(true))));
    assert!(refused(&with(
        of_type("falcon"),
        "new_decoder_architecture",
        json!(true)
    )));
    let experts_in_some = with(of_type("qwen3_moe"), "decoder_sparse_step", json!(2));
    assert!(refused(&experts_in_some));
    assert!(refused(&with(deepseek(), "moe_layer_freq", json!(2))));
}

#[test]
fn a_step_beyond_any_gpu_is_refused_and_not_run() {
    let shape = ModelConfig::from_value(&llama()).unwrap().shape;
    let settings = EstimateSettings {
        batch: u64::MAX,
        length: u64::MAX,
        ..EstimateSettings::default()
    };
    assert!(try_model(&shape, &settings).is_err());
}

#[test]
fn an_absurd_model_is_answered() {
    let config = with(llama(), "num_hidden_layers", json!(10_000));
    let config = with(config, "vocab_size", json!(100_000_000));
    let shape = ModelConfig::from_value(&config).unwrap().shape;
    let settings = EstimateSettings {
        work: Work::Inference,
        length: 8,
        ..EstimateSettings::default()
    };
    let trial = try_model(&shape, &settings).unwrap();
    assert!(trial.allocated_bytes > 2 * 100_000_000 * 64 * 4);
}

#[test]
fn endless_accumulation_and_generation_take_no_longer_than_long_ones() {
    let shape = ModelConfig::from_value(&llama()).unwrap().shape;
    let tried = |work: Work, accumulation: u64| {
        let settings = EstimateSettings {
            work,
            accumulation,
            length: 8,
            ..EstimateSettings::default()
        };
        try_model(&shape, &settings).map(|trial| trial.allocated_bytes)
    };
    assert_eq!(tried(Work::Training, u64::MAX), tried(Work::Training, 8));
    assert!(tried(Work::Generation(1 << 20), 1).unwrap() > tried(Work::Generation(8), 1).unwrap());
}

const FIELDS: [&str; 24] = [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "sliding_window",
    "sliding_window_pattern",
    "num_local_experts",
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "n_routed_experts",
    "n_shared_experts",
    "first_k_dense_replace",
    "n_group",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "n_embd",
    "n_head",
];

const DECODERS: [&str; 16] = [
    "deepseek_v2",
    "deepseek_v3",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gpt2",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "phi",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((field_name(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn field_name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("model_type".to_owned()),
        prop::sample::select(FIELDS.as_slice()).prop_map(str::to_owned),
        ".{0,8}",
    ]
}

/// A configuration of a known family with sizes up to a limit, not all of which go together.
fn any_config(most: u64) -> impl Strategy<Value = Value> {
    let sizes = prop::collection::vec(1..=most, FIELDS.len());
    (
        prop::sample::select(DECODERS.as_slice()),
        sizes,
        any::<[bool; 4]>(),
    )
        .prop_map(|(model_type, sizes, truths)| {
            let mut config = json!({ "model_type": model_type });
            for (field, size) in FIELDS.into_iter().zip(sizes) {
                config[field] = json!(size);
            }
            config["n_layer"] = config["num_hidden_layers"].clone();
            // Often enough, heads go together.
            if truths[0] {
                config["num_key_value_heads"] = config["num_attention_heads"].clone();
                config["num_experts_per_tok"] = json!(1);
                config["n_group"] = json!(1);
            }
            config["tie_word_embeddings"] = json!(truths[1]);
            config["attention_bias"] = json!(truths[2]);
            if truths[3] {
                config["head_dim"] = Value::Null;
            }
            config
        })
}

fn any_settings(most: u64) -> impl Strategy<Value = EstimateSettings> {
    let work = prop_oneof![
        Just(Work::Training),
        Just(Work::Inference),
        (0..=most).prop_map(Work::Generation),
    ];
    let precision = prop_oneof![
        Just(Precision::Pure(Dtype::F32)),
        Just(Precision::Pure(Dtype::F16)),
        Just(Precision::Autocast(Dtype::Bf16)),
    ];
    (work, precision, 1..=most, 1..=most, any::<[bool; 4]>()).prop_map(
        |(work, precision, batch, length, truths)| EstimateSettings {
            work,
            precision,
            batch,
            length,
            attention: match truths[0] {
                true => AttentionKernel::Eager,
                false => AttentionKernel::Sdpa,
            },
            checkpointing: match truths[1] {
                true => Checkpointing::Full,
                false => Checkpointing::None,
            },
            adapters: truths[2].then_some(Adapters {
                rank: 1 + batch % 64,
                everywhere: truths[3],
                dtype: Dtype::F32,
                dropout: 0.1,
            }),
            ..EstimateSettings::default()
        },
    )
}

fn tried(config: &Value, settings: &EstimateSettings) {
    let Ok(config) = ModelConfig::from_value(config) else {
        return;
    };
    assert!(matches!(config.shape, ModelShape::Decoder(_)));
    if let Ok(trial) = try_model(&config.shape, settings) {
        assert!(trial.reserved_bytes >= trial.allocated_bytes);
        assert!(trial.parameters > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_json_crashes_the_reader(value in any_json(), text in ".{0,64}") {
        drop(ModelConfig::from_value(&value));
        drop(ModelConfig::from_json(&text));
    }

    #[test]
    fn no_small_model_crashes_a_dry_run(config in any_config(12), settings in any_settings(9)) {
        tried(&config, &settings);
    }

    #[test]
    fn no_huge_size_crashes_a_dry_run(config in any_config(100_000_000), settings in any_settings(u64::MAX)) {
        let config = with(with(config, "num_hidden_layers", json!(2)), "n_layer", json!(2));
        tried(&config, &settings);
    }
}
