//! One GGUF file: what it says, and each way in which it can be wrong.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;

use nilo_weights::{KindTotal, MetadataValue, Weights, WeightsFormat};
use support::{Gguf, LongFile, array, read, refusal, string};

const NAME: &str = "model.gguf";

fn refused(file: &Gguf) -> String {
    refusal(&file.file(), NAME)
}

fn refused_long(beginning: Vec<u8>, length: u64) -> String {
    let file = LongFile::new(beginning, length);
    Weights::read_one_file(file, Path::new(NAME))
        .unwrap_err()
        .to_string()
}

#[test]
fn tensors_and_metadata_of_both_versions_are_read() {
    for version in [2, 3] {
        let mut file = Gguf::new()
            .text("general.architecture", "llama")
            .count("llama.block_count", 22)
            .floats("norm.weight", 8)
            .tensor(b"q.weight", &[512, 3], 12, 32);
        file.version = version;
        file.data_bytes = 32 + 2 * 3 * 144;
        let weights = read(&file.file(), NAME).unwrap();
        assert_eq!((weights.format, weights.files), (WeightsFormat::Gguf, 1));
        assert_eq!(weights.tensors[1].shape, [3, 512], "as in PyTorch");
        assert_eq!(weights.tensors[1].kind, "Q4_K");
        assert_eq!(
            (weights.total_parameters(), weights.total_bytes()),
            (8 + 1536, 32 + 864)
        );
        assert_eq!(
            weights.by_kind()["Q4_K"],
            KindTotal {
                parameters: 1536,
                bytes: 864
            }
        );
        assert_eq!(
            weights.metadata["general.architecture"].as_text(),
            Some("llama")
        );
        assert_eq!(weights.metadata["llama.block_count"].as_u64(), Some(22));
    }
}

#[test]
fn values_of_all_types_are_kept_and_those_of_tokenizers_are_not() {
    let short = array(4, 3, &[1_u32, 2, 3].map(u32::to_le_bytes).concat());
    let texts = array(8, 2, &[string(b"en"), string(b"de")].concat());
    let nested = array(
        9,
        2,
        &[array(0, 2, &[1, 2]), array(8, 1, &string(b"x"))].concat(),
    );
    let file = Gguf::new()
        .key("u8", 0, &[200])
        .key("i8", 1, &[200])
        .key("u16", 2, &60_000_u16.to_le_bytes())
        .key("i16", 3, &(-2_i16).to_le_bytes())
        .count("u32", u32::MAX)
        .key("i32", 5, &(-3_i32).to_le_bytes())
        .key("f32", 6, &1.5_f32.to_le_bytes())
        .key("bool", 7, &[1])
        .text("text", "é")
        .key("not utf-8", 8, &string(b"a\xff"))
        .key("list", 9, &short)
        .key("texts", 9, &texts)
        .key("nested", 9, &nested)
        .key("u64", 10, &u64::MAX.to_le_bytes())
        .key("i64", 11, &i64::MIN.to_le_bytes())
        .key("f64", 12, &2.5_f64.to_le_bytes())
        .text("long", &"x".repeat(4097))
        .key("long list", 9, &array(0, 4097, &[0; 4097]))
        .text("tokenizer.ggml.model", "gpt2")
        .key("tokenizer.ggml.tokens", 9, &texts)
        .key("tokenizer.ggml.scores", 9, &short)
        .count("last", 7);
    let expected = [
        ("bool", MetadataValue::Bool(true)),
        ("f32", MetadataValue::Float(1.5)),
        ("f64", MetadataValue::Float(2.5)),
        ("i16", MetadataValue::Signed(-2)),
        ("i32", MetadataValue::Signed(-3)),
        ("i64", MetadataValue::Signed(i64::MIN)),
        ("i8", MetadataValue::Signed(-56)),
        ("last", MetadataValue::Unsigned(7)),
        (
            "list",
            MetadataValue::List([1, 2, 3].map(MetadataValue::Unsigned).to_vec()),
        ),
        ("not utf-8", MetadataValue::Text("a\u{fffd}".to_owned())),
        ("text", MetadataValue::Text("é".to_owned())),
        ("u16", MetadataValue::Unsigned(60_000)),
        ("u32", MetadataValue::Unsigned(u32::MAX.into())),
        ("u64", MetadataValue::Unsigned(u64::MAX)),
        ("u8", MetadataValue::Unsigned(200)),
    ];
    let metadata = read(&file.file(), NAME).unwrap().metadata;
    let read: Vec<_> = metadata
        .iter()
        .map(|(key, value)| (key.as_str(), value.clone()))
        .collect();
    assert_eq!(read, expected);
    assert_eq!(metadata["i8"].as_u64(), None);
}

