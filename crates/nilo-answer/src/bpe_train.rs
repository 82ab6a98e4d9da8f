//! What `nilo bpe train` answers: what was learnt, from what, and what that took.

use schemars::JsonSchema;
use serde::Serialize;

/// The value of [`BpeTrainAnswer::schema`].
pub const BPE_TRAIN_SCHEMA: &str = "nilo.bpe-train/1";

/// A trained tokenizer.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct BpeTrainAnswer {
    /// `nilo.bpe-train/1`.
    #[schemars(extend("const" = BPE_TRAIN_SCHEMA))]
    pub schema: &'static str,
    /// Tokens, special ones included.
    pub vocabulary_size: usize,
    /// Merges that were learnt.
    pub merges: usize,
    /// Special tokens, in the order given.
    pub special_tokens: Vec<String>,
    /// What it was learnt from.
    pub totals: TextTotals,
    /// How long all stages took.
    pub wall_secs: f64,
    /// How long each stage took.
    pub stages: Vec<StageTime>,
    /// The most memory that merging was expected to take.
    pub predicted_peak_bytes: u64,
    /// The most memory that was held, where it was recorded.
    pub peak_bytes: Option<u64>,
    /// The files that were written.
    pub files: Vec<String>,
}

/// Sums over the texts.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct TextTotals {
    /// Documents that were not empty.
    pub documents: u64,
    /// Bytes of text, without separators and tokens that were cut out.
    pub text_bytes: u64,
    /// Words, each as often as it occurred.
    pub words: u64,
    /// Different words.
    pub distinct_words: u64,
    /// Bytes in the different words.
    pub distinct_bytes: u64,
    /// Bytes that are not UTF-8; counted as symbols.
    pub invalid_bytes: u64,
}

/// One stage of the work.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct StageTime {
    /// Its name: `counting`, `merging` or `writing`.
    pub stage: &'static str,
    /// On the clock.
    pub wall_secs: f64,
    /// CPU time of all threads, the recorder's among them.
    pub cpu_secs: f64,
}
