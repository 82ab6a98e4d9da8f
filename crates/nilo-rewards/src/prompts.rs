//! The history of each prompt: is it solved now, was it before, and did it get lost again?
//!
//! A prompt counts as solved at a visit when at least one of its scored answers is a success.
//! A visit without a scored answer changes nothing.

use std::collections::HashMap;

use serde::Serialize;

use super::levels::Levels;
use super::moments::mean;

/// One prompt's visits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PromptRecord {
    /// Visits with a scored answer.
    pub visits: u32,
    /// Whether the last visit solved it.
    pub solved: bool,
    /// Share of successes at the first visit.
    pub first_pass_rate: f64,
    /// Share of successes at the last visit.
    pub last_pass_rate: f64,
    /// Times it went from solved to unsolved.
    pub flips_to_unsolved: u32,
    /// Times it went from unsolved to solved.
    pub flips_to_solved: u32,
}

/// All prompts together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Prompts {
    /// Prompts seen with a scored answer.
    pub prompts: usize,
    /// Prompts that their last visit solved.
    pub solved: usize,
    /// Prompts solved at some visit, but not at the last.
    pub forgotten: usize,
    /// Times a prompt went from solved to unsolved.
    pub flips_to_unsolved: u64,
    /// Times a prompt went from unsolved to solved.
    pub flips_to_solved: u64,
    /// Prompts seen twice or more, by tenths of the success rate at their first visit; empty tenths are left out.
    pub by_first_pass_rate: Vec<DifficultyBand>,
}

/// Prompts that began about equally difficult.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DifficultyBand {
    /// Success rate at the first visit, from here …
    pub from: f64,
    /// … to below here; the last band includes one.
    pub to: f64,
    /// How many prompts.
    pub prompts: usize,
    /// Mean success rate at the first visit.
    pub first_pass_rate: Option<f64>,
    /// Mean success rate at the last visit.
    pub last_pass_rate: Option<f64>,
}

/// Every prompt's record, in a few dozen bytes besides its name.
#[derive(Debug, Clone, Default)]
pub struct PromptTable {
    records: HashMap<String, PromptRecord>,
}

impl PromptTable {
    /// Notes a visit to a prompt.
    pub fn visit(&mut self, prompt: &str, scored: &[f64], levels: &Levels) {
        if scored.is_empty() {
            return;
        }
        let right = scored.iter().filter(|r| levels.is_success(**r)).count();
        let pass_rate = right as f64 / scored.len() as f64;
        let solved = right > 0;
        let Some(record) = self.records.get_mut(prompt) else {
            let first = PromptRecord {
                visits: 1,
                solved,
                first_pass_rate: pass_rate,
                last_pass_rate: pass_rate,
                flips_to_unsolved: 0,
                flips_to_solved: 0,
            };
            self.records.insert(prompt.to_owned(), first);
            return;
        };
        record.visits = record.visits.saturating_add(1);
        match (record.solved, solved) {
            (true, false) => record.flips_to_unsolved += 1,
            (false, true) => record.flips_to_solved += 1,
            _ => {}
        }
        record.solved = solved;
        record.last_pass_rate = pass_rate;
    }

    /// One prompt's record.
    pub fn get(&self, prompt: &str) -> Option<&PromptRecord> {
        self.records.get(prompt)
    }

    /// All prompts together; `None` when no prompt was ever named.
    pub fn summary(&self) -> Option<Prompts> {
        if self.records.is_empty() {
            return None;
        }
        let mut prompts = Prompts {
            prompts: self.records.len(),
            ..Prompts::default()
        };
        let mut tenths: [Vec<(f64, f64)>; 10] = Default::default();
        for record in self.records.values() {
            prompts.solved += usize::from(record.solved);
            prompts.forgotten += usize::from(!record.solved && record.flips_to_unsolved > 0);
            prompts.flips_to_unsolved += u64::from(record.flips_to_unsolved);
            prompts.flips_to_solved += u64::from(record.flips_to_solved);
            if record.visits > 1 {
                let tenth = ((record.first_pass_rate * 10.0) as usize).min(9);
                tenths[tenth].push((record.first_pass_rate, record.last_pass_rate));
            }
        }
        prompts.by_first_pass_rate = tenths
            .into_iter()
            .enumerate()
            .filter(|(_, rates)| !rates.is_empty())
            .map(|(tenth, rates)| band(tenth, rates))
            .collect();
        Some(prompts)
    }
}

fn band(tenth: usize, rates: Vec<(f64, f64)>) -> DifficultyBand {
    let (first, last): (Vec<f64>, Vec<f64>) = rates.into_iter().unzip();
    DifficultyBand {
        from: tenth as f64 / 10.0,
        to: (tenth + 1) as f64 / 10.0,
        prompts: first.len(),
        first_pass_rate: mean(&first),
        last_pass_rate: mean(&last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::Observed;
    use crate::settings::RewardSettings;

    #[test]
    fn a_prompt_that_is_lost_again_is_counted() {
        let levels = Levels::resolve(&RewardSettings::default(), Observed::default());
        let mut book = PromptTable::default();
        assert_eq!(book.summary(), None);
        for rewards in [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]] {
            book.visit("p1", &rewards, &levels);
        }
        book.visit("p1", &[], &levels);
        book.visit("p2", &[1.0], &levels);
        let record = book.get("p1").unwrap();
        assert_eq!(record.visits, 4);
        assert!(!record.solved);
        let summary = book.summary().unwrap();
        assert_eq!((summary.prompts, summary.solved), (2, 1));
        assert_eq!(summary.forgotten, 1);
        assert_eq!((summary.flips_to_unsolved, summary.flips_to_solved), (1, 1));
        // Only p1 was seen twice; it began in the first tenth.
        assert_eq!(summary.by_first_pass_rate.len(), 1);
        assert_eq!(summary.by_first_pass_rate[0].from, 0.0);
        assert_eq!(summary.by_first_pass_rate[0].last_pass_rate, Some(0.0));
    }
}
