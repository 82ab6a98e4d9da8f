//! What `nilo optimize` answers: what was saved by measurement, what more is expected, and what nobody looked at.

use std::collections::BTreeMap;

use nilo_advice::{AdviceSubject, Facts, Recommendation, all_rules, recommend};
use nilo_analysis::Summary;
use nilo_request::{PlannedRun, request};
use nilo_sample::{Optimization, Recording, RunStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::optimize_config::OptimizeConfig;

/// The value of [`OptimizeAnswer::schema`].
pub const OPTIMIZE_SCHEMA: &str = "nilo.optimize/1";
/// How many recommendations a quick answer has.
const QUICK: usize = 3;
/// The subject of facts about memory that ran out.
const OUT_OF_MEMORY: &str = "out_of_memory.";

/// How much is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimizeMode {
    /// All recommendations, the optimizations that were tried, and what was not looked at.
    Full,
    /// Recommendations on the model, batches, the data loader, the GPU and garbage collection.
    Training,
    /// The three best recommendations.
    Quick,
}

/// The answer.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct OptimizeAnswer {
    /// `nilo.optimize/1`.
    #[schemars(extend("const" = OPTIMIZE_SCHEMA))]
    pub schema: &'static str,
    /// Run id.
    pub run: String,
    /// The user's name for it.
    pub name: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// How it ended, or that it has not.
    pub status: RunStatus,
    /// The command's exit code.
    pub exit_code: Option<i32>,
    /// What went wrong where it did not end well: `exited 1: RuntimeError: no such file`. Of such a run only a part was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// How much was asked for.
    pub mode: OptimizeMode,
    /// The largest level of memory of the process tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// The memory limit in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The most of it that was used, as in `nilo show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_used_bytes: Option<u64>,
    /// The budget that memory was judged by, where a configuration has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<f64>,
    /// Measured: optimizations that were tried in this run. In a full answer only.
    pub optimizations: Vec<Optimization>,
    /// Expected: what the rules recommend, best first.
    pub recommendations: Vec<Recommendation>,
    /// Recommendations that this mode leaves out.
    pub left_out: u64,
    /// Subjects with rules that had no facts to look at. In a full answer only.
    pub not_looked_at: Vec<UnansweredSubject>,
}

/// A subject of which something was not measured.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct UnansweredSubject {
    /// Which, such as `the data loader`.
    pub subject: &'static str,
    /// Rules that had nothing to look at.
    pub silent_rules: Vec<&'static str>,
    /// All rules of the subject, without those that judge by a budget that nobody set or about memory that did not run out.
    pub all_rules: u64,
    /// The facts that were missing, as `docs/schema/facts.json` names them; either of two is written `a|b`.
    pub missing_facts: Vec<&'static str>,
}

impl OptimizeAnswer {
    /// What the rules say of a run under a configuration.
    pub fn of(
        recording: &Recording,
        summary: &Summary,
        mode: OptimizeMode,
        config: Option<&OptimizeConfig>,
    ) -> OptimizeAnswer {
        let mut facts = summary.facts.clone();
        facts.out_of_memory.request_bytes = requested_bytes(recording, summary);
        if let Some(config) = config {
            config.apply(&mut facts);
        }
        let wanted = |rule: &str| config.is_none_or(|config| config.wants(rule));
        let mut all = recommend(&facts);
        all.retain(|said| wanted(said.rule));
        let count = all.len();
        match mode {
            OptimizeMode::Full => {}
            OptimizeMode::Training => all.retain(|said| is_training(said.rule)),
            OptimizeMode::Quick => all.truncate(QUICK),
        }
        let is_full = mode == OptimizeMode::Full;
        let limit_bytes = summary.memory.memory_limit_bytes();
        OptimizeAnswer {
            schema: OPTIMIZE_SCHEMA,
            run: summary.run.clone(),
            name: summary.name.clone(),
            command: summary.command.clone(),
            status: summary.status,
            exit_code: summary.exit_code,
            failure: failure_of(summary),
            mode,
            peak_bytes: summary.memory.peak_bytes,
            limit_bytes,
            limit_used_bytes: limit_bytes.and(summary.memory.limit_used_bytes),
            budget_bytes: facts.thresholds.host_budget_bytes,
            optimizations: match is_full {
                true => summary.optimizations.clone(),
                false => Vec::new(),
            },
            left_out: (count - all.len()) as u64,
            recommendations: all,
            not_looked_at: match is_full {
                true => not_looked_at(&facts),
                false => Vec::new(),
            },
        }
    }
}

/// Whether anything was measured that the rules could look at. Silence on a run of which nothing is known is no answer.
pub fn is_answerable(summary: &Summary) -> bool {
    summary.memory.peak_bytes.is_some()
        || !summary.optimizations.is_empty()
        || all_rules().any(|rule| rule.is_answerable(&summary.facts))
}

/// What `nilo request` asks for after a run whose host memory ran out.
fn requested_bytes(recording: &Recording, summary: &Summary) -> Option<f64> {
    if summary.facts.out_of_memory.on_gpu != Some(false) {
        return None;
    }
    let run = nilo_request::facts_of(recording, summary.status, summary);
    let asked = request(vec![run], &PlannedRun::default()).ok()?;
    Some(asked.memory.bytes as f64)
}

fn failure_of(summary: &Summary) -> Option<String> {
    summary.ending_severity()?;
    let ending = summary.short_ending();
    Some(match &summary.exception {
        Some(raised) => {
            let (kind, message) = (&raised.exception.type_name, &raised.exception.message);
            match message.trim().is_empty() {
                true => format!("{ending}: {kind}"),
                false => format!("{ending}: {kind}: {message}"),
            }
        }
        None => ending,
    })
}

fn is_training(name: &str) -> bool {
    all_rules().any(|rule| rule.name == name && rule.subject.is_training())
}

/// Subjects with rules that are silent for want of something that could be measured.
fn not_looked_at(facts: &Facts) -> Vec<UnansweredSubject> {
    let mut subjects: BTreeMap<AdviceSubject, UnansweredSubject> = BTreeMap::new();
    for rule in all_rules() {
        let is_known = |need: &str| need.split('|').any(|path| facts.knows(path));
        let needs = rule.needs.iter().copied();
        let missing: Vec<&str> = needs.filter(|need| !is_known(need)).collect();
        // A budget is nothing that is measured, and nothing is missing of memory that did not run out.
        let is_budget = |need: &&str| need.starts_with("thresholds.");
        let is_of_ending = rule
            .needs
            .iter()
            .any(|need| need.starts_with(OUT_OF_MEMORY));
        if missing.iter().any(is_budget) || is_of_ending && rule.apply(facts).is_none() {
            continue;
        }
        let entry = subjects.entry(rule.subject);
        let subject = entry.or_insert_with(|| UnansweredSubject {
            subject: rule.subject.as_str(),
            silent_rules: Vec::new(),
            all_rules: 0,
            missing_facts: Vec::new(),
        });
        subject.all_rules += 1;
        if missing.is_empty() {
            continue;
        }
        subject.silent_rules.push(rule.name);
        for need in missing {
            if !subject.missing_facts.contains(&need) {
                subject.missing_facts.push(need);
            }
        }
    }
    let found = subjects.into_values();
    found
        .filter(|subject| !subject.silent_rules.is_empty())
        .collect()
}
