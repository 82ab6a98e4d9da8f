//! What `nilo trust` takes.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(
    after_help = "Settings that run a command, send data, signal the job, choose a folder or disclose secrets \
(on_alert, webhook, signal, dir, shared, keep_secrets) take effect only from a file that you approved, from the file that NILO_CONFIG names, \
or from ~/.config/nilo/config.toml. A file that has changed must be approved again.\n\n\
If `.nilo` is a symbolic link, it is used only after `nilo trust .nilo`; until then runs are recorded to a private folder in /tmp.\n\n\
Examples:\n  nilo trust\n  nilo trust ~/project/nilo.toml\n  nilo trust .nilo\n  nilo trust --revoke"
)]
pub(crate) struct TrustArgs {
    /// Settings file, its folder, or a symbolic link `.nilo` [default: the nearest nilo.toml]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Revoke the approval
    #[arg(long)]
    pub(crate) revoke: bool,
}
