//! `nilo bpe`: train a tokenizer, count for it, encode and decode with it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use nilo_sample::units::parse_bytes;

use super::TextOrJson;
use super::values::{MAX_ID, interval, number, run_name, tag};
use crate::folder::RunsDir;

#[derive(Debug, Args)]
pub(crate) struct BpeArgs {
    #[command(subcommand)]
    pub(crate) verb: BpeVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BpeVerb {
    /// Train a tokenizer within a memory budget
    Train(Box<BpeTrainArgs>),
    /// Count words, to train from the counts later or on another machine
    Count(Box<BpeCountArgs>),
    /// Encode text as token ids
    Encode(BpeEncodeArgs),
    /// Decode token ids to text
    Decode(BpeDecodeArgs),
}

const TEXTS: &str = "Texts";
const LEARNING: &str = "Learning";
const RECORDING: &str = "Recording";

/// What is counted, and how it is split into words.
#[derive(Debug, Args)]
pub(crate) struct Texts {
    /// Files, folders or patterns such as 'data/*.txt', also compressed with gzip or zstd; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// How text is split into words: gpt2, cl100k, o200k, none, or a regular expression [default: gpt2]
    #[arg(long, help_heading = TEXTS, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,

    /// A token that is never split; may be given several times. Special tokens get the first ids
    #[arg(long = "special-token", help_heading = TEXTS, value_name = "TOKEN")]
    pub(crate) special_tokens: Vec<String>,

    /// Count special tokens in the text like any other text, as Hugging Face does, instead of skipping them
    #[arg(long, help_heading = TEXTS)]
    pub(crate) keep_special_tokens: bool,

    /// Text between documents, which is not counted; \n and \0 are understood
    #[arg(long, help_heading = TEXTS, value_name = "TEXT", conflicts_with_all = ["lines", "jsonl"])]
    pub(crate) separator: Option<String>,

    /// Treat each line as a document, as Hugging Face does
    #[arg(long, help_heading = TEXTS, conflicts_with = "jsonl")]
    pub(crate) lines: bool,

    /// Read JSON lines and take the text from this field
    #[arg(long, help_heading = TEXTS, value_name = "FIELD")]
    pub(crate) jsonl: Option<String>,
}

/// Memory, threads and temporary files.
#[derive(Debug, Args)]
pub(crate) struct MemoryBudget {
    /// Maximum memory to use, such as 2GiB; what does not fit is kept on disk, and the result is the same [default: 80 % of free memory]
    #[arg(long, value_name = "SIZE", value_parser = budget)]
    pub(crate) memory_budget: Option<u64>,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::<u16, 1, 1024>)]
    pub(crate) threads: Option<u16>,

    /// Folder for temporary files [default: the system's]
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

    /// Time between memory samples [default: 0.1]
    #[arg(long, short, help_heading = RECORDING, env = "NILO_INTERVAL", value_name = "TIME", value_parser = interval, allow_hyphen_values = true)]
    pub(crate) interval: Option<u64>,

    /// Also write time, memory and CPU of each sample to this CSV file
    #[arg(long, help_heading = RECORDING, value_name = "FILE.csv")]
    pub(crate) memory_log: Option<PathBuf>,

    /// Like --memory-log, but write to memory_log_<vocabulary size>.csv
    #[arg(long, help_heading = RECORDING, conflicts_with = "memory_log")]
    pub(crate) save_memory_log: bool,

    /// Print the wall time and CPU time of each stage at the end
    #[arg(long, help_heading = RECORDING)]
    pub(crate) cpu_profile: bool,

    /// Name of the run
    #[arg(long, help_heading = RECORDING, value_name = "NAME", value_parser = run_name())]
    pub(crate) name: Option<String>,

    /// Tag for the run; may be given several times
    #[arg(long = "tag", help_heading = RECORDING, value_name = "KEY=VALUE", value_parser = tag())]
    pub(crate) tags: Vec<(String, String)>,

    /// Do not record a run
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
    after_help = "Special tokens in the text are not counted unless --keep-special-tokens is given. \
Ctrl+C while counting keeps the counts so far; the same command with --resume continues from there.\n\n\
Exit status: 0 trained, 2 error, 130 interrupted.\n\n\
Examples:\n  nilo bpe train corpus/ --vocab-size 32000 --special-token '<|endoftext|>' -o tokenizer\n  \
nilo bpe train 'shards/*.jsonl.zst' --jsonl text --vocab-size 50000 --memory-budget 2GiB\n  \
nilo bpe train --from-counts node1.counts node2.counts --vocab-size 32000"
)]
pub(crate) struct BpeTrainArgs {
    #[command(flatten)]
    pub(crate) texts: Texts,

