//! What is to be learnt, and with what means.

/// Which of several pairs with the same count is merged first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TieBreak {
    /// The pair with the smallest ids, left before right, as Hugging Face `tokenizers` does.
    #[default]
    HuggingFace,
    /// The pair with the lexicographically greatest byte strings, left before right.
    Gpt2Bytes,
}

/// Which bytes have a token of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alphabet {
    /// All 256, so that every text can be encoded.
    #[default]
    AllBytes,
    /// Those that occur, as Hugging Face does without an initial alphabet.
    Seen,
}

/// What is to be learnt, and with what means. The means change nothing in the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOptions {
    /// Tokens wanted: special tokens, alphabet and merges.
    pub vocabulary_size: usize,
    /// Their ids come first, in this order.
    pub special_tokens: Vec<String>,
    /// Pairs that occur less often are not merged.
    pub min_frequency: u64,
    /// Every merged token is shorter than this, in bytes. Pairs of single bytes are always merged, as Hugging Face does.
    pub max_token_length: Option<usize>,
    /// Which of several pairs with the same count is merged first.
    pub tie_break: TieBreak,
    /// Which bytes have a token of their own.
    pub alphabet: Alphabet,
    /// Threads that share the work on long lists; 0 counts as 1.
    pub threads: usize,
    /// Bytes that reading the words and merging may take together; `None`: what is quickest.
    pub memory_budget_bytes: Option<u64>,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self {
            vocabulary_size: 32_000,
            special_tokens: Vec::new(),
            min_frequency: 0,
            max_token_length: None,
            tie_break: TieBreak::default(),
            alphabet: Alphabet::default(),
            threads: 1,
            memory_budget_bytes: None,
        }
    }
}
