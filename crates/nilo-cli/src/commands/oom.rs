//! `nilo oom`: what runs out of memory, when, and how sure that is.

use nilo_answer::diagnosis::Diagnosis;
use nilo_answer::oom::{OomAnswer, oom_exit_status, resource_risks};

use crate::args::{OomArgs, TextOrJson};
use crate::commands::oom_live;
use crate::diagnosis::diagnose;
use crate::failure::{Failure, verdict_status};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::json::write_json;
use crate::text::oom::write_diagnosis;
use crate::wrap::WrappingWriter;

pub(crate) fn run(args: OomArgs, settings: &Settings) -> Result<u8, Failure> {
    check_threshold(args.threshold)?;
    if args.is_live() {
        return oom_live::run(&args, settings);
    }
    let diagnosis = diagnose(&args.judged, settings)?;
    answer(&diagnosis, &args)
}

pub(crate) fn check_threshold(percent: f64) -> Result<(), Failure> {
    if percent > 0.0 && percent <= 100.0 {
        return Ok(());
    }
    let sentence = format!("a threshold of {percent} percent is out of range");
    Err(Failure::new(sentence).hint("use a value above 0 and up to 100, such as 85"))
}

/// Says how everything stands; the status is 1 where there is something to warn of.
pub(crate) fn answer(diagnosis: &Diagnosis, args: &OomArgs) -> Result<u8, Failure> {
    let risks = resource_risks(diagnosis, args.threshold);
    let handled = diagnosis.handled_gpu_failures();
    let status = oom_exit_status(&risks, handled.as_ref());
    let mut out = std::io::stdout().lock();
    let written = match args.format {
        TextOrJson::Json => {
            let answer = OomAnswer::of(diagnosis, &risks, handled, args.threshold);
            write_json(&mut out, &answer)
        }
        TextOrJson::Text => write_diagnosis(
            &mut WrappingWriter::new(out, Screen::stdout()),
            diagnosis,
            &risks,
            handled.as_ref(),
        ),
    };
    verdict_status(status, written)
}