    /// Train from files written by `nilo bpe count` instead of from text
    #[arg(long, value_name = "COUNTS", num_args = 1.., conflicts_with = "files")]
    pub(crate) from_counts: Vec<PathBuf>,

    /// Size of the vocabulary: special tokens, 256 bytes and merges
    #[arg(long, value_name = "N", value_parser = number::<u32, 1, MAX_ID>)]
    pub(crate) vocab_size: u32,

    /// Folder for tokenizer.json, vocab.json, merges.txt and ranks.tiktoken
    #[arg(long, short, default_value = "tokenizer", value_name = "DIR")]
    pub(crate) output: PathBuf,

    /// Which pair to merge first if several have the same count
    #[arg(long, help_heading = LEARNING, value_enum, default_value_t = TieBreakArg::Hf, value_name = "RULE")]
    pub(crate) tie_break: TieBreakArg,

    /// Do not merge pairs that occur less often than this
    #[arg(long, help_heading = LEARNING, default_value_t = 0, value_name = "N")]
    pub(crate) min_frequency: u64,

    /// Only create tokens shorter than this many bytes
    #[arg(long, help_heading = LEARNING, value_name = "BYTES", value_parser = number::<u32, 1, MAX_ID>)]
    pub(crate) max_token_length: Option<u32>,

    /// Only give tokens to bytes that occur in the text, as Hugging Face does without an initial alphabet
    #[arg(long, help_heading = LEARNING)]
    pub(crate) seen_bytes_only: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,

    /// Continue counting where it was interrupted
    #[arg(long)]
    pub(crate) resume: bool,

    #[command(flatten)]
    pub(crate) means: MemoryBudget,

    #[command(flatten)]
    pub(crate) recording: OwnRecording,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Counts of several files add up: count each shard where it is stored, then train from all counts.\n\n\
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
    after_help = "Ids are written while the text is read, so the text may be larger than memory.\n\n\
Examples:\n  nilo bpe encode -t tokenizer corpus.txt -o corpus.bin --format u16\n  echo hello | nilo bpe encode -t tokenizer"
)]
pub(crate) struct BpeEncodeArgs {
    #[command(flatten)]
    pub(crate) ends: CodingArgs,

    /// Treat special tokens in the text like any other text
    #[arg(long)]
    pub(crate) no_special_tokens: bool,

    /// How text is split into words, if the tokenizer's file does not say (tiktoken ranks)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) pattern: Option<String>,

    /// Number of threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::<u16, 1, 1024>)]
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

/// What encoding and decoding have in common.
#[derive(Debug, Args)]
pub(crate) struct CodingArgs {
    /// File to read; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,

    /// Tokenizer: a folder written by `nilo bpe train`, a tokenizer.json, or a file of tiktoken ranks
    #[arg(long, short, value_name = "PATH")]
    pub(crate) tokenizer: PathBuf,

    /// File to write; - is standard output, the default
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Format of the ids
    #[arg(long, value_enum, default_value_t = IdsFormat::Json, value_name = "FORMAT")]
    pub(crate) format: IdsFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TieBreakArg {
    /// The pair with the smallest ids, as Hugging Face does
    Hf,
    /// The pair whose bytes sort last
    Gpt2Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdsFormat {
    /// One JSON array of numbers
    Json,
    /// 16-bit little-endian integers
    U16,
    /// 32-bit little-endian integers
    U32,
}

fn budget(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 16 << 20;
    match parse_bytes(text).map_err(|_| "not a size (examples: 512MiB, 2GiB)".to_owned())? {
        bytes if bytes < LEAST => Err("at least 16 MiB is needed".to_owned()),
        bytes => Ok(bytes),
    }
}
