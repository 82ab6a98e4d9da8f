//! What `nilo gpu` takes.

use std::path::PathBuf;

use clap::Args;

use super::TextOrJson;
use super::values::gpu_index;

#[derive(Debug, Args)]
#[command(
    after_help = "It shows the GPUs of the machine, the memory in use, what well-known models take, a measured throughput, and which models fit. \
What does not fit is shown with the cheapest change that makes it fit, as `nilo fit` finds it.\n\n\
The throughput is measured by PyTorch or CuPy, in python3 or the Python that NILO_PYTHON names, for a few seconds and at most 60. \
It takes up to 1 GiB of the GPU's memory, and never more than a quarter of what is free.\n\n\
Exit status: 0, also without a GPU; 2 on errors, such as a device that does not exist.\n\n\
Examples:\n  nilo gpu\n  nilo gpu --device 0 --output results.json\n  nilo gpu --skip-throughput\n  \
nilo gpu --gpu t4 --models llama-3.1-8b,deepseek-math-7b"
)]
pub(crate) struct GpuArgs {
    /// GPU index of the driver, as in nvidia-smi [default: the first GPU that CUDA_VISIBLE_DEVICES leaves, or 0]
    #[arg(long, short, value_name = "GPU", value_parser = gpu_index)]
    pub(crate) device: Option<u32>,

    /// Ask about another GPU than those of this machine: a name (`nilo fit --list`), or memory such as 24GiB
    #[arg(long, value_name = "NAME", conflicts_with = "device")]
    pub(crate) gpu: Option<String>,

    /// Models by name, separated by commas [default: some well-known ones]
    #[arg(
        long,
        value_name = "MODEL",
        value_delimiter = ',',
        conflicts_with = "all_models"
    )]
    pub(crate) models: Vec<String>,

    /// Show all models of the catalogue
    #[arg(long)]
    pub(crate) all_models: bool,

    /// Do not measure the throughput
    #[arg(long)]
    pub(crate) skip_throughput: bool,

    /// Write everything as JSON to this file
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t = TextOrJson::Text)]
    pub(crate) format: TextOrJson,
}
