//! Files written by the packages of Hugging Face and llama.cpp, against what those packages read back.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nilo_weights::{MetadataValue, Weights};

type Expected = BTreeMap<String, BTreeMap<String, (String, Vec<u64>, u64)>>;

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

fn assert_agrees(file: &str, key: &str) -> Weights {
    let text = std::fs::read_to_string(testdata("expected.json")).unwrap();
    let mut expected: Expected = serde_json::from_str(&text).unwrap();
    let weights = Weights::read(&testdata(file)).unwrap();
    let tensors = weights.tensors.iter();
    let read: BTreeMap<_, _> = tensors
        .map(|tensor| {
            (
                tensor.name.clone(),
                (tensor.kind.clone(), tensor.shape.clone(), tensor.bytes),
            )
        })
        .collect();
    assert_eq!(read, expected.remove(key).unwrap());
    for tensor in &weights.tensors {
        assert_eq!(
            tensor.parameters,
            tensor.shape.iter().product::<u64>(),
            "{}",
            tensor.name
        );
    }
    weights
}

#[test]
fn every_type_that_safetensors_writes_is_read() {
    let weights = assert_agrees("every-type.safetensors", "every-type.safetensors");
    assert_eq!(weights.metadata["note"].as_text(), Some("café"));
}

#[test]
fn every_type_that_gguf_writes_is_read() {
    for name in ["every-type.gguf", "aligned-64.gguf"] {
        let weights = assert_agrees(name, name);
        let metadata = &weights.metadata;
        assert_eq!(metadata["general.architecture"].as_text(), Some("llama"));
        assert_eq!(metadata["llama.block_count"].as_u64(), Some(22));
        assert_eq!(metadata["llama.embedding_length"].as_u64(), Some(64));
        assert_eq!(
            metadata["llama.rope.freq_base"],
            MetadataValue::Float(10_000.0)
        );
        assert_eq!(metadata["llama.signed"], MetadataValue::Signed(-7));
        assert_eq!(metadata["llama.use_it"], MetadataValue::Bool(true));
        let heads = [4, 4, 8].map(MetadataValue::Signed).to_vec();
        assert_eq!(
            metadata["llama.attention.head_count_kv"],
            MetadataValue::List(heads)
        );
        assert!(metadata.keys().all(|key| !key.starts_with("tokenizer.")));
    }
}

#[test]
fn a_split_model_has_the_tensors_of_all_parts() {
    let weights = assert_agrees("split-00002-of-00003.gguf", "split");
    assert_eq!(weights.files, 3);
    assert_eq!(
        weights.metadata["llama.block_count"].as_u64(),
        Some(22),
        "from the first part"
    );
}

#[test]
fn a_big_endian_file_is_refused() {
    let error = Weights::read(&testdata("big-endian.gguf"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the GGUF file is big-endian; convert it with gguf_convert_endian.py: "),
        "{error}"
    );
}
