//! Counted words, as the counting stage hands them to the merging stage.

/// A stream of distinct words with their counts. The order carries no meaning: merges depend on the counts alone.
pub trait WordSource {
    /// Why the stream broke off: a spilled run or a counts file may be damaged.
    type Error;

    /// The next word and how often it occurred (never zero); `None` at the end. Each word comes once.
    fn next_word(&mut self) -> Result<Option<(&[u8], u64)>, Self::Error>;

    /// Distinct words and the bytes in them, where known beforehand, so that space is taken once.
    fn size_hint(&self) -> Option<(u64, u64)> {
        None
    }
}
