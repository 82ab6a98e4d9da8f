//! `nilo oom` of what runs: a short look, or with `--monitor` a long one that warns on the way.

use nilo_answer::monitor::MonitorEnd;

use crate::args::{OomArgs, TextOrJson};
use crate::commands::oom::answer;
use crate::failure::{Failure, note, verdict_status};
use crate::live::{LevelDisplay, MonitorSettings, Reporter, Session, WatchTarget, write_end};
use crate::settings::Settings;

/// A look takes this long: the host and the GPUs are read a few times.
const LOOK_NANOS: u64 = 3_000_000_000;

pub(crate) fn run(args: &OomArgs, settings: &Settings) -> Result<u8, Failure> {
    let quiet = args.live.quiet || settings.is_quiet();
    let goes_on = args.goes_on();
    let usual = (!goes_on).then_some(LOOK_NANOS);
    let asked = args.live.duration.map(|nanos| (nanos > 0).then_some(nanos));
    let session = Session {
        target: WatchTarget::settle(&args.live)?,
        args: &args.live,
        place: &args.judged.place,
        settings,
        duration_nanos: asked.unwrap_or(usual),
        slack_nanos: 0,
        is_kept: goes_on,
    };
    let levels = match quiet {
        true => LevelDisplay::Off,
        false => LevelDisplay::OnTerminal,
    };
    let mut seen = session.watch(MonitorSettings {
        threshold_percent: goes_on.then_some(args.threshold),
        leaks: None,
        reporter: Reporter::new(args.format, levels, args.threshold),
    })?;
    if !goes_on {
        let diagnosis = seen.diagnosis();
        if diagnosis.verdicts(None).is_empty() {
            return Err(Failure::new("no memory samples to analyse").hint(
                "the processes may have ended right away, or the GPU driver is not responding",
            ));
        }
        return answer(&diagnosis, args);
    }
    let ran_out = seen.ran_out();
    if let Some(ran_out) = &ran_out {
        seen.monitor.say_ran_out(ran_out)?;
    }
    let end = MonitorEnd {
        oom_killed: ran_out.is_some(),
        ..seen.end()
    };
    let status = end.exit_status();
    if args.format == TextOrJson::Json {
        return verdict_status(status, write_end(end));
    }
    if !quiet {
        let given = match end.warnings {
            0 => "no warnings".to_owned(),
            1 => "1 warning".to_owned(),
            more => format!("{more} warnings"),
        };
        note(&format!("{given} in {:.0} s", end.secs));
    }
    Ok(status)
}
