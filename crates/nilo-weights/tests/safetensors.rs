//! One safetensors file: what it says, and each way in which it can be wrong.

#![allow(clippy::unwrap_used)]

mod support;

use nilo_weights::{KindTotal, MetadataValue, WeightsFormat};
use support::{LongFile, entry, floats, read, refusal, safetensors};

const NAME: &str = "model.safetensors";

fn refused(entries: &[String], data_bytes: usize) -> String {
    refusal(
        &safetensors(&format!("{{{}}}", entries.join(",")), data_bytes),
        NAME,
    )
}

#[test]
fn tensors_come_in_the_order_of_their_data_with_their_sums() {
    let header = format!(
        r#"{{{},"__metadata__":{{"format":"pt"}},{},{}}}   "#,
        entry("b", "BF16", "[2, 3]", 4, 16),
        entry("a", "F32", "[]", 0, 4),
        entry("empty", "BF16", "[0,5]", 16, 16),
    );
    let weights = read(&safetensors(&header, 16), NAME).unwrap();
    assert_eq!(weights.format, WeightsFormat::Safetensors);
    assert_eq!(weights.files, 1);
    let names: Vec<&str> = weights
        .tensors
        .iter()
        .map(|tensor| tensor.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "empty"]);
    assert_eq!(weights.tensors[1].shape, [2, 3]);
    assert_eq!((weights.total_bytes(), weights.total_parameters()), (16, 7));
    let by_kind = weights.by_kind();
    assert_eq!(
        by_kind["BF16"],
        KindTotal {
            parameters: 6,
            bytes: 12
        }
    );
    assert_eq!(
        by_kind["F32"],
        KindTotal {
            parameters: 1,
            bytes: 4
        }
    );
    assert_eq!(
        weights.metadata["format"],
        MetadataValue::Text("pt".to_owned())
    );
}

#[test]
fn every_type_has_its_bits() {
    let sizes = [
        ("BOOL", 64),
        ("F4", 32),
        ("F6_E2M3", 48),
        ("F6_E3M2", 48),
        ("U8", 64),
        ("I8", 64),
        ("F8_E5M2", 64),
        ("F8_E4M3", 64),
        ("F8_E8M0", 64),
        ("F8_E4M3FNUZ", 64),
        ("F8_E5M2FNUZ", 64),
        ("I16", 128),
        ("U16", 128),
        ("F16", 128),
        ("BF16", 128),
        ("I32", 256),
        ("U32", 256),
        ("F32", 256),
        ("C64", 512),
        ("F64", 512),
        ("I64", 512),
        ("U64", 512),
    ];
    for (dtype, bytes) in sizes {
        let file = safetensors(
            &format!("{{{}}}", entry("w", dtype, "[8,8]", 0, bytes)),
            bytes as usize,
        );
        assert_eq!(read(&file, NAME).unwrap().total_bytes(), bytes, "{dtype}");
    }
}

