//! What `nilo snapshot` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use nilo_answer::snapshot::settings_text::SettingsChange;
use nilo_answer::snapshot::trace_place::{TraceBound, TraceRange};
use nilo_sample::units::{parse_bytes, parse_duration, to_secs};

use super::TextOrJson;
use super::values::{MAX_ID, number};

/// The terms of the allocator, in the help of the verb.
const GLOSSARY: &str = "Terms:\n  \
segment     memory allocated from the driver in one piece; returned only when all of it is free\n  \
block       a piece of a segment, used by one allocation\n  \
reserved    the bytes of all segments; this is the part that nvidia-smi sees\n  \
allocated   the bytes of blocks that the program holds\n  \
active      allocated and pending\n  \
requested   the sizes that the program asked for\n  \
rounding    allocated but not requested: rounding to 512 bytes, or a rest too small to split off\n  \
pending     freed by the program, but another stream may still use it (record_stream)\n  \
releasable  free segments: torch.cuda.empty_cache() would return them\n  \
stranded    free, but in segments that also hold live blocks: fragmentation\n  \
requested + rounding + pending + releasable + stranded = reserved, to the byte.\n\n\
Record a snapshot in the program:\n  torch.cuda.memory._record_memory_history()\n  torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")\n\
Files may be compressed with gzip or zstd. Nothing in a file is executed.\n\n\
Exit status: 0 success, 1 `why` found a failed allocation or `leaks` something that accumulates, 2 an error.\n\n\
Examples:\n  nilo snapshot summary rank*.pickle\n  nilo snapshot why oom.pickle\n  nilo snapshot whatif oom.pickle --expandable-segments\n  nilo snapshot html snapshot.pickle";

#[derive(Debug, Args)]
#[command(after_help = GLOSSARY)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    pub(crate) verb: SnapshotVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotVerb {
    /// Show the peak memory of each GPU, what the reserved bytes were used for, and which code held them
    Summary(SnapshotSummaryArgs),
    /// Explain failed allocations: requested size, free memory, what blocked it, possible fixes
    Why(SnapshotWhyArgs),
    /// Replay the trace with other allocator settings, and show how much would have been reserved
    Whatif(SnapshotWhatIfArgs),
    /// Find call stacks whose blocks only accumulate
    Leaks(SnapshotLeaksArgs),
    /// Compare the peaks of two snapshots by call stack
    Diff(SnapshotDiffArgs),
    /// Draw the peak of allocated memory as a flame graph
    Flame(SnapshotFlameArgs),
    /// Write an HTML page: memory over time, the peak by call stack, segments, failed allocations
    Html(SnapshotHtmlArgs),
}

/// The file of a snapshot, and which GPU of it.
#[derive(Debug, Args)]
pub(crate) struct SnapshotFile {
    /// Snapshot of torch.cuda.memory._dump_snapshot, also compressed with gzip or zstd
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) gpu: SnapshotGpu,
}

/// Which GPU of a file.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SnapshotGpu {
    /// GPU index [default: the one with the most events]
    #[arg(long, value_name = "N", value_parser = number::<usize, 0, MAX_ID>)]
    pub(crate) device: Option<usize>,
}

/// A part of the trace.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TraceRangeArgs {
    /// Start of the range: seconds since the first event (1.5, 200ms), or an event number (1200ev)
    #[arg(long, value_name = "PLACE", value_parser = trace_bound)]
    from: Option<TraceBound>,

    /// End of the range, like --from; this event is included
    #[arg(long, value_name = "PLACE", value_parser = trace_bound)]
    to: Option<TraceBound>,
}

impl TraceRangeArgs {
    pub(crate) fn range(self) -> TraceRange {
        TraceRange {
            from: self.from,
            to: self.to,
        }
    }
}

/// What every answer about a trace takes: which part of it, and how it is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct TraceAnswerArgs {
    #[command(flatten)]
    pub(crate) range: TraceRangeArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Several files are taken as the ranks of one job: a table of them comes first, sorted by reserved memory, then details of the largest.\n\
