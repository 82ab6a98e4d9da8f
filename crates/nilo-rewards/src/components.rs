//! Reward functions apart: what each one gives, whether it orders answers as the total does, and whether they pull together.

use std::collections::BTreeMap;

use serde::Serialize;

use super::correlation::{PairCounts, complete_pairs, pair_counts, pearson, spearman};
use super::moments::{finite_sorted, mean, sample_deviation};
use super::sheet::SheetView;

/// One reward function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Component {
    /// Mean over the answers it scored.
    pub mean: Option<f64>,
    /// Sample deviation over the answers it scored.
    pub std: Option<f64>,
    /// Answers it scored.
    pub scored: usize,
    /// Answers it did not score, or not with a finite number.
    pub unscored: usize,
    /// Kendall's tau-b with the total, over the pairs of answers within groups, all groups together.
    ///
    /// Advantages compare answers of one group only, so pairs across groups are left out.
    pub kendall_tau_b: Option<f64>,
    /// Pearson's correlation with the total, over all answers.
    pub pearson: Option<f64>,
    /// Spearman's correlation with the total, over all answers.
    pub spearman: Option<f64>,
}

/// How two reward functions go together over all answers that both scored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Correlation {
    /// Pearson's correlation.
    pub pearson: Option<f64>,
    /// Spearman's correlation.
    pub spearman: Option<f64>,
    /// Answers that both scored.
    pub samples: usize,
}

/// Correlations by the names of both functions; each pair is found from either side.
pub type Correlations = BTreeMap<String, BTreeMap<String, Correlation>>;

/// Describes each reward function and each pair of them.
pub fn describe_components(view: SheetView<'_>) -> (BTreeMap<String, Component>, Correlations) {
    let columns: Vec<(&str, Vec<f64>)> = view.components().collect();
    let components = columns
        .iter()
        .map(|(name, values)| (name.to_string(), describe(view, values)))
        .collect();
    let mut correlations = Correlations::new();
    for (index, (name, values)) in columns.iter().enumerate() {
        for (other, other_values) in &columns[index + 1..] {
            let correlation = correlate(values, other_values);
            for (from, to) in [(name, other), (other, name)] {
                correlations
                    .entry(from.to_string())
                    .or_default()
                    .insert(to.to_string(), correlation.clone());
            }
        }
    }
    (components, correlations)
}

fn describe(view: SheetView<'_>, values: &[f64]) -> Component {
    let scored = finite_sorted(values);
    let mut pairs = PairCounts::default();
    for place in view.places() {
        pairs += pair_counts(&values[place.clone()], &view.rewards()[place]);
    }
    Component {
        mean: mean(&scored),
        std: sample_deviation(&scored),
        scored: scored.len(),
        unscored: values.len() - scored.len(),
        kendall_tau_b: pairs.tau_b(),
        pearson: pearson(values, view.rewards()),
        spearman: spearman(values, view.rewards()),
    }
}

/// Correlates two columns.
pub fn correlate(left: &[f64], right: &[f64]) -> Correlation {
    Correlation {
        pearson: pearson(left, right),
        spearman: spearman(left, right),
        samples: complete_pairs(left, right).0.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::GroupBatch;
    use crate::sheet::Sheet;

    #[test]
    fn tau_pools_pairs_within_groups() {
        let rewards = [vec![1.0, 2.0, 3.0], vec![10.0, 20.0]];
        let agreeing = [vec![0.1, 0.2, 0.3], vec![0.0, 0.1]];
        // Two of three pairs agree in the first group, none in the second: (2 − 1 − 1) / 4 = 0.
        let mixed = [vec![0.1, 0.3, 0.2], vec![0.9, 0.1]];
        let batch = GroupBatch::new(&rewards)
            .with_component("agreeing", &agreeing)
            .unwrap()
            .with_component("mixed", &mixed)
            .unwrap();
        let mut sheet = Sheet::default();
        sheet.append(batch, &[1.0, 1.0]);
        let (components, correlations) = describe_components(sheet.view(None));
        assert_eq!(components["agreeing"].kendall_tau_b, Some(1.0));
        assert_eq!(components["mixed"].kendall_tau_b, Some(0.0));
        assert_eq!(correlations["mixed"]["agreeing"].samples, 5);
        assert_eq!(
            correlations["mixed"]["agreeing"],
            correlations["agreeing"]["mixed"]
        );
    }

    #[test]
    fn what_a_function_did_not_score_is_left_out() {
        let batch = GroupBatch::new(&[vec![1.0, 0.0, 1.0]])
            .with_component("style", &[vec![0.5, f64::NAN, 1.0]])
            .unwrap();
        let mut sheet = Sheet::default();
        sheet.append(batch, &[1.0]);
        let (components, _) = describe_components(sheet.view(None));
        let style = &components["style"];
        assert_eq!(
            (style.mean, style.scored, style.unscored),
            (Some(0.75), 2, 1)
        );
        assert_eq!(style.kendall_tau_b, None, "the total orders no scored pair");
    }
}
