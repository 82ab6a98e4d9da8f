//! Why the weights of a checkpoint cannot be told from its header.

use std::io;
use std::path::PathBuf;

/// A checkpoint that cannot be read, or whose header cannot be right.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The operating system refuses.
    #[error("cannot read the checkpoint ({source}): {}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A device, a pipe or a socket.
    #[error("neither a file nor a folder: {}", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A folder without weights in a known format.
    #[error("the folder has no .safetensors file and no .gguf file: {}", path.display())]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// A folder with several models, of which only the user knows which one is meant.
    #[error("the folder has {count} models, so name one of them, such as {}: {}", shown(example), path.display())]
    SeveralModels {
        /// How many there are.
        count: usize,
        /// The first of them.
        example: String,
        /// The folder.
        path: PathBuf,
    },
    /// A file of `torch.save`.
    #[error("the checkpoint is a pickle; convert it to safetensors: {}", path.display())]
    Pickle {
        /// The file.
        path: PathBuf,
    },
    /// What Git leaves in place of a large file that was not downloaded.
    #[error("the file is a Git LFS pointer without the weights; download them with git lfs pull: {}", path.display())]
    LfsPointer {
        /// The file.
        path: PathBuf,
    },
    /// A file that begins like neither format.
    #[error("neither a safetensors file nor a GGUF file: {}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// A file of another format than the first file of the checkpoint.
    #[error("the file has another format than the rest of the checkpoint: {}", path.display())]
    MixedFormats {
        /// The file.
        path: PathBuf,
    },

    /// A shard that the index or the number in a file name promises.
    #[error("the shard {} is missing: {}", shown(shard), path.display())]
    MissingShard {
        /// Its file name.
        shard: String,
        /// The index, or the folder it should be in.
        path: PathBuf,
    },
    /// A shard name that is a path.
    #[error("the shard name {} is not the name of a file beside the index: {}", shown(shard), path.display())]
    ShardOutside {
        /// The name.
        shard: String,
        /// The index.
        path: PathBuf,
    },
    /// An index that is out of step with its shards.
    #[error("the index places tensor {} in {}, which does not have it: {}", shown(tensor), shown(shard), path.display())]
    NotInShard {
        /// The tensor.
        tensor: String,
        /// The file it should be in.
        shard: String,
        /// The index.
        path: PathBuf,
    },
    /// An index without shards.
    #[error("the index names no shards: {}", path.display())]
    EmptyIndex {
        /// The index.
        path: PathBuf,
    },
    /// Parts of a split GGUF file that do not hold what the first one says.
    #[error("the parts hold {found} tensors, but split.tensors.count is {claimed}: {}", path.display())]
    SplitTensors {
        /// The tensors in all the parts.
        found: u64,
        /// What the first part says.
        claimed: u64,
        /// The first part.
        path: PathBuf,
    },

    /// A file that ends before its header does.
    #[error("the file ends inside its header, after {file_bytes} bytes: {}", path.display())]
    HeaderCut {
        /// The length of the file.
        file_bytes: u64,
        /// The file.
        path: PathBuf,
    },
    /// A header length beyond the end of the file.
    #[error("the header claims {claimed} bytes, but the file has {file_bytes}: {}", path.display())]
    HeaderLength {
        /// What the first eight bytes say.
        claimed: u64,
        /// The length of the file.
        file_bytes: u64,
        /// The file.
        path: PathBuf,
    },
    /// A header or an index larger than its format allows.
    #[error("the header has {bytes} bytes, and the limit is {limit}: {}", path.display())]
    HeaderTooLarge {
        /// Its length.
        bytes: u64,
        /// The most that is read.
        limit: u64,
        /// The file.
        path: PathBuf,
    },
    /// Names and metadata that would take too much memory.
    #[error("names and metadata take more than {limit} bytes: {}", path.display())]
    KeptTooLarge {
        /// The most that is kept.
        limit: u64,
        /// The file.
        path: PathBuf,
    },
    /// A header or an index that is not the JSON of its format.
    #[error("unexpected JSON: {}: {}", shown(problem), path.display())]
    InvalidJson {
        /// What is wrong with it, and where.
        problem: String,
        /// The file.
        path: PathBuf,
    },
    /// More of something than is read.
    #[error("the header has {count} {what}, and the limit is {limit}: {}", path.display())]
    TooMany {
        /// What it is, in the plural.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// The most that is read.
        limit: u64,
        /// The file.
        path: PathBuf,
    },
    /// More of something than fits into the rest of the file.
    #[error("the header claims {count} {what}, but only {left_bytes} bytes are left: {}", path.display())]
    CountBeyondFile {
        /// What it is, in the plural.
        what: &'static str,
        /// How many the header claims.
        count: u64,
        /// What is left of the file.
        left_bytes: u64,
        /// The file.
        path: PathBuf,
    },

    /// A version of GGUF that is not read.
    #[error("GGUF version {version} is not supported, only 2 and 3: {}", path.display())]
    GgufVersion {
        /// The version in the file.
        version: u32,
        /// The file.
        path: PathBuf,
    },
    /// A GGUF file for big-endian machines.
    #[error("the GGUF file is big-endian; convert it with gguf_convert_endian.py: {}", path.display())]
    BigEndian {
        /// The file.
        path: PathBuf,
    },
    /// A string longer than any sensible one.
    #[error("a string of {bytes} bytes, and the limit is {limit}: {}", path.display())]
    StringTooLong {
        /// Its length.
        bytes: u64,
        /// The most that is read.
        limit: u64,
        /// The file.
        path: PathBuf,
    },
    /// A key or a tensor name that is not text.
    #[error("the name before byte {offset} is not UTF-8: {}", path.display())]
    NotUtf8 {
        /// The byte after it.
        offset: u64,
        /// The file.
        path: PathBuf,
    },
    /// A metadata type that GGUF does not have.
    #[error("metadata {} has the unknown type {value_type}: {}", shown(key), path.display())]
    UnknownValueType {
        /// The key.
        key: String,
        /// The number of the type.
        value_type: u32,
        /// The file.
        path: PathBuf,
    },
    /// Arrays within arrays within arrays.
    #[error("metadata {} has arrays nested more than {limit} deep: {}", shown(key), path.display())]
    NestedTooDeep {
        /// The key.
        key: String,
        /// The deepest that is read.
        limit: usize,
        /// The file.
        path: PathBuf,
    },
    /// A metadata key that is there twice.
    #[error("metadata {} is there twice: {}", shown(key), path.display())]
    DuplicateKey {
        /// The key.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// An alignment that cannot be one.
    #[error("general.alignment must be a power of two below 2^32, and is {value}: {}", path.display())]
    Alignment {
        /// What it is.
        value: String,
        /// The file.
        path: PathBuf,
    },

    /// Two tensors of one name in one file.
    #[error("two tensors are named {}: {}", shown(tensor), path.display())]
    DuplicateTensor {
        /// The name.
        tensor: String,
        /// The file.
        path: PathBuf,
    },
    /// Two files with a tensor of the same name.
    #[error("tensor {} is in {} as well: {}", shown(tensor), shown(first), path.display())]
    DuplicateAcrossFiles {
        /// The name.
        tensor: String,
        /// The file name of the first one.
        first: String,
        /// The second file.
        path: PathBuf,
    },
    /// A tensor type that its format does not have.
    #[error("tensor {} has the unknown type {}: {}", shown(tensor), shown(kind), path.display())]
    UnknownKind {
        /// The tensor.
        tensor: String,
        /// The name or the number of the type.
        kind: String,
        /// The file.
        path: PathBuf,
    },
    /// More dimensions than the format has.
    #[error("tensor {} has {dimensions} dimensions, and the limit is {limit}: {}", shown(tensor), path.display())]
    TooManyDimensions {
        /// The tensor.
        tensor: String,
        /// How many there are.
        dimensions: u32,
        /// The most there can be.
        limit: u32,
        /// The file.
        path: PathBuf,
    },
    /// A size beyond what can be counted.
    #[error("the size of tensor {} overflows 64 bits: {}", shown(tensor), path.display())]
    Overflow {
        /// The tensor.
        tensor: String,
        /// The file.
        path: PathBuf,
    },
    /// Elements of less than a byte that end within one.
    #[error("tensor {} has {bits} bits, which is not a whole number of bytes: {}", shown(tensor), path.display())]
    PartialByte {
        /// The tensor.
        tensor: String,
        /// The bits of all its elements.
        bits: u64,
        /// The file.
        path: PathBuf,
    },
    /// Rows that do not fill the blocks of a quantized type.
    #[error("tensor {} has rows of {row_length} elements, but {kind} comes in blocks of {block_length}: {}", shown(tensor), path.display())]
    PartialBlock {
        /// The tensor.
        tensor: String,
        /// The elements of a row.
        row_length: u64,
        /// The type.
        kind: &'static str,
        /// The elements of a block.
        block_length: u64,
        /// The file.
        path: PathBuf,
    },
    /// Offsets that say something else than type and shape.
    #[error("tensor {} needs {needed_bytes} bytes for its type and shape, but has {stored_bytes}: {}", shown(tensor), path.display())]
    SizeMismatch {
        /// The tensor.
        tensor: String,
        /// What type and shape need.
        needed_bytes: u64,
        /// What lies between the offsets.
        stored_bytes: u64,
        /// The file.
        path: PathBuf,
    },
    /// A tensor that ends before it begins.
    #[error("tensor {} begins at byte {begin} of the data and ends at byte {end}: {}", shown(tensor), path.display())]
    OffsetsReversed {
        /// The tensor.
        tensor: String,
        /// Its first byte.
        begin: u64,
        /// The byte after its last.
        end: u64,
        /// The file.
        path: PathBuf,
    },
    /// A tensor between the places where tensors may begin.
    #[error("tensor {} begins at byte {offset} of the data, which is not a multiple of {alignment}: {}", shown(tensor), path.display())]
    Misaligned {
        /// The tensor.
        tensor: String,
        /// Its first byte.
        offset: u64,
        /// The alignment of the file.
        alignment: u64,
        /// The file.
        path: PathBuf,
    },
    /// Two tensors in the same bytes.
    #[error("tensors {} and {} overlap: {}", shown(first), shown(second), path.display())]
    Overlap {
        /// The tensor that begins first.
        first: String,
        /// The other one.
        second: String,
        /// The file.
        path: PathBuf,
    },
    /// Bytes between tensors, which safetensors does not allow.
    #[error("{bytes} bytes before tensor {} belong to no tensor: {}", shown(tensor), path.display())]
    Gap {
        /// How many.
        bytes: u64,
        /// The tensor behind them.
        tensor: String,
        /// The file.
        path: PathBuf,
    },
    /// Bytes behind the tensors, which safetensors does not allow.
    #[error("{bytes} bytes after the last tensor belong to no tensor: {}", path.display())]
    TrailingBytes {
        /// How many.
        bytes: u64,
        /// The file.
        path: PathBuf,
    },
    /// A file that ends before its data does.
    #[error("the file is truncated: {missing_bytes} bytes are missing at its end: {}", path.display())]
    Truncated {
        /// How many.
        missing_bytes: u64,
        /// The file.
        path: PathBuf,
    },
    /// Weights beyond what can be counted.
    #[error("the sum of all tensors overflows 64 bits: {}", path.display())]
    TotalOverflow {
        /// The file at which it does.
        path: PathBuf,
    },
}

/// The most characters of a name from a file that a sentence repeats.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// A name from a file, on one line and not too long.
fn shown(name: &str) -> String {
    let mut text = String::new();
    for (index, character) in name.chars().enumerate() {
        if index == MAX_SHOWN_CHARACTERS {
            text.push('…');
            break;
        }
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_stays_on_one_line_and_does_not_repeat_a_long_name() {
        let error = WeightsError::DuplicateTensor {
            tensor: format!("a\nb{}", "é".repeat(1000)),
            path: PathBuf::from("model.gguf"),
        };
        let sentence = error.to_string();
        assert!(
            sentence.starts_with("two tensors are named a\\nbé"),
            "{sentence}"
        );
        assert!(sentence.ends_with("é…: model.gguf"), "{sentence}");
        assert!(sentence.chars().count() < 250, "{sentence}");
    }
}
