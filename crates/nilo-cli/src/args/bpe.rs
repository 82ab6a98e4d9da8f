//! `nilo bpe`: train a tokenizer, count for it, encode and decode with it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use nilo_sample::units::parse_bytes;

use super::TextOrJson;
use super::values::{interval, tag};
use crate::folder::RunsDir;

#[derive(Debug, Args)]
pub(crate) struct BpeArgs {
    #[command(subcommand)]
    pub(crate) verb: BpeVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BpeVerb {
    /// Learn a vocabulary from texts, in the memory that it is given
    Train(Box<BpeTrainArgs>),
    /// Count the words of texts, to be trained from later or elsewhere
    Count(Box<BpeCountArgs>),
    /// Turn text into token ids
    Encode(BpeEncodeArgs),
    /// Turn token ids into text
    Decode(BpeDecodeArgs),
}

const TEXTS: &str = "Texts";
const LEARNING: &str = "Learning";
const RECORDING: &str = "Recording";

/// What is counted, and how it falls apart into words.
#[derive(Debug, Args)]
pub(crate) struct Texts {
    /// Files, folders or patterns such as 'data/*.txt'; gzip and zstd are read as they are; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// How text falls apart into words: gpt2, cl100k, o200k, none, or a regular expression [default: gpt2]
    #[arg(long, help_heading = TEXTS, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,

    /// A token that is never taken apart; may be given several times. Its ids come first
    #[arg(long = "special-token", help_heading = TEXTS, value_name = "TOKEN")]
    pub(crate) special_tokens: Vec<String>,

    /// Count special tokens that stand in the text like any other text, as Hugging Face does, instead of cutting them out
    #[arg(long, help_heading = TEXTS)]
    pub(crate) keep_special_tokens: bool,

    /// Documents are separated by this text, which is not counted; \n and \0 are understood
    #[arg(long, help_heading = TEXTS, value_name = "TEXT", conflicts_with_all = ["lines", "jsonl"])]
    pub(crate) separator: Option<String>,

    /// Each line is a document of its own, as Hugging Face treats files
    #[arg(long, help_heading = TEXTS, conflicts_with = "jsonl")]
    pub(crate) lines: bool,

    /// Files are JSON lines; the text is in this field
    #[arg(long, help_heading = TEXTS, value_name = "FIELD")]
    pub(crate) jsonl: Option<String>,
}

/// With what means.
#[derive(Debug, Args)]
pub(crate) struct MemoryBudget {
    /// Memory that it may take, such as 2GiB; what does not fit goes to disk. The result is the same [default: 80 % of what is free]
    #[arg(long, value_name = "SIZE", value_parser = budget)]
    pub(crate) memory_budget: Option<u64>,

    /// Threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// Folder for what does not fit into memory [default: that of temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) temp_dir: Option<PathBuf>,

    /// Print neither progress nor a summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The recording of the training itself.
#[derive(Debug, Args)]
pub(crate) struct OwnRecording {
    #[command(flatten)]
    pub(crate) place: RunsDir,

    /// Time between samples of memory [default: 0.1]
    #[arg(long, short, help_heading = RECORDING, env = "NILO_INTERVAL", value_name = "TIME", value_parser = interval, allow_hyphen_values = true)]
    pub(crate) interval: Option<u64>,

    /// Also write time, memory and CPU of each sample to this CSV file
    #[arg(long, help_heading = RECORDING, value_name = "FILE.csv")]
    pub(crate) memory_log: Option<PathBuf>,

    /// As --memory-log, to a file named memory_log_<vocabulary size>.csv
    #[arg(long, help_heading = RECORDING, conflicts_with = "memory_log")]
    pub(crate) save_memory_log: bool,

    /// Say at the end how much time each stage took, on the clock and of the processor
    #[arg(long, help_heading = RECORDING)]
    pub(crate) cpu_profile: bool,

    /// Name of the run
    #[arg(long, help_heading = RECORDING, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// A tag of the run; may be given several times
    #[arg(long = "tag", help_heading = RECORDING, value_name = "KEY=VALUE", value_parser = tag)]
    pub(crate) tags: Vec<(String, String)>,

