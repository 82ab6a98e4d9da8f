//! The weights of a checkpoint, and their sums.

use std::collections::BTreeMap;

use crate::MetadataValue;

/// The format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightsFormat {
    /// The format of Hugging Face.
    Safetensors,
    /// The format of llama.cpp.
    Gguf,
}

/// One tensor of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorWeights {
    /// Its name in the file.
    pub name: String,
    /// Its type in the words of the format: `BF16`, `Q4_K`.
    pub kind: String,
    /// Its dimensions in PyTorch's order: elements of the last one lie side by side. A GGUF file has them the other way round.
    pub shape: Vec<u64>,
    /// Its elements. Where a model packs several weights into an element of `U8` or `I32` itself, they count as one.
    pub parameters: u64,
    /// What it takes in the file, with the scales of a quantized type and without padding.
    pub bytes: u64,
}

/// The tensors of one type, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindTotal {
    /// Their elements.
    pub parameters: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// All tensors of a checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// The format of its files.
    pub format: WeightsFormat,
    /// How many files hold it; an index is not counted.
    pub files: usize,
    /// The tensors of each file in the order of their data (safetensors) or of the header (GGUF), file by file.
    pub tensors: Vec<TensorWeights>,
    /// Short metadata without that of tokenizers; where several files have a key, the value in the first one.
    /// The `total_size` of an index is here under that name, as it is written there.
    pub metadata: BTreeMap<String, MetadataValue>,
}

impl Weights {
    /// The bytes of all tensors.
    pub fn total_bytes(&self) -> u64 {
        self.tensors
            .iter()
            .fold(0, |sum, tensor| sum.saturating_add(tensor.bytes))
    }

    /// The elements of all tensors.
    pub fn total_parameters(&self) -> u64 {
        self.tensors
            .iter()
            .fold(0, |sum, tensor| sum.saturating_add(tensor.parameters))
    }

    /// The sums for each type.
    pub fn by_kind(&self) -> BTreeMap<String, KindTotal> {
        let mut totals: BTreeMap<String, KindTotal> = BTreeMap::new();
        for tensor in &self.tensors {
            if !totals.contains_key(&tensor.kind) {
                totals.insert(tensor.kind.clone(), KindTotal::default());
            }
            if let Some(total) = totals.get_mut(&tensor.kind) {
                total.parameters = total.parameters.saturating_add(tensor.parameters);
                total.bytes = total.bytes.saturating_add(tensor.bytes);
            }
        }
        totals
    }
}

/// The elements of a tensor, if its dimensions can be multiplied in any order within 64 bits.
pub(crate) fn count_elements(shape: &[u64]) -> Option<u64> {
    let product = shape
        .iter()
        .try_fold(1_u64, |product, &size| product.checked_mul(size.max(1)))?;
    Some(if shape.contains(&0) { 0 } else { product })
}