`nilo snapshot --help` explains the terms.\n\n\
Examples:\n  nilo snapshot summary snapshot.pickle\n  nilo snapshot summary rank*.pickle --format json\n  nilo snapshot summary snapshot.pickle --from 12.5 --to 14"
)]
pub(crate) struct SnapshotSummaryArgs {
    /// Snapshots of torch.cuda.memory._dump_snapshot, also compressed with gzip or zstd
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// How many call stacks to name
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<usize, 0, MAX_ID>)]
    pub(crate) stacks: usize,

    #[command(flatten)]
    pub(crate) answer: TraceAnswerArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A segment is pinned by the live blocks in it; the call stacks that allocated them are listed. To find out whether another setting would have \
prevented the failure, the whole trace is replayed in a model of the allocator, with the limit inferred from the failure.\n\n\
Exit status: 0 no allocation failed, 1 one did, 2 an error.\n\n\
Examples:\n  nilo snapshot why oom.pickle\n  nilo snapshot why rank*.pickle"
)]
pub(crate) struct SnapshotWhyArgs {
    /// Snapshots of torch.cuda.memory._dump_snapshot, also compressed with gzip or zstd; JSON of several is a list
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    /// How many failed allocations to explain, the last ones
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<usize, 1, MAX_ID>)]
    pub(crate) last: usize,

    /// How many call stacks to name
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = number::<usize, 0, MAX_ID>)]
    pub(crate) stacks: usize,

    #[command(flatten)]
    pub(crate) answer: TraceAnswerArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without options, the settings that PyTorch's documentation recommends are compared, best first. Settings that are not given stay as recorded. \
The limit is taken from failed allocations in the trace, if there are any. A trace that begins after the first allocation is less certain: \
blocks that were alive then are re-placed in the replay.\n\n\
Examples:\n  nilo snapshot whatif snapshot.pickle\n  nilo snapshot whatif snapshot.pickle --expandable-segments\n  \
nilo snapshot whatif snapshot.pickle --max-split-size-mb 128 --limit 16GiB"
)]
pub(crate) struct SnapshotWhatIfArgs {
    #[command(flatten)]
    pub(crate) input: SnapshotFile,

    /// Use segments that grow instead of many of fixed size
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    expandable_segments: Option<bool>,

    /// Do not split blocks of this many MiB or more (PyTorch requires more than 20)
    #[arg(long, value_name = "N", value_parser = number::<u64, 21, 1048576>)]
    max_split_size_mb: Option<u64>,

    /// Round sizes up to this many divisions between powers of two: 1, 2, 4, 8, ...
    #[arg(long, value_name = "N", value_parser = divisions)]
    roundup_power2_divisions: Option<u64>,

    /// Free unused segments above this fraction of the limit (requires a limit)
    #[arg(long, value_name = "X", value_parser = fraction)]
    garbage_collection_threshold: Option<f64>,

    /// Memory limit of the process, such as 16GiB [default: inferred from failed allocations, otherwise none]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) limit: Option<u64>,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

impl SnapshotWhatIfArgs {
    pub(crate) fn change(&self) -> SettingsChange {
        SettingsChange {
            expandable_segments: self.expandable_segments,
            max_split_size_mb: self.max_split_size_mb,
            roundup_power2_divisions: self.roundup_power2_divisions,
            garbage_collection_threshold: self.garbage_collection_threshold,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "A call stack accumulates if blocks that it allocated all along the trace are alive at its end, and the lowest level of allocated \
memory rose. Weights, optimizer state and the last step's activations are alive as well, but were allocated at once.\n\n\
Exit status: 0 nothing accumulates, 1 something does, 2 an error.\n\n\
Examples:\n  nilo snapshot leaks snapshot.pickle\n  nilo snapshot leaks rank*.pickle --from 10"
)]
pub(crate) struct SnapshotLeaksArgs {
    /// Snapshots of torch.cuda.memory._dump_snapshot, also compressed with gzip or zstd; JSON of several is a list
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) gpu: SnapshotGpu,

