//! What `nilo fit` takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nilo_answer::fit::growth::VariedSetting;
use nilo_answer::fit::part_names::OPTIMIZERS;
use nilo_answer::fit::{FitChoices, WorkChoice};
use nilo_model::dry_run::Dtype;
use nilo_model::dry_run::ops::AttentionKernel;
use nilo_model::dry_run::optimizer::Optimizer;
use nilo_model::estimate::{Checkpointing, Parallelism, Sharding};
use nilo_model::family::WeightPacking;
use nilo_sample::units::parse_bytes;

use super::TextOrJson;
use super::values::{number, recorded_text};
use crate::complete_runs::run_names;
use crate::folder::RunsDir;

/// Nobody's batch or sequence is longer.
const MOST: u64 = 100_000_000;
/// More GPUs are in no job.
const MOST_GPUS: u64 = 1_000_000;

#[derive(Debug, Args)]
#[command(
    after_help = "MODEL is a name (`nilo fit --list`), a Hugging Face config.json, a folder with one, or a checkpoint (.safetensors, \
model.safetensors.index.json, .gguf), of which only the header is read.\n\n\
The estimate is what PyTorch with Hugging Face's models takes: every tensor of three steps, sent through a model of PyTorch's allocator. \
It computes nothing and needs neither a GPU nor PyTorch. For any other PyTorch model, call nilometer.fit.estimate(model) in Python.\n\n\
Exit status: 0 it fits, or no GPU was named; 1 it does not fit the first GPU, or may not, or --check found a figure outside of its range; 2 an error.\n\n\
Examples:\n  nilo fit llama-3.1-8b --batch 4 --seq 2048 --gpu h100\n  nilo fit ./my-model --infer --dtype bf16 --gpu rtx4090 --max-batch\n  \
nilo fit qwen2.5-7b --lora 16 --checkpointing full --gpu 24GiB\n  nilo fit --table --gpu t4 --gpu \"a100 80gb\"\n  nilo fit llama-3.2-1b --vary seq -o memory.svg\n  nilo fit ./my-model --batch 8 --seq 1024 --check last"
)]
pub(crate) struct FitArgs {
    /// Name, config.json, folder or checkpoint of the model
    #[arg(value_name = "MODEL", required_unless_present_any = ["list", "table", "truth"])]
    pub(crate) model: Option<String>,

    /// List the models and GPUs that are known by name
    #[arg(long, conflicts_with_all = ["table", "truth"])]
    pub(crate) list: bool,

    /// Show which models of the catalogue, or MODEL alone, fit which GPUs
    #[arg(long, conflicts_with = "truth")]
    pub(crate) table: bool,

    /// Compare estimates with the measured cases of this JSON file
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub(crate) truth: Option<PathBuf>,

    /// GPU by name, or memory such as 24GiB; may be given several times [default: H100 SXM, without a verdict]
    #[arg(long = "gpu", value_name = "GPU")]
    pub(crate) gpus: Vec<String>,

    /// Find the largest batch that fits each GPU
    #[arg(long)]
    pub(crate) max_batch: bool,

    /// Show how memory and time grow with batch, seq, vocab, width or layers: `batch` doubles it, `seq=512,2048,8192` takes these values
    #[arg(long, value_name = "WHAT[=N,...]", value_parser = varied, conflicts_with_all = ["list", "table", "truth", "max_batch"])]
    pub(crate) vary: Option<Variation>,

    /// Compare the estimate with what this run recorded on its GPU
    #[arg(long, value_name = "RUN", add = run_names(), value_parser = recorded_text(), conflicts_with_all = ["list", "table", "truth", "max_batch", "vary", "output"])]
    pub(crate) check: Option<String>,

    #[command(flatten)]
    pub(crate) place: RunsDir,

    #[command(flatten, next_help_heading = "Use")]
    pub(crate) work: FitWork,

    #[command(flatten, next_help_heading = "Training")]
    pub(crate) training: FitTraining,

    #[command(flatten, next_help_heading = "Several GPUs")]
    pub(crate) parallel: FitParallel,

    /// Also draw the parts: .svg or .png; - is SVG on standard output, in the place of the text
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["list", "table", "truth"])]
    pub(crate) output: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}

#[derive(Debug, Args)]
pub(crate) struct FitWork {
    /// Estimate a training (the default)
    #[arg(long, conflicts_with_all = ["infer", "generate"])]
    pub(crate) train: bool,

