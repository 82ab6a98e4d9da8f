//! `nilo man`: manual pages, generated from the definition of the arguments.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::failure::Failure;
use crate::output_file::refuse_stdout;

pub(crate) fn run(args: ManArgs) -> Result<u8, Failure> {
    match args.output {
        Some(folder) => {
            refuse_stdout(&folder, "pages", "name a folder, or omit --output")?;
            let about = |error: std::io::Error| {
                Failure::new(format!(
                    "cannot write pages to {}: {error}",
                    folder.display()
                ))
            };
            std::fs::create_dir_all(&folder).map_err(about)?;
            clap_mangen::generate_to(Cli::command(), &folder).map_err(about)?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            std::io::stdout().lock().write_all(&page)?;
        }
    }
    Ok(0)
}
