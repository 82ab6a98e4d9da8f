//! What `nilo completions` and `nilo man` take.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}
