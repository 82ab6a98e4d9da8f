//! `nilo mark`: a word at this moment of the run.

use nilo_recorder::{Privacy, stored_message};
use nilo_runfile::{RunFolder, append_event};
use nilo_sample::Event;

use crate::args::MarkArgs;
use crate::failure::{Failure, WithHint};

/// A mark is a label on a chart, not a log.
const LONGEST_CHARS: usize = 1000;

pub(crate) fn run(args: MarkArgs) -> Result<u8, Failure> {
    let Some(run_dir) = args.run_dir else {
        return Err(Failure::new("not inside a run: NILO_RUN_DIR is not set")
            .hint("call this from a command started by `nilo run`, or name the run's folder with --run-dir"));
    };
    let folder = RunFolder::open(&run_dir).hint("--run-dir is the folder that holds run.json")?;
    if args.text.trim().is_empty() {
        return Err(Failure::new("a mark needs a text").hint("nilo mark \"epoch 3\""));
    }
    // A job that keeps its secrets says so to its processes.
    Privacy::default().or_by_environment().apply();
    let text: String = args.text.chars().take(LONGEST_CHARS).collect();
    let text = stored_message(&text);
    append_event(folder.path(), &Event::Mark { text })?;
    Ok(0)
}
