//! Checkpoints of several files, and what else lies at a path.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;

use nilo_weights::{MetadataValue, ShardIndex, Weights, WeightsFormat};
use support::{Gguf, floats};
use tempfile::TempDir;

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

/// The sentence with which a path in a folder is refused, without the path of the folder.
fn refused(folder: &TempDir, name: &str) -> String {
    let error = Weights::read(&folder.path().join(name))
        .unwrap_err()
        .to_string();
    error.replace(&folder.path().display().to_string(), "models")
}

fn index(weight_map: &str) -> Vec<u8> {
    format!(r#"{{"metadata":{{"total_size":20}},"weight_map":{{{weight_map}}}}}"#).into_bytes()
}

const INDEX: &str = "model.safetensors.index.json";

/// A checkpoint of two shards with an index that says this of them.
fn sharded(weight_map: &str) -> TempDir {
    folder(&[
        (INDEX, index(weight_map)),
        (
            "model-00001-of-00002.safetensors",
            floats(&[("a", 2), ("b", 1)]),
        ),
        ("model-00002-of-00002.safetensors", floats(&[("c", 2)])),
    ])
}

const WEIGHT_MAP: &str = r#""a":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors""#;

#[test]
fn an_index_stands_for_its_shards_and_so_does_its_folder() {
    let folder = sharded(WEIGHT_MAP);
    for path in [folder.path().join(INDEX), folder.path().to_path_buf()] {
        let weights = Weights::read(&path).unwrap();
        assert_eq!(
            (weights.format, weights.files),
            (WeightsFormat::Safetensors, 2)
        );
        let names: Vec<&str> = weights
            .tensors
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!((weights.total_bytes(), weights.total_parameters()), (20, 5));
        assert_eq!(weights.metadata["total_size"], MetadataValue::Unsigned(20));
    }
}

#[test]
fn one_part_stands_for_all_parts_beside_it() {
    let folder = sharded(WEIGHT_MAP);
    let weights = Weights::read(&folder.path().join("model-00002-of-00002.safetensors")).unwrap();
    assert_eq!((weights.files, weights.total_bytes()), (2, 20));
}

#[test]
fn a_missing_shard_is_named() {
    let folder = sharded(WEIGHT_MAP);
    fs::remove_file(folder.path().join("model-00002-of-00002.safetensors")).unwrap();
    let sentence = "the shard model-00002-of-00002.safetensors is missing: models/";
    assert_eq!(refused(&folder, INDEX), format!("{sentence}{INDEX}"));
    let part = "model-00001-of-00002.safetensors";
    assert_eq!(refused(&folder, part), format!("{sentence}{part}"));
    fs::remove_file(folder.path().join(INDEX)).unwrap();
    assert_eq!(refused(&folder, ""), sentence);
}

#[test]
fn a_shard_name_that_leaves_the_folder_is_refused() {
    for name in [
        "../x.safetensors",
        "/etc/passwd",
        "a/b.safetensors",
        "..",
        ".",
        "",
        "a\\\\b",
        "c:x",
        "a\\u0000",
    ] {
        let folder = sharded(&format!(r#""a":"{name}""#));
        let sentence = refused(&folder, INDEX);
        assert!(sentence.starts_with("the shard name "), "{sentence}");
        assert!(
            sentence.ends_with(&format!(
                " is not the name of a file beside the index: models/{INDEX}"
            )),
            "{sentence}"
        );
    }
}

#[test]
fn an_index_out_of_step_with_its_shards_is_refused() {
    let folder = sharded(r#""a":"model-00002-of-00002.safetensors""#);
    let sentence = format!(
        "the index places tensor a in model-00002-of-00002.safetensors, which does not have it: models/{INDEX}"
    );
    assert_eq!(refused(&folder, INDEX), sentence);
}

#[test]
fn an_index_that_is_empty_or_not_an_index_is_refused() {
    assert_eq!(
        refused(&sharded(""), INDEX),
        format!("the index names no shards: models/{INDEX}")
    );
    let twice = r#""a":"x.safetensors","a":"y.safetensors""#;
    assert_eq!(
        refused(&sharded(twice), INDEX),
        format!("two tensors are named a: models/{INDEX}")
    );
    for text in [
        "",
        "[]",
        "{}",
        r#"{"weight_map":[]}"#,
        r#"{"weight_map":{"a":1}}"#,
        &"[".repeat(100_000),
    ] {
        let folder = folder(&[(INDEX, text.as_bytes().to_vec())]);
        let sentence = refused(&folder, INDEX);
        assert!(
            sentence.starts_with("unexpected JSON: ") && sentence.ends_with(INDEX),
            "{sentence}"
        );
    }
}

#[test]
fn an_index_of_more_tensors_than_the_limit_is_refused() {
    let place = r#""a":"b""#;
    let index = index(&format!("{place}{}", format!(",{place}").repeat(1_000_000)));
    let sentence = ShardIndex::parse(&index, Path::new(INDEX))
        .unwrap_err()
        .to_string();
    assert!(
        sentence.starts_with("unexpected JSON: more than 1000000 tensors at line 1 "),
        "{sentence}"
    );
}

#[test]
fn an_index_beyond_the_limit_is_refused() {
    let folder = folder(&[(INDEX, Vec::new())]);
    let file = fs::File::options()
        .write(true)
        .open(folder.path().join(INDEX))
        .unwrap();
    file.set_len(100_000_001).unwrap();
    let sentence =
        format!("the header has 100000001 bytes, and the limit is 100000000: models/{INDEX}");
    assert_eq!(refused(&folder, INDEX), sentence);
}

#[test]
fn the_total_size_of_an_index_is_read_where_it_is_a_whole_number() {
    let parse = |total: &str| {
        let text =
            format!(r#"{{"metadata":{{"total_size":{total},"x":[1]}},"weight_map":{{"a":"b"}}}}"#);
        ShardIndex::parse(text.as_bytes(), Path::new(INDEX))
            .unwrap()
            .total_size_bytes
    };
    assert_eq!(parse("13476831232"), Some(13_476_831_232));
    assert_eq!(parse("13476831232.0"), Some(13_476_831_232));
    assert_eq!(
        [parse("null"), parse("1.5"), parse("-1"), parse("1e300")],
        [None; 4]
    );
}

#[test]
fn a_tensor_in_two_files_is_refused() {
    let folder = folder(&[
        ("a.safetensors", floats(&[("w", 1), ("x", 1)])),
        ("b.safetensors", floats(&[("x", 2)])),
    ]);
    assert_eq!(
        refused(&folder, ""),
        "tensor x is in a.safetensors as well: models/b.safetensors"
    );
}

#[test]
fn a_shard_of_another_format_is_refused() {
    let gguf = Gguf::new().floats("b", 1).file();
    let files = [
        ("a.safetensors", floats(&[("a", 1)])),
        ("b.safetensors", gguf),
    ];
    let sentence =
        "the file has another format than the rest of the checkpoint: models/b.safetensors";
    assert_eq!(refused(&folder(&files), ""), sentence);
}

#[test]
fn a_split_gguf_model_is_read_from_any_part_and_from_its_folder() {
    let part = |tensor: &str, total: i32| {
        let file = Gguf::new().key("split.tensors.count", 5, &total.to_le_bytes());
        file.count("only.in.some", 1).floats(tensor, 1).file()
    };
    let split = folder(&[
        ("m-00001-of-00002.gguf", part("a", 2)),
        ("m-00002-of-00002.gguf", part("b", 2)),
    ]);
    for name in ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf", ""] {
        let weights = Weights::read(&split.path().join(name)).unwrap();
        assert_eq!(
            (weights.format, weights.files, weights.total_bytes()),
            (WeightsFormat::Gguf, 2, 8)
        );
    }
    let wrong = folder(&[
        ("m-00001-of-00002.gguf", part("a", 3)),
        ("m-00002-of-00002.gguf", part("b", 3)),
    ]);
    let sentence =
        "the parts hold 2 tensors, but split.tensors.count is 3: models/m-00001-of-00002.gguf";
    assert_eq!(refused(&wrong, ""), sentence);
    fs::remove_file(split.path().join("m-00001-of-00002.gguf")).unwrap();
    let sentence = "the shard m-00001-of-00002.gguf is missing: models/m-00002-of-00002.gguf";
    assert_eq!(refused(&split, "m-00002-of-00002.gguf"), sentence);
}

#[test]
fn of_several_gguf_models_one_has_to_be_named() {
    let folder = folder(&[
        ("m-Q4_0.gguf", Gguf::new().file()),
        ("m-Q8_0.gguf", Gguf::new().file()),
    ]);
    assert_eq!(
        refused(&folder, ""),
        "the folder has 2 models, so name one of them, such as m-Q4_0.gguf: models/"
    );
    assert!(Weights::read(&folder.path().join("m-Q8_0.gguf")).is_ok());
}

#[test]
fn pickles_say_what_to_do() {
    let pickle = b"\x80\x02}q\x00.".to_vec();
    let zip = b"PK\x03\x04\x00\x00\x08\x08\x00\x00archive/data.pkl".to_vec();
    let folder = folder(&[
        ("pytorch_model.bin", zip.clone()),
        ("old.pth", pickle.clone()),
        ("renamed.safetensors", zip),
        ("without_extension", pickle),
    ]);
    for name in [
        "pytorch_model.bin",
        "old.pth",
        "renamed.safetensors",
        "without_extension",
    ] {
        let sentence =
            format!("the checkpoint is a pickle; convert it to safetensors: models/{name}");
        assert_eq!(refused(&folder, name), sentence);
    }
    fs::remove_file(folder.path().join("renamed.safetensors")).unwrap();
    let sentence =
        "the checkpoint is a pickle; convert it to safetensors: models/pytorch_model.bin";
    assert_eq!(refused(&folder, ""), sentence);
}

#[test]
fn a_git_lfs_pointer_says_what_to_do() {
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n".to_vec();
    let sentence = "the file is a Git LFS pointer without the weights; download them with git lfs pull: models/a.safetensors";
    assert_eq!(
        refused(&folder(&[("a.safetensors", pointer)]), ""),
        sentence
    );
}

#[test]
fn the_content_counts_more_than_the_extension() {
    let folder = folder(&[
        ("blob", floats(&[("a", 1)])),
        ("blob.bin", Gguf::new().floats("a", 1).file()),
    ]);
    assert_eq!(
        Weights::read(&folder.path().join("blob")).unwrap().format,
        WeightsFormat::Safetensors
    );
    assert_eq!(
        Weights::read(&folder.path().join("blob.bin"))
            .unwrap()
            .format,
        WeightsFormat::Gguf
    );
}

#[test]
fn paths_without_weights_are_refused() {
    let folder = folder(&[
        ("config.json", b"{}".to_vec()),
        ("._model.safetensors", Vec::new()),
    ]);
    fs::create_dir(folder.path().join("folder.safetensors")).unwrap();
    let sentence = "the folder has no .safetensors file and no .gguf file: models/";
    assert_eq!(refused(&folder, ""), sentence);
    assert_eq!(
        refused(&folder, "config.json"),
        "neither a safetensors file nor a GGUF file: models/config.json"
    );
    let sentence =
        "cannot read the checkpoint (No such file or directory (os error 2)): models/none.gguf";
    assert_eq!(refused(&folder, "none.gguf"), sentence);
}

#[cfg(unix)]
#[test]
fn devices_are_refused_and_symbolic_links_are_followed() {
    let error = Weights::read(Path::new("/dev/zero")).unwrap_err();
    assert_eq!(error.to_string(), "neither a file nor a folder: /dev/zero");

    // The cache of Hugging Face has links to files that are named after their contents.
    let blobs = folder(&[("0123abcd", floats(&[("a", 1)]))]);
    let snapshot = tempfile::tempdir().unwrap();
    let link = snapshot.path().join("model.safetensors");
    std::os::unix::fs::symlink(blobs.path().join("0123abcd"), &link).unwrap();
    assert_eq!(Weights::read(snapshot.path()).unwrap().total_bytes(), 4);
    fs::remove_file(blobs.path().join("0123abcd")).unwrap();
    let sentence = "cannot read the checkpoint (No such file or directory (os error 2)): models/model.safetensors";
    assert_eq!(refused(&snapshot, ""), sentence);
}

#[test]
fn a_reader_that_fails_is_an_error() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is on fire"))
        }
    }
    impl std::io::Seek for Broken {
        fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
            Ok(4096)
        }
    }
    let error = Weights::read_one_file(Broken, Path::new("a.gguf")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot read the checkpoint (the disk is on fire): a.gguf"
    );
}

#[test]
fn a_sparse_file_of_a_hundred_gigabytes_is_read_from_disk() {
    let bytes = 100_000_000_000_u64;
    let header = Gguf::new().tensor(b"w", &[bytes], 24, 0).header();
    let folder = folder(&[("m.gguf", header.clone())]);
    let file = fs::File::options()
        .write(true)
        .open(folder.path().join("m.gguf"))
        .unwrap();
    // Not every file system has room for such a file.
    if file
        .set_len(header.len().next_multiple_of(32) as u64 + bytes)
        .is_ok()
    {
        assert_eq!(Weights::read(folder.path()).unwrap().total_bytes(), bytes);
    }
}
