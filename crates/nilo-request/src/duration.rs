//! The time limit to ask for.

use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::{Completeness, RunFacts};
use crate::headroom::Confidence;
use crate::rounding::round_up_nanos;

/// How long to ask for.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TimeRequest {
    /// Seconds.
    pub secs: u64,
    /// As Slurm reads it: `06:15:00`, or `1-06:15:00` with days.
    pub slurm: String,
    /// How far this carries.
    pub confidence: Confidence,
    /// The rule in words.
    pub rule: String,
}

/// The planned time as it is, else the longest whole run and some more.
pub(crate) fn request_time(runs: &[RunFacts], planned_secs: Option<f64>) -> Option<TimeRequest> {
    if let Some(planned) = planned_secs {
        return Some(time(planned, Confidence::High, "as planned".to_owned()));
    }
    let durations = |whole: bool| {
        let fitting = runs
            .iter()
            .filter(move |run| (run.completeness == Completeness::Whole) == whole);
        fitting.map(|run| run.duration_secs)
    };
    let longest = durations(true).fold(0.0, f64::max);
    let cut_short = durations(false).fold(0.0, f64::max);
    if cut_short > longest {
        let rule = "50 % above the longest run, which failed or was stopped: a guess";
        return Some(time(1.5 * cut_short, Confidence::Guess, rule.to_owned()));
    }
    let (factor, confidence) = match durations(true).count() {
        0 => return None,
        1 => (1.5, Confidence::Low),
        2 => (1.3, Confidence::Low),
        _ => (1.2, Confidence::Medium),
    };
    let rule = format!("{:.0} % above the longest run", (factor - 1.0) * 100.0);
    Some(time(factor * longest, confidence, rule))
}

fn time(secs: f64, confidence: Confidence, rule: String) -> TimeRequest {
    let asked_secs = secs;
    let secs = round_up_nanos(secs * 1e9) / 1_000_000_000;
    let rule = match secs as f64 > asked_secs {
        true => format!("{rule}, rounded up"),
        false => rule,
    };
    let clock = format!(
        "{:02}:{:02}:{:02}",
        secs / 3600 % 24,
        secs / 60 % 60,
        secs % 60
    );
    TimeRequest {
        secs,
        slurm: match secs / 86_400 {
            0 => clock,
            days => format!("{days}-{clock}"),
        },
        confidence,
        rule,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::run;

    fn asked(durations: &[(f64, Completeness)]) -> Option<(u64, Confidence)> {
        let runs: Vec<RunFacts> = durations
            .iter()
            .map(|(secs, completeness)| RunFacts {
                duration_secs: *secs,
                completeness: *completeness,
                ..run("a", 1)
            })
            .collect();
        request_time(&runs, None).map(|time| (time.secs, time.confidence))
    }

    #[test]
    fn more_runs_need_less_reserve() {
        let hour = (3600.0, Completeness::Whole);
        assert_eq!(asked(&[hour]), Some((90 * 60, Confidence::Low)));
        assert_eq!(asked(&[hour; 2]), Some((80 * 60, Confidence::Low)));
        assert_eq!(asked(&[hour; 3]), Some((75 * 60, Confidence::Medium)));
        assert_eq!(asked(&[]), None);
    }

    #[test]
    fn a_run_that_was_cut_short_makes_it_a_guess_when_it_was_the_longest() {
        let whole = (1000.0, Completeness::Whole);
        let cut = (3600.0, Completeness::Killed);
        assert_eq!(asked(&[whole, cut]), Some((90 * 60, Confidence::Guess)));
        let short = (10.0, Completeness::Failed);
        assert_eq!(asked(&[whole, short]), Some((1500, Confidence::Low)));
    }

    #[test]
    fn slurm_writes_days_in_front() {
        assert_eq!(
            request_time(&[], Some(90_000.0)).unwrap().slurm,
            "1-01:00:00"
        );
        assert_eq!(request_time(&[], Some(60.0)).unwrap().slurm, "00:05:00");
    }
}