    /// Record no run
    #[arg(long, help_heading = RECORDING, conflicts_with_all = ["memory_log", "save_memory_log", "name", "tags"])]
    pub(crate) no_record: bool,
}

impl OwnRecording {
    /// Where the samples go besides the run.
    pub(crate) fn log_path(&self, vocab_size: u32) -> Option<PathBuf> {
        let automatic = || PathBuf::from(format!("memory_log_{vocab_size}.csv"));
        let named = self.memory_log.clone();
        named.or_else(|| self.save_memory_log.then(automatic))
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Special tokens are cut out of the text before counting, unless --keep-special-tokens is given. \
Ctrl-C while counting keeps what was counted; the same command with --resume goes on from there.\n\n\
Exit status: 0 trained, 2 could not, 130 interrupted.\n\n\
Examples:\n  nilo bpe train corpus/ --vocab-size 32000 --special-token '<|endoftext|>' -o tokenizer\n  \
nilo bpe train 'shards/*.jsonl.zst' --jsonl text --vocab-size 50000 --memory-budget 2GiB\n  \
nilo bpe train --from-counts node1.counts node2.counts --vocab-size 32000"
)]
pub(crate) struct BpeTrainArgs {
    #[command(flatten)]
    pub(crate) texts: Texts,

    /// Train from these files of `nilo bpe count` instead of from texts
    #[arg(long, value_name = "COUNTS", num_args = 1.., conflicts_with = "files")]
    pub(crate) from_counts: Vec<PathBuf>,

    /// Tokens in the vocabulary: special tokens, 256 bytes, and merges
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) vocab_size: u32,

    /// Folder for the result: tokenizer.json, vocab.json and merges.txt, ranks.tiktoken
    #[arg(long, short, default_value = "tokenizer", value_name = "DIR")]
    pub(crate) output: PathBuf,

    /// Which of several pairs with the same count is merged first
    #[arg(long, help_heading = LEARNING, value_enum, default_value_t = TieBreakArg::Hf, value_name = "RULE")]
    pub(crate) tie_break: TieBreakArg,

    /// Merge no pair that occurs less often
    #[arg(long, help_heading = LEARNING, default_value_t = 0, value_name = "N")]
    pub(crate) min_frequency: u64,

    /// Make no token of this many bytes or more
    #[arg(long, help_heading = LEARNING, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_token_length: Option<u32>,

    /// Give only bytes that occur a token, as Hugging Face does without an initial alphabet
    #[arg(long, help_heading = LEARNING)]
    pub(crate) seen_bytes_only: bool,

    /// Form of the result that is printed
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,

    /// Go on with the counting that was interrupted
    #[arg(long)]
    pub(crate) resume: bool,

    #[command(flatten)]
    pub(crate) means: MemoryBudget,

    #[command(flatten)]
    pub(crate) recording: OwnRecording,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Files of counts add up: count each shard where it lies, then train from all of them.\n\n\
Examples:\n  nilo bpe count shard-07.txt.zst -o 07.counts\n  nilo bpe train --from-counts *.counts --vocab-size 32000"
)]
pub(crate) struct BpeCountArgs {
    #[command(flatten)]
    pub(crate) texts: Texts,

    /// File for the counts
    #[arg(long, short, value_name = "COUNTS")]
    pub(crate) output: PathBuf,

    #[command(flatten)]
    pub(crate) means: MemoryBudget,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Ids are written as they come, so texts larger than memory can be encoded.\n\n\
Examples:\n  nilo bpe encode -t tokenizer corpus.txt -o corpus.bin --format u16\n  echo hello | nilo bpe encode -t tokenizer"
)]
pub(crate) struct BpeEncodeArgs {
    #[command(flatten)]
    pub(crate) ends: CodingArgs,

    /// Treat special tokens in the text like any other text
    #[arg(long)]
    pub(crate) no_special_tokens: bool,

    /// How the tokenizer's text falls apart, where its file does not say so (tiktoken ranks)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,

    /// Threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  nilo bpe decode -t tokenizer corpus.bin --format u16 -o corpus.txt"
)]
pub(crate) struct BpeDecodeArgs {
    #[command(flatten)]
    pub(crate) ends: CodingArgs,
}

/// Between text and ids, whichever way it goes.
#[derive(Debug, Args)]
pub(crate) struct CodingArgs {
    /// What is read; - or nothing is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,

    /// The tokenizer: a folder of `nilo bpe train`, a tokenizer.json, or a file of tiktoken ranks
    #[arg(long, short, value_name = "PATH")]
    pub(crate) tokenizer: PathBuf,

    /// Where the result goes [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// The form of the ids: numbers of 16 or 32 bits, least byte first, or one JSON array
    #[arg(long, value_enum, default_value_t = IdsFormat::Json, value_name = "FORMAT")]
    pub(crate) format: IdsFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TieBreakArg {
    /// The smallest ids, as Hugging Face
    Hf,
    /// The greatest byte strings
    Gpt2Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdsFormat {
    /// One array of numbers
    Json,
    /// Two bytes each
    U16,
    /// Four bytes each
    U32,
}

fn budget(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 16 << 20;
    match parse_bytes(text).map_err(|error| error.to_string())? {
        bytes if bytes < LEAST => Err("at least 16MiB are needed".to_owned()),
        bytes => Ok(bytes),
    }
}
