//! What is to be learnt, as the user asked for it, and why it cannot be.

use nilo_sample::units::format_bytes;
use nilo_tokenizer::ResourceLimits;
use nilo_tokenizer::merge::{Alphabet, MergeError, MergeOptions, TieBreak};

use super::INTERRUPTED;
use super::memory_budget::with_program;
use super::texts::check_special_tokens;
use crate::args::{BpeTrainArgs, TieBreakArg};
use crate::failure::Failure;

const BYTES: usize = 256;

/// The options of the merging stage; an error says before anything is counted that nothing could be learnt.
pub(super) fn merge_options(
    args: &BpeTrainArgs,
    allowance: ResourceLimits,
) -> Result<MergeOptions, Failure> {
    let special_tokens = args.texts.special_tokens.clone();
    check_special_tokens(&special_tokens)?;
    let needed = special_tokens.len() + BYTES;
    let vocabulary_size = args.vocab_size as usize;
    if !args.seen_bytes_only && vocabulary_size < needed {
        return Err(merge_failure(MergeError::VocabularyTooSmall {
            wanted: vocabulary_size,
            specials: special_tokens.len(),
            bytes: BYTES,
            needed,
        }));
    }
    Ok(MergeOptions {
        vocabulary_size,
        special_tokens,
        min_frequency: args.min_frequency,
        max_token_length: args.max_token_length.map(|length| length as usize),
        tie_break: match args.tie_break {
            TieBreakArg::Hf => TieBreak::HuggingFace,
            TieBreakArg::Gpt2Bytes => TieBreak::Gpt2Bytes,
        },
        alphabet: match args.seen_bytes_only {
            true => Alphabet::Seen,
            false => Alphabet::AllBytes,
        },
        threads: allowance.threads,
        memory_budget_bytes: allowance.for_merging(),
    })
}

/// An error of the merging stage, with its way out.
pub(super) fn merge_failure(error: MergeError) -> Failure {
    match error {
        MergeError::BudgetTooSmall {
            budget_bytes,
            needed_bytes,
        } => {
            let whole = |bytes| format_bytes(with_program(bytes) as f64);
            Failure::new(format!(
                "a memory budget of {} is too small to merge these words: at least {} is needed",
                whole(budget_bytes),
                whole(needed_bytes)
            ))
            .hint("raise --memory-budget, or run where more memory is free; `nilo bpe count` keeps the counts for `--from-counts`")
        }
        MergeError::VocabularyTooSmall { .. } => Failure::from(error).hint(
            "raise --vocab-size, or use --seen-bytes-only to give tokens only to bytes that occur",
        ),
        MergeError::Stopped { .. } => Failure::from(error)
            .hint("to keep the counts, run `nilo bpe count`, then `nilo bpe train --from-counts`")
            .code(INTERRUPTED),
        other => Failure::from(other),
    }
}