    /// Estimate a forward pass without gradients
    #[arg(long, conflicts_with = "generate")]
    pub(crate) infer: bool,

    /// Estimate the generation of so many tokens after the batch
    #[arg(long, value_name = "TOKENS", value_parser = number::<u64, 1, MOST>)]
    pub(crate) generate: Option<u64>,

    /// Sequences (images) in a batch
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = number::<u64, 1, MOST>)]
    pub(crate) batch: u64,

    /// Tokens of each sequence [default: 2048, or as many as the model was made for]
    #[arg(long, short, value_name = "TOKENS", value_parser = number::<u64, 1, MOST>)]
    pub(crate) seq: Option<u64>,

    /// Type of the weights [default: as published]
    #[arg(long, value_enum)]
    pub(crate) dtype: Option<DtypeArg>,

    /// Compute in this type over 32-bit weights (torch.autocast)
    #[arg(long, value_enum, conflicts_with = "dtype")]
    pub(crate) autocast: Option<HalfArg>,

    /// Attention: sdpa is PyTorch's, flash is the flash-attn package, eager computes all scores
    #[arg(long, value_enum, default_value_t = AttentionArg::Sdpa)]
    pub(crate) attention: AttentionArg,

    /// Store frozen weights in 4 or 8 bits (bitsandbytes)
    #[arg(long, value_name = "BITS", value_enum)]
    pub(crate) quantize: Option<BitsArg>,

    /// PyTorch's allocator uses expandable segments
    #[arg(long)]
    pub(crate) expandable_segments: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FitTraining {
    /// Optimizer; adamw updates all weights at once, PyTorch's default on a GPU
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = optimizer)]
    pub(crate) optimizer: Optimizer,

    /// Gradient checkpointing: none, full, or N for every N-th block
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = checkpointing)]
    pub(crate) checkpointing: Checkpointing,

    /// Batches whose gradients are accumulated for a step
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64, 1, 65536>)]
    pub(crate) accumulate: u64,

    /// Compute logits and loss in so many parts
    #[arg(long, value_name = "N", value_parser = number::<u64, 1, 65536>)]
    pub(crate) loss_chunks: Option<u64>,

    /// Train low-rank adapters of this rank instead of the weights (LoRA; with --quantize 4, QLoRA)
    #[arg(long, value_name = "RANK", value_parser = number::<u64, 1, 65536>)]
    pub(crate) lora: Option<u64>,

    /// Layers with adapters: attention, or all linear layers
    #[arg(long, value_enum, default_value_t = LoraLayers::Attention, requires = "lora")]
    pub(crate) lora_layers: LoraLayers,

    /// Type of the adapters; PEFT makes them in 32 bits
    #[arg(long, value_enum, default_value_t = DtypeArg::Fp32, requires = "lora")]
    pub(crate) lora_dtype: DtypeArg,
}

#[derive(Debug, Args)]
pub(crate) struct FitParallel {
    /// GPUs with batches of their own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64, 1, MOST_GPUS>)]
    pub(crate) ranks: u64,

    /// How these share the model: ddp (each has all of it), zero1, zero2, zero3 or fsdp
    #[arg(long, value_enum, default_value_t = ShardArg::Ddp)]
    pub(crate) shard: ShardArg,

