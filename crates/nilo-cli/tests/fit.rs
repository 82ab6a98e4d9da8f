//! `nilo fit` as transcripts: known models, configurations, headers of checkpoints, GPUs, ways to make it fit, wrong input.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "support/command.rs"]
mod command;

use std::path::Path;

use command::{nilo, transcript};
use serde_json::{Value, json};

fn json_of(root: &Path, arguments: &[&str]) -> Value {
    let arguments = [&["fit"], arguments, &["--format", "json"]].concat();
    let output = nilo(root, &arguments);
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn process(answer: &Value) -> u64 {
    answer["process_bytes"]["expected"].as_u64().unwrap()
}

/// A small decoder.
fn config() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "torch_dtype": "bfloat16",
    })
}

/// A file with the header of these weights, and with as many zeros as it names.
fn write_safetensors(path: &Path, count: u64) {
    let header = format!(
        r#"{{"w": {{"dtype": "BF16", "shape": [{count}], "data_offsets": [0, {}]}}}}"#,
        2 * count
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + 2 * count as usize, 0);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_known_model() {
    let here = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| transcript(here.path(), &[&["fit"], arguments].concat());
    insta::assert_snapshot!("fit-gpt2", said(&["gpt2", "--batch", "8", "--seq", "1024"]));
    insta::assert_snapshot!(
        "fit-does-not-fit",
        said(&[
            "llama-3.2-1b",
            "-b",
            "8",
            "-s",
            "2048",
            "--gpu",
            "rtx 4090",
            "--gpu",
            "h200",
            "--max-batch"
        ])
    );
    insta::assert_snapshot!(
        "fit-inference",
        said(&[
            "meta-llama/Llama-3.1-8B",
            "--generate",
            "256",
            "-b",
            "4",
            "-s",
            "1024",
            "--gpu",
            "24GiB"
        ])
    );
    insta::assert_snapshot!(
        "fit-table",
        said(&[
            "deepseek-math-7b",
            "--table",
            "--gpu",
            "t4",
            "--gpu",
            "h100"
        ])
    );
}

#[test]
fn parts_add_up_to_the_process() {
    let here = tempfile::tempdir().unwrap();
    for arguments in [
        &["gpt2"][..],
        &[
            "gpt2",
            "--autocast",
            "bf16",
            "--checkpointing",
            "full",
            "--accumulate",
            "4",
        ],
        &[
            "qwen2.5-0.5b",
            "--lora",
            "8",
            "--lora-layers",
            "all",
            "--quantize",
            "4",
        ],
        &["llama-3.2-1b", "--infer", "-b", "4"],
        &["llama-3.2-1b", "--ranks", "4", "--shard", "fsdp"],
        &[
            "llama-3.2-1b",
            "--tensor-parallel",
            "2",
            "--pipeline-parallel",
            "2",
            "--offload-optimizer",
        ],
    ] {
        let answer = json_of(here.path(), arguments);
        let parts = answer["parts"].as_array().unwrap();
        let sum: u64 = parts
            .iter()
            .map(|part| part["bytes"].as_u64().unwrap())
            .sum();
        assert_eq!(sum, process(&answer), "{arguments:?}");
        assert_eq!(answer["schema"], "nilo.fit/1");
    }
}

#[test]
fn settings_change_the_estimate_as_they_should() {
    let here = tempfile::tempdir().unwrap();
    // What the allocator leaves unused may rise where tensors take less.
    let takes = |more: &[&str]| {
        let arguments = [&["llama-3.2-1b", "-b", "4", "-s", "1024"], more].concat();
        json_of(here.path(), &arguments)["allocated_bytes"]["expected"]
            .as_u64()
            .unwrap()
    };
    let base = takes(&[]);
    assert!(takes(&["--checkpointing", "full"]) < takes(&["--checkpointing", "2"]));
    assert!(takes(&["--checkpointing", "2"]) < base);
    assert!(takes(&["--loss-chunks", "8"]) < base);
    assert!(takes(&["--optimizer", "adamw-8bit"]) < base);
    assert!(takes(&["--dtype", "fp32"]) > base);
    assert!(takes(&["--attention", "eager"]) > base);
    assert!(
        takes(&["--lora", "16", "--lora-dtype", "bf16", "--quantize", "4"])
            < takes(&["--lora", "16", "--lora-dtype", "bf16"])
    );
    let [ddp, zero1, zero2, zero3] = ["ddp", "zero1", "zero2", "zero3"].map(|shard| {
        let allowed = if shard == "ddp" {
            vec!["--ranks", "8"]
        } else {
            vec!["--ranks", "8", "--shard", shard]
        };
        takes(&allowed)
    });
    assert!(
        zero3 < zero2 && zero2 <= zero1 && zero1 < ddp,
        "{zero3} {zero2} {zero1} {ddp}"
    );
}

#[test]
fn the_largest_batch_is_the_last_one_that_fits() {
    let here = tempfile::tempdir().unwrap();
    let model = ["llama-3.2-1b", "-s", "1024", "--gpu", "40GiB"];
    let found = json_of(here.path(), &[&model[..], &["--max-batch"]].concat());
    let largest = found["gpus"][0]["largest_batch"].as_u64().unwrap();
    let expected = found["gpus"][0]["largest_batch_expected"].as_u64().unwrap();
    assert!(largest >= 1 && expected >= largest);
    let verdict = |batch: u64| {
        let batch = batch.to_string();
        let answer = json_of(here.path(), &[&model[..], &["-b", &batch]].concat());
        answer["gpus"][0]["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict(largest), "fits");
    assert_ne!(verdict(largest + 1), "fits");
}

#[test]
fn ways_are_estimated_and_those_that_fit_together_do() {
    let here = tempfile::tempdir().unwrap();
    let output = nilo(
        here.path(),
        &[
            "fit",
            "llama-3.2-1b",
            "-b",
            "8",
            "-s",
            "2048",
            "--gpu",
            "24GiB",
            "--format",
            "json",
        ],
    );
    assert_eq!(output.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ways = answer["ways"].as_array().unwrap();
    assert!(ways.len() >= 6, "{ways:?}");
    for way in ways {
        let saved = way["saved_bytes"].as_u64().unwrap();
        assert_eq!(
            way["process_bytes"]["expected"].as_u64().unwrap() + saved,
            process(&answer),
            "{way}"
        );
        assert!(!way["settings"].as_array().unwrap().is_empty());
    }
    assert_eq!(answer["together"]["verdict"], "fits");
    assert!(
        answer["together"]["process_bytes"]["high"]
            .as_u64()
            .unwrap()
            <= 24 << 30
    );
}

#[test]
fn configurations_and_checkpoints() {
    let here = tempfile::tempdir().unwrap();
    let folder = here.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("config.json"), config().to_string()).unwrap();
    let of_config = json_of(here.path(), &["model/config.json", "-b", "2", "-s", "128"]);
    assert_eq!(of_config["model"]["parameters"], 1_692_928);
    assert_eq!(of_config["settings"]["dtype"], "bf16");
    assert_eq!(
        json_of(here.path(), &["model", "-b", "2", "-s", "128"])["process_bytes"],
        of_config["process_bytes"]
    );
    write_safetensors(&folder.join("model.safetensors"), 1_692_928);
    let with_weights = json_of(here.path(), &["model", "-b", "2", "-s", "128"]);
    assert_eq!(with_weights["model"]["checkpoint_bytes"], 2 * 1_692_928);
    assert_eq!(with_weights["method"], "closed-form");
    // A configuration without a type has that of the checkpoint, or else what PyTorch takes.
    let mut untyped = config();
    untyped.as_object_mut().unwrap().remove("torch_dtype");
    std::fs::write(folder.join("config.json"), untyped.to_string()).unwrap();
    assert_eq!(
        json_of(here.path(), &["model"])["settings"]["dtype"],
        "bf16"
    );
    std::fs::write(here.path().join("untyped.json"), untyped.to_string()).unwrap();
    let of_untyped = json_of(here.path(), &["untyped.json"]);
    assert_eq!(of_untyped["settings"]["dtype"], "fp32");
    assert!(
        of_untyped["notes"]
            .to_string()
            .contains("so fp32 is assumed")
    );
    // Other weights than those of the architecture are told.
    write_safetensors(&folder.join("model.safetensors"), 1000);
    let notes = json_of(here.path(), &["model"])["notes"].to_string();
    assert!(
        notes.contains("the checkpoint has 1000 weights, and the architecture 1692928"),
        "{notes}"
    );
    write_safetensors(&here.path().join("alone.safetensors"), 1 << 20);
    let alone = json_of(here.path(), &["alone.safetensors", "--infer"]);
    assert_eq!(alone["method"], "header");
    assert_eq!(alone["parts"][0]["bytes"], (742 << 20));
    assert_eq!(alone["model"]["checkpoint_bytes"], 2 << 20);
    insta::assert_snapshot!(
        "fit-header",
        transcript(
            here.path(),
            &["fit", "alone.safetensors", "--infer", "--gpu", "t4"]
        )
    );
}

#[test]
fn pictures_are_written() {
    let here = tempfile::tempdir().unwrap();
    let output = nilo(
        here.path(),
        &["fit", "gpt2", "--gpu", "8GiB", "-o", "parts.svg"],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let svg = std::fs::read_to_string(here.path().join("parts.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("optimizer state") && svg.contains("8GiB: "));
    let piped = nilo(here.path(), &["fit", "gpt2", "--gpu", "8GiB", "-o", "-"]);
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), svg);
    assert!(
        nilo(here.path(), &["fit", "gpt2", "-o", "parts.png"])
            .status
            .success()
    );
    assert!(
        std::fs::read(here.path().join("parts.png"))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
}

#[test]
fn measured_cases_stand_beside_their_estimates() {
    let here = tempfile::tempdir().unwrap();
    let cases = json!([
        {
            "name": "measured", "mode": "train", "dtype": "bf16", "batch": 4, "seq": 2048, "opt": "adamw",
            "peak_alloc": 34_470_805_504_u64, "peak_reserved": 35_991_322_624_u64, "peak_proc": 36_786_143_232_u64,
            "config": {"cls": "Llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
                "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": true},
        },
        {"name": "unknown", "mode": "train", "batch": 1, "config": {"cls": "Nothing"}},
    ]);
    std::fs::write(here.path().join("cases.json"), cases.to_string()).unwrap();
    let output = command::command(
        here.path(),
        &["fit", "--truth", "cases.json", "--format", "json"],
    )
    .env("NILO_PYTHON", "/bin/false")
    .output()
    .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = &answer["cases"][0]["peak_allocated_bytes"];
    let error = figure["estimate"].as_f64().unwrap() / figure["truth"].as_f64().unwrap() - 1.0;
    assert!(error.abs() < 0.001, "{error}");
    assert_eq!(answer["cases"][0].as_object().unwrap().len(), 4);
    let problem = answer["cases"][1]["problem"].as_str().unwrap();
    assert!(problem.contains("\"Nothing\""), "{problem}");
}

#[test]
fn wrong_input_is_one_sentence_and_a_hint() {
    let here = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(here.path().join(name), text).unwrap();
    let with = |key: &str, value: Value| {
        let mut config = config();
        config[key] = value;
        config.to_string()
    };
    write("broken.json", "{");
    write("list.json", "[]");
    write("empty.json", "{}");
    write("unknown.json", &with("model_type", json!("mamba")));
    write("negative.json", &with("num_hidden_layers", json!(-3)));
    write("text.json", &with("vocab_size", json!("many")));
    write("heads.json", &with("num_key_value_heads", json!(3)));
    write("missing.json", &with("hidden_size", Value::Null));
    write(
        "quantized.json",
        &with("quantization_config", json!({"bits": 4})),
    );
    write(
        "head.json",
        &with("architectures", json!(["LlamaForSequenceClassification"])),
    );
    let pipe = here.path().join("pipe.json");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    write("cut.safetensors", "abc");
    write("weights.bin", "\u{80}\u{2}}q");
    write_safetensors(&here.path().join("alone.safetensors"), 1000);
    write("cases.json", "{\"a\": 1}");
    let mut said = String::new();
    for arguments in [
        &["llama-3.1-9b"][..],
        &["no-such-model-at-all"],
        &["broken.json"],
        &["list.json"],
        &["empty.json"],
        &["unknown.json"],
        &["negative.json"],
        &["text.json"],
        &["heads.json"],
        &["missing.json"],
        &["quantized.json"],
        &["head.json"],
        &["pipe.json"],
        &["cut.safetensors"],
        &["alone.safetensors"],
        &["gpt2", "--gpu", "a100"],
        &["gpt2", "--gpu", "abacus"],
        &["gpt2", "--gpu", "-3GiB"],
        &["gpt2", "--batch", "0"],
        &["gpt2", "--optimizer", "adm"],
        &["gpt2", "--checkpointing", "some"],
        &["gpt2", "--dtype", "bf16", "--autocast", "bf16"],
        &["gpt2", "--lora-layers", "all"],
        &["gpt2", "--quantize", "4"],
        &["gpt2", "--shard", "zero3"],
        &["gpt2", "--ranks", "2", "--tensor-parallel", "5"],
        &["gpt2", "-o", "parts.doc"],
        &["--truth", "cases.json"],
        &["--truth", "none.json"],
        &["gpt2", "--vary", "layers=10001"],
        &["bert-base", "--vary", "batch"],
        &["--table", "gpt3"],
        &[],
    ] {
        let arguments = [&["fit"], arguments].concat();
        let output = nilo(here.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        said += &transcript(here.path(), &arguments);
    }
    insta::assert_snapshot!("fit-wrong-input", said);
}
