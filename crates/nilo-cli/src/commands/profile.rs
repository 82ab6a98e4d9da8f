//! `nilo profile`: measure for a while, then report levels and statistics.

use std::path::Path;

use nilo_answer::profile::ProfileAnswer;

use crate::args::{ProfileArgs, TextOrJson};
use crate::failure::Failure;
use crate::live::{LevelDisplay, MonitorSettings, Reporter, Session, WatchTarget};
use crate::recording::check_writable;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::json::{json_text, write_json};
use crate::text::profile::write_profile;
use crate::wrap::WrappingWriter;

const USUAL_NANOS: u64 = 60_000_000_000;

pub(crate) fn run(args: ProfileArgs, settings: &Settings) -> Result<u8, Failure> {
    let target = WatchTarget::settle(&args.live)?;
    check_writable(args.output.as_deref(), "report")?;
    let quiet = args.live.quiet || settings.is_quiet();
    let duration_nanos = match args.live.duration {
        None => Some(USUAL_NANOS),
        Some(0) => None,
        asked => asked,
    };
    let session = Session {
        target,
        args: &args.live,
        place: &args.place,
        settings,
        duration_nanos,
        slack_nanos: 0,
        is_kept: true,
    };
    let levels = match quiet {
        true => LevelDisplay::Off,
        false => LevelDisplay::OnTerminal,
    };
    let seen = session.watch(MonitorSettings {
        threshold_percent: None,
        leaks: None,
        reporter: Reporter::new(args.format, levels, 100.0),
    })?;
    let report = seen.profile()?;
    let written = write_report(&report, args.output.as_deref());
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => {
            write_json(&mut out, &report)?;
        }
        TextOrJson::Text => {
            let mut out = WrappingWriter::new(out, Screen::stdout());
            write_profile(&mut out, &report, args.output.as_deref())?;
        }
    }
    written.map(|()| 0)
}

/// Writes the report where asked.
pub(crate) fn write_report(report: &ProfileAnswer, path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let text = json_text(report)?;
    std::fs::write(path, text).map_err(|error| {
        let sentence = format!("cannot write the report {}: {error}", path.display());
        Failure::new(sentence).hint("--format json prints it instead")
    })
}