    /// GPUs that share each matrix
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64, 1, MOST_GPUS>)]
    pub(crate) tensor_parallel: u64,

    /// GPUs that share the layers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::<u64, 1, MOST_GPUS>)]
    pub(crate) pipeline_parallel: u64,

    /// Keep the optimizer's state in the memory of the host
    #[arg(long)]
    pub(crate) offload_optimizer: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DtypeArg {
    Fp32,
    Bf16,
    Fp16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HalfArg {
    Bf16,
    Fp16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttentionArg {
    Sdpa,
    Flash,
    Eager,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BitsArg {
    #[value(name = "4")]
    Four,
    #[value(name = "8")]
    Eight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoraLayers {
    Attention,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShardArg {
    Ddp,
    Zero1,
    Zero2,
    Zero3,
    Fsdp,
}

impl From<DtypeArg> for Dtype {
    fn from(dtype: DtypeArg) -> Dtype {
        match dtype {
            DtypeArg::Fp32 => Dtype::F32,
            DtypeArg::Bf16 => Dtype::Bf16,
            DtypeArg::Fp16 => Dtype::F16,
        }
    }
}

impl FitArgs {
    /// What was chosen.
    pub(crate) fn choices(&self) -> FitChoices {
        let (work, training, parallel) = (&self.work, &self.training, &self.parallel);
        FitChoices {
            work: match (work.infer, work.generate) {
                (_, Some(count)) => WorkChoice::Generate(count),
                (true, None) => WorkChoice::Infer,
                (false, None) => WorkChoice::Train,
            },
            batch: work.batch,
            length: work.seq,
            dtype: work.dtype.map(Dtype::from),
            autocast: work.autocast.map(|half| match half {
                HalfArg::Bf16 => Dtype::Bf16,
                HalfArg::Fp16 => Dtype::F16,
            }),
            optimizer: training.optimizer,
            checkpointing: training.checkpointing,
            accumulation: training.accumulate,
            attention: match work.attention {
                AttentionArg::Sdpa => AttentionKernel::Sdpa,
                AttentionArg::Flash => AttentionKernel::Flash,
                AttentionArg::Eager => AttentionKernel::Eager,
            },
            loss_chunks: training.loss_chunks,
            lora_rank: training.lora,
            lora_everywhere: training.lora_layers == LoraLayers::All,
            lora_dtype: training.lora_dtype.into(),
            packing: match work.quantize {
                None => WeightPacking::None,
                Some(BitsArg::Four) => WeightPacking::FourBits,
                Some(BitsArg::Eight) => WeightPacking::EightBits,
            },
            parallelism: Parallelism {
                ranks: parallel.ranks,
                sharding: match parallel.shard {
                    ShardArg::Ddp => Sharding::Replicated,
                    ShardArg::Zero1 => Sharding::OptimizerStates,
                    ShardArg::Zero2 => Sharding::Gradients,
                    ShardArg::Zero3 | ShardArg::Fsdp => Sharding::Weights,
                },
                tensor: parallel.tensor_parallel,
                pipeline: parallel.pipeline_parallel,
                offloads_optimizer: parallel.offload_optimizer,
            },
            expandable_segments: work.expandable_segments,
        }
    }
}

/// What to vary, and the values; none are given to double it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variation {
    pub(crate) setting: VariedSetting,
    pub(crate) values: Vec<u64>,
}

/// More values would fill no table.
const MOST_VALUES: usize = 64;

fn varied(text: &str) -> Result<Variation, String> {
    let (name, values) = text.split_once('=').unwrap_or((text, ""));
    let setting = match name {
        "batch" => VariedSetting::Batch,
        "seq" => VariedSetting::Seq,
        "vocab" => VariedSetting::Vocab,
        "width" => VariedSetting::Width,
        "layers" => VariedSetting::Layers,
        _ => return Err("not batch, seq, vocab, width or layers, with values or without (example: seq=512,2048)".to_owned()),
    };
    let values: Result<Vec<u64>, String> = values
        .split(',')
        .filter(|value| !value.is_empty())
        .map(number::<u64, 1, MOST>)
        .collect();
    match values? {
        values if values.len() > MOST_VALUES => Err(format!("more than {MOST_VALUES} values")),
        values => Ok(Variation { setting, values }),
    }
}

fn optimizer(text: &str) -> Result<Optimizer, String> {
    let found = OPTIMIZERS.iter().find(|(name, _)| *name == text);
    let names = || {
        let names: Vec<&str> = OPTIMIZERS.iter().map(|(name, _)| *name).collect();
        format!("not one of {}", names.join(", "))
    };
    found.map(|(_, optimizer)| *optimizer).ok_or_else(names)
}

fn checkpointing(text: &str) -> Result<Checkpointing, String> {
    match text {
        "none" => Ok(Checkpointing::None),
        "full" => Ok(Checkpointing::Full),
        _ => number::<u64, 1, 10_000>(text)
            .map(Checkpointing::Every)
            .map_err(|_| "not none, full or a number of blocks".to_owned()),
    }
}

/// A memory that was named in the place of a GPU.
pub(crate) fn gpu_memory(text: &str) -> Option<u64> {
    let begins_with_digit = text.starts_with(|c: char| c.is_ascii_digit());
    let has_unit = text.to_ascii_lowercase().ends_with('b');
    let bytes = (begins_with_digit && has_unit).then(|| parse_bytes(text).ok())?;
    bytes.filter(|bytes| *bytes > 0)
}
