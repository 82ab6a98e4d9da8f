//! `nilo man`: manual pages, generated from the definition of the arguments.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;

pub(crate) fn run(args: ManArgs) -> Result<u8, Failure> {
    match args.output {
        Some(folder) => {
            std::fs::create_dir_all(&folder)?;
            clap_mangen::generate_to(Cli::command(), &folder)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            std::io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(0)
}
