//! Why merges could not be learnt.

/// Why words could not be read or merges not be learnt.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The vocabulary has no room for the special tokens and the alphabet.
    #[error(
        "a vocabulary of {wanted} tokens is too small: {bytes} bytes and {specials} special tokens need at least {needed}"
    )]
    VocabularyTooSmall {
        /// Tokens asked for.
        wanted: usize,
        /// Special tokens among them.
        specials: usize,
        /// Bytes in the alphabet.
        bytes: usize,
        /// The smallest size that works.
        needed: usize,
    },
    /// Ids are 32 bits wide.
    #[error("a vocabulary of {wanted} tokens is larger than ids can count, at most {most}")]
    VocabularyTooLarge {
        /// Tokens asked for.
        wanted: usize,
        /// The largest size that works.
        most: usize,
    },
    /// An empty special token would be found everywhere.
    #[error("special token number {number} is empty")]
    EmptySpecialToken {
        /// Counted from one.
        number: usize,
    },
    /// A doubled special token would have two ids.
    #[error("special token given twice: {token}")]
    DoubledSpecialToken {
        /// The token.
        token: String,
    },
    /// Places are counted in 32 bits.
    #[error(
        "the distinct words hold {bytes} bytes, more than {most}; a pattern that makes shorter words helps"
    )]
    TooManyWords {
        /// Bytes in distinct words.
        bytes: u64,
        /// The most that fit.
        most: u64,
    },
    /// Counts are added up in 64 bits.
    #[error("the counts of the words add up to more than 2^63 bytes of text")]
    CountsTooLarge,
    /// Even the words alone do not fit.
    #[error(
        "a memory budget of {budget_bytes} bytes is too small to merge these words, at least {needed_bytes} bytes are needed"
    )]
    BudgetTooSmall {
        /// The budget given.
        budget_bytes: u64,
        /// The smallest that works.
        needed_bytes: u64,
    },
    /// Somebody asked to stop.
    #[error("stopped after {merges} merges")]
    Stopped {
        /// Merges learnt until then.
        merges: usize,
    },
}

/// Why words could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadWordsError<E> {
    /// The stream of words broke off.
    #[error("cannot read the counted words")]
    Source(#[source] E),
    /// The words cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
}