#[test]
fn a_file_of_a_hundred_gigabytes_costs_a_few_kilobytes() {
    let bytes = 100_000_000_000_u64;
    let header = Gguf::new()
        .key(
            "tokenizer.ggml.scores",
            9,
            &array(6, 1 << 20, &vec![0; 4 << 20]),
        )
        .text("tokenizer.chat_template", &"x".repeat(1 << 20))
        .tensor(b"w", &[bytes], 24, 0)
        .header();
    let length = header.len() as u64 + 32 + bytes;
    let mut file = LongFile::new(header, length);
    let weights = Weights::read_one_file(&mut file, Path::new(NAME)).unwrap();
    assert_eq!(weights.total_bytes(), bytes);
    assert!(
        file.bytes_read <= 64 << 10,
        "{} bytes read",
        file.bytes_read
    );
}

#[test]
fn a_file_without_tensors_needs_no_data() {
    let weights = read(&Gguf::new().text("general.type", "vocab").file(), NAME).unwrap();
    assert!(weights.tensors.is_empty());
}

#[test]
fn another_alignment_moves_the_data() {
    let file = |alignment| {
        let mut file = Gguf::new().count("general.alignment", alignment);
        file.alignment = alignment as usize;
        file.floats("a", 1).floats("b", 1)
    };
    for alignment in [1, 8, 32, 256] {
        assert_eq!(
            read(&file(alignment).file(), NAME).unwrap().total_bytes(),
            8
        );
    }
    let whole = file(256).file();
    assert_eq!(whole.len() % 256, 4);
    let sentence = "the file is truncated: 1 bytes are missing at its end: model.gguf";
    assert_eq!(refusal(&whole[..whole.len() - 1], NAME), sentence);
}

#[test]
fn an_alignment_that_is_no_power_of_two_is_refused() {
    let sentence = |value| {
        format!("general.alignment must be a power of two below 2^32, and is {value}: model.gguf")
    };
    let with = |value_type, value: &[u8]| {
        refused(&Gguf::new().key("general.alignment", value_type, value))
    };
    assert_eq!(with(4, &0_u32.to_le_bytes()), sentence("0"));
    assert_eq!(with(4, &24_u32.to_le_bytes()), sentence("24"));
    assert_eq!(with(5, &(-32_i32).to_le_bytes()), sentence("-32"));
    assert_eq!(
        with(10, &(1_u64 << 32).to_le_bytes()),
        sentence("4294967296")
    );
    assert_eq!(with(6, &32_f32.to_le_bytes()), sentence("not an integer"));
}

#[test]
fn other_files_and_versions_are_refused() {
    let with_version = |version| {
        let mut file = Gguf::new();
        file.version = version;
        refused(&file)
    };
    for version in [0, 1, 4, 65_537] {
        let sentence = format!("GGUF version {version} is not supported, only 2 and 3: model.gguf");
        assert_eq!(with_version(version), sentence);
    }
    let sentence =
        "the GGUF file is big-endian; convert it with gguf_convert_endian.py: model.gguf";
    assert_eq!(with_version(3_u32.swap_bytes()), sentence);
    let sentence = "neither a safetensors file nor a GGUF file: model.gguf";
    assert_eq!(refusal(b"GGML and more", NAME), sentence);
    assert_eq!(refusal(b"", NAME), sentence);
}

