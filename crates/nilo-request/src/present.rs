//! What is asked for at present, beside what should be.

use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::RunFacts;

/// How the present limit stands to the recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitFit {
    /// Much of it is never used.
    Wasteful,
    /// It is about right.
    Fits,
    /// There is too little room above the peak.
    TooSmall,
}

/// The limit of the newest run that had one.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct PresentLimit {
    /// How much.
    pub bytes: u64,
    /// What imposes it.
    pub source: Option<String>,
    /// The most that any of the runs used of a limit, as a share of it: as in `nilo show`, what was charged to the cgroup that sets it.
    pub used_ratio: Option<f64>,
    /// It less the recommendation: what is wasted, or lacks when negative.
    pub difference_bytes: i64,
    /// In a word.
    pub verdict: LimitFit,
}

/// Compares the recommendation with the newest limit that somebody set; the machine's own memory is no request.
pub(crate) fn present_limit(runs: &[RunFacts], recommended: u64) -> Option<PresentLimit> {
    let newest = runs
        .iter()
        .filter(|run| run.limit_was_asked_for)
        .max_by(|a, b| a.run.cmp(&b.run))?;
    let bytes = newest.limit_bytes?;
    let used = |run: &RunFacts| run.limit_used_bytes.or(run.peak_bytes);
    let used = runs.iter().filter_map(used).max();
    let verdict = match bytes {
        bytes if bytes < recommended => LimitFit::TooSmall,
        bytes if bytes as f64 > 1.25 * recommended as f64 => LimitFit::Wasteful,
        _ => LimitFit::Fits,
    };
    Some(PresentLimit {
        bytes,
        source: newest.limit_source.clone(),
        used_ratio: used
            .filter(|_| bytes > 0)
            .map(|used| used as f64 / bytes as f64),
        difference_bytes: bytes as i64 - recommended as i64,
        verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::run;
    use nilo_sample::units::GIB;

    #[test]
    fn the_newest_limit_that_was_set_is_judged() {
        let with = |id: &str, limit: u64, asked_for: bool| RunFacts {
            run: id.to_owned(),
            limit_bytes: Some(limit * GIB),
            limit_was_asked_for: asked_for,
            ..run("a", 16)
        };
        let runs = [
            with("2", 64, true),
            with("1", 8, true),
            with("3", 500, false),
        ];
        let found = present_limit(&runs, 20 * GIB).unwrap();
        assert_eq!((found.bytes, found.verdict), (64 * GIB, LimitFit::Wasteful));
        assert_eq!(found.difference_bytes, 44 * GIB as i64);
        assert_eq!(found.used_ratio, Some(0.25));
        // What was charged to the limit counts, where it is known: a peak may have file pages in it that are not.
        let mut charged = with("1", 64, true);
        charged.limit_used_bytes = Some(8 * GIB);
        let found = present_limit(&[charged], 20 * GIB).unwrap();
        assert_eq!(found.used_ratio, Some(0.125));
        let small = present_limit(&runs[1..2], 20 * GIB).unwrap();
        assert_eq!(small.verdict, LimitFit::TooSmall);
        assert_eq!(small.difference_bytes, -12 * GIB as i64);
        assert_eq!(present_limit(&runs[2..], 20 * GIB), None);
        let fits = present_limit(&[with("1", 24, true)], 20 * GIB).unwrap();
        assert_eq!(fits.verdict, LimitFit::Fits);
    }
}
