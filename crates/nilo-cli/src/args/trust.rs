//! What `nilo trust` takes.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Settings that run a command, send something somewhere, signal the job, choose a folder or disclose secrets \
(on_alert, webhook, signal, dir, shared, keep_secrets) take effect only from a file that you approved, from the file that NILO_CONFIG names, \
or from ~/.config/nilo/config.toml. A file that changes needs a new approval.\n\n\
A `.nilo` that is a symbolic link holds runs only after `nilo trust .nilo`; until then they are recorded to a folder of your own in /tmp.\n\n\
Examples:\n  nilo trust\n  nilo trust ~/project/nilo.toml\n  nilo trust .nilo\n  nilo trust --revoke"
)]
pub(crate) struct TrustArgs {
    /// Settings file, its folder, or a link `.nilo` [default: the nearest nilo.toml]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Take the approval back
    #[arg(long)]
    pub(crate) revoke: bool,
}