#[test]
fn counts_beyond_the_file_or_the_limit_are_refused() {
    let with = |tensors, keys| {
        let mut file = Gguf::new().count("a", 1);
        (file.claimed_tensors, file.claimed_keys) = (tensors, keys);
        refused(&file)
    };
    let sentence = "the header has 1000001 tensors, and the limit is 1000000: model.gguf";
    assert_eq!(with(Some(1_000_001), None), sentence);
    let sentence =
        "the header has 18446744073709551615 metadata keys, and the limit is 1000000: model.gguf";
    assert_eq!(with(None, Some(u64::MAX)), sentence);
    let sentence = "the header claims 1000000 tensors, but only 25 bytes are left: model.gguf";
    assert_eq!(with(Some(1_000_000), None), sentence);
    let sentence = "the header claims 2 metadata keys, but only 17 bytes are left: model.gguf";
    assert_eq!(with(None, Some(2)), sentence);
}

#[test]
fn arrays_beyond_the_file_or_the_limit_are_refused() {
    let refused = |element_type, count| {
        refused(&Gguf::new().key("a", 9, &array(element_type, count, &[0; 24])))
    };
    for (element_type, count) in [
        (0, 25),
        (10, 4),
        (12, u64::MAX),
        (8, 4),
        (9, 3),
        (9, u64::MAX / 12),
    ] {
        let sentence = format!(
            "the header claims {count} array elements, but only 24 bytes are left: model.gguf"
        );
        assert_eq!(refused(element_type, count), sentence);
    }
    let beginning = Gguf::new().key("a", 9, &array(8, 20_000_000, &[])).header();
    let sentence =
        "the header has 16000001 strings in arrays, and the limit is 16000000: model.gguf";
    assert_eq!(refused_long(beginning, 1 << 40), sentence);
}

#[test]
fn strings_beyond_the_file_or_the_limit_are_refused() {
    let key = Gguf::new().key("a", 8, &1000_u64.to_le_bytes());
    assert_eq!(
        refused(&key),
        "the header claims 1000 bytes of a string, but only 0 bytes are left: model.gguf"
    );
    let key = Gguf::new().key("a", 8, &(65_u64 << 20).to_le_bytes());
    let sentence = "a string of 68157440 bytes, and the limit is 67108864: model.gguf";
    assert_eq!(refused_long(key.header(), 1 << 40), sentence);
}

#[test]
fn names_that_take_too_much_memory_are_refused() {
    // Two keys whose names are 60 MB of zeros each; the first one's value is a `u8`.
    let length = 60_000_000_u64;
    let mut beginning = Gguf {
        claimed_keys: Some(2),
        ..Gguf::new()
    }
    .header();
    beginning.extend(length.to_le_bytes());
    let first_end = beginning.len() + length as usize;
    beginning.resize(first_end + 4 + 1, 0);
    beginning.extend(length.to_le_bytes());
    let sentence = "names and metadata take more than 100000000 bytes: model.gguf";
    assert_eq!(refused_long(beginning, 1 << 40), sentence);
}

#[test]
fn names_that_are_not_text_are_refused() {
    let sentence = refused(&Gguf::new().tensor(b"a\xff", &[1], 0, 0));
    assert_eq!(sentence, "the name before byte 34 is not UTF-8: model.gguf");
}

#[test]
fn unknown_metadata_types_are_refused() {
    let sentence = "metadata a has the unknown type 13: model.gguf";
    assert_eq!(refused(&Gguf::new().key("a", 13, &[0; 8])), sentence);
    assert_eq!(
        refused(&Gguf::new().key("a", 9, &array(13, 0, &[]))),
        sentence
    );
}

#[test]
fn arrays_are_nested_to_a_bounded_depth() {
    let nested = |depth: usize| {
        let mut value = array(8, 0, &[]);
        for _ in 1..depth {
            value = array(9, 1, &value);
        }
        Gguf::new().key("a", 9, &value)
    };
    assert!(read(&nested(8).file(), NAME).is_ok());
    let sentence = "metadata a has arrays nested more than 8 deep: model.gguf";
    assert_eq!(refused(&nested(9)), sentence);
    assert_eq!(refused(&nested(100_000)), sentence);
}

