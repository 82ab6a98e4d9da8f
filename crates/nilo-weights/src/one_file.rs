//! One file of a checkpoint, whose first bytes say what it is.

use std::io::{Read, Seek};
use std::path::Path;

use crate::header_input::HeaderInput;
use crate::{Weights, WeightsError, gguf, safetensors};

/// How many bytes tell the formats apart.
const SEEN_BYTES: u64 = 24;

/// Where the header of a safetensors file begins, which is a JSON object.
const HEADER_BEGIN: usize = 8;

/// The first bytes of a zip archive, as which PyTorch 1.6 and later save.
const ZIP_MAGIC: &[u8] = b"PK\x03\x04";

/// The first byte of a pickle of protocol 2 or later, as which earlier versions save.
const PICKLE_PROTOCOL: u8 = 0x80;

/// What Git LFS puts in place of a file.
const LFS_POINTER: &[u8] = b"version https://git-lfs";

/// Names under which `torch.save` is used.
pub(crate) const PICKLE_EXTENSIONS: [&str; 6] = ["bin", "pt", "pth", "ckpt", "pkl", "pickle"];

impl Weights {
    /// Reads the header of one file from anything that can seek. `path` is for the errors, and its extension decides where the first bytes do not.
    pub fn read_one_file<R: Read + Seek>(reader: R, path: &Path) -> Result<Weights, WeightsError> {
        let mut input = HeaderInput::new(reader, path)?;
        match recognize(&input.peek(SEEN_BYTES)?, path) {
            Recognized::Safetensors => safetensors::read_safetensors(input),
            Recognized::Gguf => gguf::read_gguf(input),
            Recognized::Pickle => Err(WeightsError::Pickle {
                path: path.to_path_buf(),
            }),
            Recognized::LfsPointer => Err(WeightsError::LfsPointer {
                path: path.to_path_buf(),
            }),
            Recognized::Unknown => Err(WeightsError::UnknownFormat {
                path: path.to_path_buf(),
            }),
        }
    }
}

enum Recognized {
    Safetensors,
    Gguf,
    Pickle,
    LfsPointer,
    Unknown,
}

/// No two of the beginnings are alike: `GGUF`, `vers` and most zip archives would be lengths of headers beyond the limit, and the ninth byte is compared first.
fn recognize(beginning: &[u8], path: &Path) -> Recognized {
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("");
    if beginning.starts_with(&gguf::MAGIC) {
        Recognized::Gguf
    } else if beginning.starts_with(LFS_POINTER) {
        Recognized::LfsPointer
    } else if beginning.get(HEADER_BEGIN) == Some(&b'{') {
        Recognized::Safetensors
    } else if beginning.starts_with(ZIP_MAGIC) {
        Recognized::Pickle
    } else if extension == "safetensors" {
        Recognized::Safetensors
    } else if PICKLE_EXTENSIONS.contains(&extension) || beginning.first() == Some(&PICKLE_PROTOCOL)
    {
        Recognized::Pickle
    } else {
        Recognized::Unknown
    }
}
