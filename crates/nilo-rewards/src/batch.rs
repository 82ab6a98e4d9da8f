//! The groups of one step as they are handed in: nested lists checked for shape and laid flat.

use std::collections::BTreeMap;

use thiserror::Error;

/// A column that does not fit the rewards.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// Another number of groups.
    #[error("{column} has {found} groups where rewards has {expected}")]
    Groups {
        /// The column.
        column: String,
        /// Groups of rewards.
        expected: usize,
        /// Groups of the column.
        found: usize,
    },
    /// Another number of values in a group.
    #[error("{column} has {found} values in group {group} where rewards has {expected}")]
    Values {
        /// The column.
        column: String,
        /// The group, counted from zero.
        group: usize,
        /// Rewards in that group.
        expected: usize,
        /// Values of the column in that group.
        found: usize,
    },
}

/// Groups of rewards with what else is known about each answer; a missing value is NaN.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupBatch {
    pub(super) sizes: Vec<usize>,
    pub(super) rewards: Vec<f64>,
    pub(super) components: BTreeMap<String, Vec<f64>>,
    pub(super) lengths: Option<Vec<f64>>,
    pub(super) advantages: Option<Vec<f64>>,
    pub(super) truncated: Option<Vec<f64>>,
    pub(super) prompts: Option<Vec<String>>,
}

impl GroupBatch {
    /// Groups of rewards, one list for each prompt; sizes may differ.
    pub fn new(groups: &[Vec<f64>]) -> Self {
        Self {
            sizes: groups.iter().map(Vec::len).collect(),
            rewards: groups.concat(),
            ..Self::default()
        }
    }

    /// Adds one reward function's own values.
    pub fn with_component(mut self, name: &str, values: &[Vec<f64>]) -> Result<Self, ShapeError> {
        let flat = self.flattened(&format!("component '{name}'"), values)?;
        self.components.insert(name.to_owned(), flat);
        Ok(self)
    }

    /// Adds the length of each answer.
    pub fn with_lengths(mut self, values: &[Vec<f64>]) -> Result<Self, ShapeError> {
        self.lengths = Some(self.flattened("lengths", values)?);
        Ok(self)
    }

    /// Adds the advantages the trainer used; otherwise they are computed.
    pub fn with_advantages(mut self, values: &[Vec<f64>]) -> Result<Self, ShapeError> {
        self.advantages = Some(self.flattened("advantages", values)?);
        Ok(self)
    }

    /// Adds whether each answer was cut off at the length limit: 1, 0, or NaN for unknown.
    pub fn with_truncated(mut self, values: &[Vec<f64>]) -> Result<Self, ShapeError> {
        self.truncated = Some(self.flattened("truncated", values)?);
        Ok(self)
    }

    /// Adds the prompt of each group.
    pub fn with_prompts(mut self, prompts: Vec<String>) -> Result<Self, ShapeError> {
        self.check_groups("prompt_ids", prompts.len())?;
        self.prompts = Some(prompts);
        Ok(self)
    }

    /// How many groups there are.
    pub fn group_count(&self) -> usize {
        self.sizes.len()
    }

    fn check_groups(&self, column: &str, found: usize) -> Result<(), ShapeError> {
        let expected = self.sizes.len();
        if found == expected {
            return Ok(());
        }
        Err(ShapeError::Groups {
            column: column.to_owned(),
            expected,
            found,
        })
    }

    fn flattened(&self, column: &str, values: &[Vec<f64>]) -> Result<Vec<f64>, ShapeError> {
        self.check_groups(column, values.len())?;
        for (group, (expected, found)) in self.sizes.iter().zip(values).enumerate() {
            if *expected != found.len() {
                return Err(ShapeError::Values {
                    column: column.to_owned(),
                    group,
                    expected: *expected,
                    found: found.len(),
                });
            }
        }
        Ok(values.concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_another_shape_is_refused_by_name() {
        let batch = GroupBatch::new(&[vec![1.0, 0.0], vec![0.5]]);
        let error = batch
            .clone()
            .with_component("format", &[vec![1.0, 0.0], vec![0.5, 0.5]])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "component 'format' has 2 values in group 1 where rewards has 1"
        );
        let error = batch.with_lengths(&[vec![1.0, 2.0]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "lengths has 1 groups where rewards has 2"
        );
    }
}