#[test]
fn a_key_or_a_tensor_that_is_there_twice_is_refused() {
    let sentence = "metadata a is there twice: model.gguf";
    assert_eq!(refused(&Gguf::new().count("a", 1).count("a", 1)), sentence);
    let sentence = "two tensors are named a: model.gguf";
    assert_eq!(
        refused(&Gguf::new().floats("a", 1).floats("a", 1)),
        sentence
    );
}

#[test]
fn every_unknown_tensor_type_is_named_by_its_number() {
    for number in [4, 5, 31, 32, 33, 36, 37, 38, 43, 99, u32::MAX] {
        let sentence = format!("tensor w has the unknown type {number}: model.gguf");
        assert_eq!(
            refused(&Gguf::new().tensor(b"w", &[256], number, 0)),
            sentence
        );
    }
}

#[test]
fn more_dimensions_than_ggml_has_are_refused() {
    let sentence = "tensor w has 5 dimensions, and the limit is 4: model.gguf";
    assert_eq!(refused(&Gguf::new().tensor(b"w", &[1; 5], 0, 0)), sentence);
}

#[test]
fn a_row_that_ends_within_a_block_is_refused() {
    let sentence = "tensor w has rows of 100 elements, but Q4_K comes in blocks of 256: model.gguf";
    assert_eq!(
        refused(&Gguf::new().tensor(b"w", &[100, 256], 12, 0)),
        sentence
    );
    let sentence = "tensor w has rows of 1 elements, but Q8_0 comes in blocks of 32: model.gguf";
    assert_eq!(refused(&Gguf::new().tensor(b"w", &[], 8, 0)), sentence);
}

#[test]
fn sizes_that_overflow_are_refused() {
    let sentence = "the size of tensor w overflows 64 bits: model.gguf";
    assert_eq!(
        refused(&Gguf::new().tensor(b"w", &[1 << 32, 1 << 32], 0, 0)),
        sentence
    );
    assert_eq!(
        refused(&Gguf::new().tensor(b"w", &[1 << 62], 0, 0)),
        sentence
    );
    assert_eq!(
        refused(&Gguf::new().tensor(b"w", &[32], 24, u64::MAX - 31)),
        sentence
    );
    assert_eq!(
        refused(&Gguf::new().tensor(b"w", &[0, 1 << 32, 1 << 32], 0, 0)),
        sentence
    );
    let sentence = "the sum of all tensors overflows 64 bits: model.gguf";
    assert_eq!(
        refused(&Gguf::new().tensor(b"w", &[31], 24, u64::MAX - 31)),
        sentence
    );
}

#[test]
fn tensors_at_wrong_places_are_refused() {
    let sentence =
        "tensor w begins at byte 16 of the data, which is not a multiple of 32: model.gguf";
    assert_eq!(refused(&Gguf::new().tensor(b"w", &[1], 0, 16)), sentence);
    let sentence = "tensors a and b overlap: model.gguf";
    let overlapping = Gguf::new()
        .tensor(b"b", &[1], 0, 32)
        .tensor(b"a", &[9], 0, 0);
    assert_eq!(refused(&overlapping), sentence);
}

#[test]
fn truncated_data_names_the_missing_bytes() {
    let file = Gguf::new().floats("a", 1000).file();
    let sentence = "the file is truncated: 1234 bytes are missing at its end: model.gguf";
    assert_eq!(refusal(&file[..file.len() - 1234], NAME), sentence);
}

#[test]
fn a_valid_file_is_refused_at_every_cut() {
    let file = Gguf::new()
        .text("general.architecture", "llama")
        .key("list", 9, &array(4, 2, &[0; 8]))
        .key(
            "texts",
            9,
            &array(8, 2, &[string(b"en"), string(b"de")].concat()),
        )
        .floats("a", 3)
        .floats("b", 2)
        .file();
    assert!(read(&file, NAME).is_ok());
    for length in 0..file.len() {
        assert!(read(&file[..length], NAME).is_err(), "cut at {length}");
    }
}
