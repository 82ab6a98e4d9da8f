//! Warnings as somebody who watches is told of them: each begins once, is told again when it gets worse, and is over once.

use std::collections::{BTreeMap, BTreeSet};

use nilo_analysis::assessment::{Assessment, Thresholds, assess_verdict};
use nilo_analysis::tracking::ResourceVerdict;
use nilo_forecast::RiskLevel;
use nilo_sample::{Alert, AlertKind};

/// The warnings that stand.
#[derive(Debug)]
pub struct Warnings {
    thresholds: Thresholds,
    /// By what is warned of.
    standing: BTreeMap<String, ActiveWarning>,
}

#[derive(Debug, Default)]
struct ActiveWarning {
    /// The name of the reason and the kind of each alert that is not over.
    reasons: BTreeSet<(String, AlertKind)>,
    /// The level that was told last.
    level: RiskLevel,
}

/// What follows from an alert.
#[derive(Debug, Clone, PartialEq)]
pub enum WarningChange {
    /// Somebody should be told: it begins, or has become worse.
    Raised(Box<(ResourceVerdict, Assessment)>),
    /// Its last reason is gone.
    Over,
}

impl Warnings {
    /// None yet. Levels count from these thresholds on.
    pub fn new(thresholds: Thresholds) -> Warnings {
        Warnings {
            thresholds,
            standing: BTreeMap::new(),
        }
    }

    /// Takes in an alert about `subject`, which is the resource or what people know several resources as.
    /// `reason` is the resource's name among all that are judged: where one resource is held against two limits, each is a reason of its own.
    pub fn on_alert(
        &mut self,
        subject: &str,
        reason: &str,
        alert: &Alert,
        risks: &[ResourceVerdict],
    ) -> Option<WarningChange> {
        let standing = self.standing.entry(subject.to_owned()).or_default();
        let reason = (reason.to_owned(), alert.kind);
        if !alert.raised {
            standing.reasons.remove(&reason);
            return standing.reasons.is_empty().then(|| {
                standing.level = RiskLevel::Low;
                WarningChange::Over
            });
        }
        standing.reasons.insert(reason);
        let named = |risk: &&ResourceVerdict| risk.resource.to_string() == alert.resource;
        let risk = risks.iter().find(named)?;
        let assessment = assess_verdict(risk, &self.thresholds, None);
        if assessment.level <= standing.level || !assessment.is_warning() {
            return None;
        }
        standing.level = assessment.level;
        Some(WarningChange::Raised(Box::new((risk.clone(), assessment))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_analysis::alerts::{AlertEvaluator, AlertRules};
    use nilo_analysis::tracking::Resource;

    const SECOND: u64 = 1_000_000_000;

    /// Levels of the job and of the machine, one a second: what is told, and when.
    fn told(percents: impl IntoIterator<Item = (f64, f64)>) -> Vec<(usize, Option<RiskLevel>)> {
        let thresholds = Thresholds::from_percent(80.0);
        let mut evaluator = AlertEvaluator::new(AlertRules::from_thresholds(&thresholds, false));
        let mut warnings = Warnings::new(thresholds);
        let mut told = Vec::new();
        for (second, (job, host)) in percents.into_iter().enumerate() {
            let at = |resource, percent| {
                let mut risk = ResourceVerdict::unmeasured(resource);
                risk.reading.time_nanos = second as u64 * SECOND;
                risk.reading.used_bytes = percent;
                risk.reading.limit_bytes = Some(100.0);
                risk
            };
            let risks = [at(Resource::Job, job), at(Resource::Host, host)];
            for alert in evaluator.look(&risks) {
                match warnings.on_alert("memory", &alert.resource, &alert, &risks) {
                    Some(WarningChange::Raised(raised)) => {
                        told.push((second, Some(raised.1.level)))
                    }
                    Some(WarningChange::Over) => told.push((second, None)),
                    None => {}
                }
            }
        }
        told
    }

    #[test]
    fn a_warning_is_told_again_when_it_gets_worse_and_is_over_after_calm() {
        let levels = [50.0, 81.0, 79.0, 85.0, 96.0, 90.0].into_iter();
        let levels = levels.chain([20.0; 40]).map(|level| (level, 10.0));
        let (high, critical) = (Some(RiskLevel::High), Some(RiskLevel::Critical));
        assert_eq!(told(levels), [(1, high), (4, critical), (36, None)]);
    }

    #[test]
    fn a_warning_against_one_limit_is_not_over_when_that_against_another_is() {
        let thresholds = Thresholds::from_percent(80.0);
        let judge = || AlertEvaluator::new(AlertRules::from_thresholds(&thresholds, false));
        let mut judges = [("budget", 300.0, judge()), ("cgroup", 400.0, judge())];
        let mut warnings = Warnings::new(thresholds);
        let mut over = Vec::new();
        // Above both limits' thresholds, then below that of the cgroup, then below both.
        let levels = [350.0; 2].into_iter().chain([270.0; 60]);
        for (second, level) in levels.chain([50.0; 60]).enumerate() {
            for (name, limit, evaluator) in &mut judges {
                let mut risk = ResourceVerdict::unmeasured(Resource::Job);
                risk.reading.time_nanos = second as u64 * SECOND;
                risk.reading.used_bytes = level;
                risk.reading.limit_bytes = Some(*limit);
                let risks = [risk];
                for alert in evaluator.look(&risks) {
                    let change = warnings.on_alert("host", name, &alert, &risks);
                    if change == Some(WarningChange::Over) {
                        over.push(second);
                    }
                }
            }
        }
        assert_eq!(over.len(), 1, "{over:?}");
        assert!(over[0] > 62, "the budget was still full: {over:?}");
    }

    #[test]
    fn two_resources_under_one_name_are_one_warning() {
        let both = [(50.0, 85.0), (90.0, 85.0)].into_iter();
        let levels = both.chain([(90.0, 10.0); 40]).chain([(10.0, 10.0); 40]);
        assert_eq!(told(levels), [(0, Some(RiskLevel::High)), (72, None)]);
    }
}