#[test]
fn long_metadata_is_left_out_and_none_is_allowed() {
    let header = format!(
        r#"{{"__metadata__":{{"short":"a","long":"{}"}}}}"#,
        "x".repeat(5000)
    );
    let weights = read(&safetensors(&header, 0), NAME).unwrap();
    assert_eq!(weights.metadata.keys().collect::<Vec<_>>(), ["short"]);
    assert!(
        read(&safetensors(r#"{"__metadata__":null}"#, 0), NAME)
            .unwrap()
            .metadata
            .is_empty()
    );
}

#[test]
fn a_file_of_a_hundred_gigabytes_costs_a_few_kilobytes() {
    let bytes = 100_000_000_000;
    let header = safetensors(
        &format!("{{{}}}", entry("w", "U8", &format!("[{bytes}]"), 0, bytes)),
        0,
    );
    let length = header.len() as u64 + bytes;
    let mut file = LongFile::new(header, length);
    let weights = nilo_weights::Weights::read_one_file(&mut file, NAME.as_ref()).unwrap();
    assert_eq!(weights.total_bytes(), bytes);
    assert!(
        file.bytes_read <= 32 << 10,
        "{} bytes read",
        file.bytes_read
    );
}

#[test]
fn a_file_shorter_than_the_length_of_its_header_is_refused() {
    assert_eq!(
        refusal(b"", NAME),
        "the file ends inside its header, after 0 bytes: model.safetensors"
    );
    assert_eq!(
        refusal(&[1, 0, 0], NAME),
        "the file ends inside its header, after 3 bytes: model.safetensors"
    );
}

#[test]
fn a_header_longer_than_its_file_is_refused() {
    let mut file = 12_345_678_901_u64.to_le_bytes().to_vec();
    file.resize(4096, b'{');
    let sentence = "the header claims 12345678901 bytes, but the file has 4096: model.safetensors";
    assert_eq!(refusal(&file, NAME), sentence);
    file[..8].fill(0xff);
    let sentence =
        "the header claims 18446744073709551615 bytes, but the file has 4096: model.safetensors";
    assert_eq!(refusal(&file, NAME), sentence);
}

#[test]
fn a_header_beyond_the_limit_of_the_format_is_refused() {
    let file = LongFile::new(
        [&100_000_001_u64.to_le_bytes(), b"{".as_slice()].concat(),
        1 << 40,
    );
    let error = nilo_weights::Weights::read_one_file(file, NAME.as_ref()).unwrap_err();
    let sentence = "the header has 100000001 bytes, and the limit is 100000000: model.safetensors";
    assert_eq!(error.to_string(), sentence);
}

#[test]
fn what_is_not_the_json_of_a_header_is_refused() {
    let offsets =
        |offsets: &str| format!(r#"{{"w":{{"dtype":"U8","shape":[1],"data_offsets":{offsets}}}}}"#);
    for header in [
        "{",
        "[]",
        "{}}",
        r#"{"w":1}"#,
        r#"{"w":{}}"#,
        "{\"\u{0}\":{}}",
        r#"{"__metadata__":{"a":1}}"#,
        r#"{"__metadata__":{},"__metadata__":{}}"#,
        r#"{"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
        &offsets("[0]"),
        &offsets("[0,1,2]"),
        &offsets("[-1,0]"),
        &offsets("[0,1.5]"),
        &offsets("[0,18446744073709551616]"),
        &"[".repeat(100_000),
        &format!(r#"{{"w":{{"x":{}"#, "[".repeat(100_000)),
        &format!("{{{}}}", entry("w", "U8", &format!("{:?}", [1; 65]), 0, 1)),
    ] {
        let sentence = refusal(&safetensors(header, 1), NAME);
        assert!(
            sentence.starts_with("unexpected JSON: ") && sentence.ends_with(": model.safetensors"),
            "{sentence}"
        );
        assert!(sentence.len() < 300, "{sentence}");
    }
    let invalid_utf8 = [&6_u64.to_le_bytes(), b"{\"\xff\":1".as_slice()].concat();
    assert!(refusal(&invalid_utf8, NAME).starts_with("unexpected JSON: "));
}

#[test]
fn more_tensors_than_the_limit_are_refused() {
    let entry = entry("w", "U8", "[0]", 0, 0);
    let header = format!("{{{entry}{}}}", format!(",{entry}").repeat(1_000_000));
    let sentence = refusal(&safetensors(&header, 0), NAME);
    assert!(
        sentence.starts_with("unexpected JSON: more than 1000000 tensors at line 1 "),
        "{sentence}"
    );
}

#[test]
fn two_tensors_of_one_name_are_refused() {
    let entries = [entry("w", "U8", "[1]", 0, 1), entry("w", "U8", "[1]", 1, 2)];
    assert_eq!(
        refused(&entries, 2),
        "two tensors are named w: model.safetensors"
    );
    let escaped = [
        entry("w", "U8", "[1]", 0, 1),
        entry("\\u0077", "U8", "[1]", 1, 2),
    ];
    assert_eq!(
        refused(&escaped, 2),
        "two tensors are named w: model.safetensors"
    );
}

#[test]
fn an_unknown_type_is_refused() {
    let sentence = "tensor w has the unknown type F7: model.safetensors";
    assert_eq!(refused(&[entry("w", "F7", "[1]", 0, 1)], 1), sentence);
}

#[test]
fn offsets_that_disagree_with_type_and_shape_are_refused() {
    let sentence = "tensor w needs 12 bytes for its type and shape, but has 10: model.safetensors";
    assert_eq!(refused(&[entry("w", "BF16", "[2,3]", 0, 10)], 10), sentence);
    let sentence = "tensor w begins at byte 4 of the data and ends at byte 2: model.safetensors";
    assert_eq!(refused(&[entry("w", "BF16", "[1]", 4, 2)], 10), sentence);
}

#[test]
fn a_tensor_that_ends_within_a_byte_is_refused() {
    let sentence = "tensor w has 12 bits, which is not a whole number of bytes: model.safetensors";
    assert_eq!(refused(&[entry("w", "F4", "[3]", 0, 2)], 2), sentence);
}

#[test]
fn sizes_that_overflow_are_refused() {
    let sentence = "the size of tensor w overflows 64 bits: model.safetensors";
    for (dtype, shape) in [
        ("U8", "[4294967296,4294967296]"),
        ("F64", "[2305843009213693952]"),
        ("U8", "[0,4294967296,4294967296]"),
    ] {
        assert_eq!(refused(&[entry("w", dtype, shape, 0, 0)], 0), sentence);
    }
    let most = (1_u64 << 61) - 1;
    let entries: Vec<String> = (0..8)
        .map(|index| {
            entry(
                &format!("w{index}"),
                "U8",
                &format!("[{most}]"),
                index * most,
                (index + 1) * most,
            )
        })
        .collect();
    assert_eq!(
        refused(&entries, 0),
        "the sum of all tensors overflows 64 bits: model.safetensors"
    );
}

#[test]
fn tensors_in_the_same_bytes_are_refused() {
    let entries = [entry("b", "U8", "[4]", 2, 6), entry("a", "U8", "[4]", 0, 4)];
    assert_eq!(
        refused(&entries, 6),
        "tensors a and b overlap: model.safetensors"
    );
}

#[test]
fn bytes_that_belong_to_no_tensor_are_refused() {
    let entries = [
        entry("a", "U8", "[4]", 0, 4),
        entry("b", "U8", "[4]", 6, 10),
    ];
    assert_eq!(
        refused(&entries, 10),
        "2 bytes before tensor b belong to no tensor: model.safetensors"
    );
    let mut file = floats(&[("a", 3)]);
    file.push(0);
    assert_eq!(
        refusal(&file, NAME),
        "1 bytes after the last tensor belong to no tensor: model.safetensors"
    );
}

#[test]
fn a_truncated_file_names_the_missing_bytes() {
    let file = floats(&[("a", 1000), ("b", 1000)]);
    let sentence = "the file is truncated: 1234 bytes are missing at its end: model.safetensors";
    assert_eq!(refusal(&file[..file.len() - 1234], NAME), sentence);
}

#[test]
fn a_valid_file_is_refused_at_every_cut() {
    let file = floats(&[("a", 3), ("b", 2)]);
    for length in 0..file.len() {
        assert!(read(&file[..length], NAME).is_err(), "cut at {length}");
    }
}
