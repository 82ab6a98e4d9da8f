//! The memory of a node: what whole runs call for, corrected by what unfinished ones prove.

use nilo_sample::units::format_bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::PlannedRun;
use crate::facts::{Completeness, RunFacts};
use crate::headroom::{Confidence, headroom};
use crate::rounding::{round_up_bytes, rounding_in_words};

/// After an OOM kill: this many times the limit that was too small.
const AFTER_OOM: f64 = 1.5;
/// Above a peak that is only a lower bound.
const ABOVE_LOWER_BOUND: f64 = 1.25;

/// What to ask for on a node.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct MemoryRequest {
    /// Memory of a node.
    pub bytes: u64,
    /// How far this carries.
    pub confidence: Confidence,
    /// A run was still growing at its end: one that lasts longer needs more.
    pub growing: bool,
    /// ... and in the planned time it grows beyond anything that one asks for: the amount carries no further than the runs lasted.
    pub runs_away: bool,
    /// The rule in words.
    pub rule: String,
    /// What the rule calls for, before it is rounded up to `bytes`.
    pub before_rounding_bytes: u64,
    /// The smallest peak of a whole run.
    pub least_peak_bytes: Option<u64>,
    /// The largest peak of a whole run.
    pub largest_peak_bytes: Option<u64>,
    /// Whole runs.
    pub whole_runs: usize,
    /// Whole runs that would have had enough.
    pub covered_runs: usize,
}

impl MemoryRequest {
    /// How the rule became the amount: `25 % above the only peak; that is 385.86 MiB, rounded up to a multiple of 64 MiB`.
    pub fn rule_in_words(&self) -> String {
        match rounding_in_words(self.before_rounding_bytes, self.bytes) {
            Some(rounding) => format!("{}; {rounding}", self.rule),
            None => self.rule.clone(),
        }
    }
}

/// What runs call for; `None` where nothing was measured. Notes go to `notes`.
pub(crate) fn request_memory(
    runs: &[RunFacts],
    plan: &PlannedRun,
    notes: &mut Vec<String>,
) -> Option<MemoryRequest> {
    let is_whole = |run: &&RunFacts| run.completeness == Completeness::Whole;
    let mut needs = Vec::with_capacity(runs.len());
    for run in runs {
        if let Some(peak) = run.peak_bytes {
            needs.push((run, need(run, peak as f64, plan, notes)));
        }
    }
    let whole: Vec<f64> = needs
        .iter()
        .filter(|(run, _)| is_whole(run))
        .map(|(_, need)| need.bytes)
        .collect();
    let largest_whole = whole.iter().copied().fold(0.0, f64::max);
    let (mut bytes, mut confidence, mut rule) = match headroom(&whole) {
        Some(advice) => (advice.bytes, advice.confidence, advice.rule),
        None => (0.0, Confidence::Guess, String::new()),
    };
    for (run, need) in needs.iter().filter(|(run, _)| !is_whole(run)) {
        let peak = need.bytes;
        let oom = run.completeness == Completeness::OomKilled;
        let limit = run
            .limit_bytes
            .filter(|_| oom)
            .map_or(0.0, |limit| limit as f64);
        let reason = run.completeness.reason().unwrap_or_default();
        // A limit that whole runs have passed since explains itself.
        if peak.max(limit) <= largest_whole {
            continue;
        }
        let (called_for, words) = match oom {
            true => (
                (AFTER_OOM * limit).max(ABOVE_LOWER_BOUND * peak),
                "1.5 × the limit at which a run was killed",
            ),
            false => (
                ABOVE_LOWER_BOUND * peak,
                "25 % above the largest peak of runs that did not complete",
            ),
        };
        notes.push(match oom && limit > 0.0 {
            true => format!(
                "{} {reason} at {}: it needs more than that; how much more is unknown",
                run.label,
                format_bytes(limit)
            ),
            false => format!("{} {reason}: its peak is only a lower bound", run.label),
        });
        if called_for > bytes {
            (bytes, rule) = (called_for, words.to_owned());
        }
        confidence = match oom || whole.is_empty() {
            true => Confidence::Guess,
            false => confidence.min(Confidence::Low),
        };
    }
    if runs.iter().any(|run| run.growth.is_some()) {
        confidence = confidence.min(Confidence::Low);
    }
    let runs_away = needs.iter().any(|(_, need)| need.runs_away);
    if runs_away {
        confidence = Confidence::Guess;
    }
    let is_carried = |(run, need): &(&RunFacts, Need)| {
        run.peak_bytes.is_some_and(|peak| need.bytes > peak as f64)
    };
    if needs.iter().any(is_carried) {
        rule.push_str(", extrapolated to the planned time");
    }
    if bytes <= 0.0 {
        return None;
    }
    let before_rounding_bytes = bytes.ceil() as u64;
    let bytes = round_up_bytes(bytes);
    let peaks = || {
        runs.iter()
            .filter(is_whole)
            .filter_map(|run| run.peak_bytes)
    };
    Some(MemoryRequest {
        bytes,
        confidence,
        growing: runs.iter().any(|run| run.growth.is_some()),
        runs_away,
        rule,
        before_rounding_bytes,
        least_peak_bytes: peaks().min(),
        largest_peak_bytes: peaks().max(),
        whole_runs: peaks().count(),
        covered_runs: peaks().filter(|peak| *peak <= bytes).count(),
    })
}

/// What a run calls for.
struct Need {
    bytes: f64,
    /// Its growth leads beyond anything that could be asked for.
    runs_away: bool,
}

/// Growth to more than this many times the peak is no need but a leak.
const CARRIED_AT_MOST: f64 = 4.0;

/// The peak of a run, carried on to the planned duration where its memory was still growing.
fn need(run: &RunFacts, peak: f64, plan: &PlannedRun, notes: &mut Vec<String>) -> Need {
    let seen = Need {
        bytes: peak,
        runs_away: false,
    };
    let Some(growth) = run.growth else {
        return seen;
    };
    let grows = format!(
        "{} was still growing at its end, by {} an hour",
        run.label,
        format_bytes(growth.bytes_per_sec * 3600.0)
    );
    let Some(planned_secs) = plan.planned_secs else {
        // One that grew until it was killed is spoken of as killed.
        if run.completeness == Completeness::OomKilled {
            return seen;
        }
        notes.push(format!(
            "{grows}: what a longer run needs cannot be known without --time"
        ));
        return seen;
    };
    let further = (planned_secs - run.duration_secs).max(0.0);
    let carried = peak + growth.bytes_per_sec * further;
    let carried_text = format_bytes(carried);
    if carried > CARRIED_AT_MOST * peak {
        notes.push(format!(
            "{grows}; in the planned time that is {carried_text}, which is not a sensible request: fix the leak first"
        ));
        return Need {
            runs_away: true,
            ..seen
        };
    }
    notes.push(format!(
        "{grows}; extrapolated to the planned time, that is {carried_text}"
    ));
    Need {
        bytes: carried,
        runs_away: false,
    }
}