    /// How many call stacks to name
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::<usize, 0, MAX_ID>)]
    pub(crate) stacks: usize,

    #[command(flatten)]
    pub(crate) answer: TraceAnswerArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nilo snapshot diff before.pickle after.pickle")]
pub(crate) struct SnapshotDiffArgs {
    /// The first snapshot
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,

    /// The second snapshot
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,

    #[command(flatten)]
    pub(crate) gpu: SnapshotGpu,

    /// How many call stacks to name
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::<usize, 0, MAX_ID>)]
    pub(crate) stacks: usize,

    #[command(flatten)]
    pub(crate) answer: TraceAnswerArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilo snapshot flame snapshot.pickle -o peak.svg\n  nilo snapshot flame snapshot.pickle -o peak.json"
)]
pub(crate) struct SnapshotFlameArgs {
    #[command(flatten)]
    pub(crate) input: SnapshotFile,

    /// File to write; - is standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Format [default: from the extension of --output: .svg, .png, or .json for speedscope]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FlameFormat>,

    #[command(flatten)]
    pub(crate) range: TraceRangeArgs,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The page is a single self-contained file of a few megabytes, however many events there are; no peak is lost.\n\n\
Examples:\n  nilo snapshot html snapshot.pickle\n  nilo snapshot html oom.pickle -o oom.html --from 12.5"
)]
pub(crate) struct SnapshotHtmlArgs {
    /// Snapshot of torch.cuda.memory._dump_snapshot, also compressed with gzip or zstd
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// GPU index [default: all with events]
    #[arg(long, value_name = "N", value_parser = number::<usize, 0, MAX_ID>)]
    pub(crate) device: Option<usize>,

    /// File to write; - is standard output [default: the name of the snapshot with .html, in this folder]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) range: TraceRangeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlameFormat {
    /// SVG with bytes and shares in tooltips
    Svg,
    /// PNG image
    Png,
    /// JSON for https://www.speedscope.app
    Speedscope,
}

fn divisions(text: &str) -> Result<u64, String> {
    let divisions: Option<u64> = text.parse().ok();
    let divisions = divisions.filter(|number| number.is_power_of_two() && *number <= 64);
    divisions.ok_or_else(|| "not a power of two from 1 to 64".to_owned())
}

fn fraction(text: &str) -> Result<f64, String> {
    let part: Option<f64> = text.parse().ok();
    let part = part.filter(|part| *part > 0.0 && *part < 1.0);
    part.ok_or_else(|| "not a fraction between 0 and 1 (example: 0.8)".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).ok().filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "not a size (examples: 16GiB, 80GB)".to_owned())
}

/// `1200ev` is the number of an event, anything else a time.
fn trace_bound(text: &str) -> Result<TraceBound, String> {
    let wrong =
        || "not a place in the trace (examples: 1.5, 200ms, 1200ev for event 1200)".to_owned();
    if let Some(event) = text.strip_suffix("ev") {
        let event = number::<u64, 0, { u64::MAX }>(event.trim_end()).map_err(|_| wrong())?;
        return Ok(TraceBound::Event(event));
    }
    let nanos = parse_duration(text).map_err(|_| wrong())?;
    Ok(TraceBound::Secs(to_secs(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_times_or_events() {
        assert_eq!(trace_bound("1.5"), Ok(TraceBound::Secs(1.5)));
        assert_eq!(trace_bound("200ms"), Ok(TraceBound::Secs(0.2)));
        assert_eq!(trace_bound("1200ev"), Ok(TraceBound::Event(1200)));
        for wrong in ["", "ev", "-1ev", "x", "1.5ev"] {
            assert!(trace_bound(wrong).is_err(), "{wrong}");
        }
    }
}
