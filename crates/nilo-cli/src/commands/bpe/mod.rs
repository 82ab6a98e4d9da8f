//! `nilo bpe`: the tokenizer's verbs.

mod answer;
mod count;
mod counted;
mod decode;
mod duplicate_input;
mod encode;
mod ids;
mod input_output;
mod learning;
mod memory_budget;
mod progress;
mod recording;
mod stages;
mod stop;
mod texts;
mod tokenizer;
mod train;

use crate::args::{BpeArgs, BpeVerb};
use crate::failure::Failure;
use crate::settings::Settings;

/// The status of what a user interrupted.
const INTERRUPTED: u8 = 130;

pub(crate) fn run(args: BpeArgs, settings: &Settings) -> Result<u8, Failure> {
    match args.verb {
        BpeVerb::Train(args) => train::run(*args, settings),
        BpeVerb::Count(args) => count::run(*args, settings),
        BpeVerb::Encode(args) => encode::run(args),
        BpeVerb::Decode(args) => decode::run(args),
    }
}
