//! Where groups are kept: flat columns of doubles and the place at which each group begins.
//!
//! A column exists from the first time it is given; before and between, its values are NaN.

use std::collections::BTreeMap;
use std::ops::Range;

use super::batch::GroupBatch;

/// A group's place in the columns.
#[derive(Debug, Clone)]
struct ColumnPlace {
    start: usize,
    /// What distances from the group's mean are divided by to make advantages; NaN where there is none.
    divisor: f64,
}

/// Groups laid end to end.
#[derive(Debug, Clone, Default)]
pub struct Sheet {
    places: Vec<ColumnPlace>,
    rewards: Vec<f64>,
    lengths: Vec<f64>,
    advantages: Vec<f64>,
    truncated: Vec<f64>,
    components: BTreeMap<String, Vec<f64>>,
}

/// A stretch of neighbouring groups, looked at.
#[derive(Debug, Clone, Copy)]
pub struct SheetView<'a> {
    sheet: &'a Sheet,
    first_group: usize,
}

impl Sheet {
    /// Appends groups, each with what its advantages are divided by.
    pub fn append(&mut self, batch: GroupBatch, divisors: &[f64]) {
        let before = self.rewards.len();
        let mut start = before;
        for (size, divisor) in batch.sizes.iter().zip(divisors) {
            self.places.push(ColumnPlace {
                start,
                divisor: *divisor,
            });
            start += size;
        }
        self.rewards.extend_from_slice(&batch.rewards);
        for (column, values) in [
            (&mut self.lengths, batch.lengths),
            (&mut self.advantages, batch.advantages),
            (&mut self.truncated, batch.truncated),
        ] {
            if let Some(values) = values {
                column.resize(before, f64::NAN);
                column.extend(values);
            }
        }
        for (name, values) in batch.components {
            let column = self.components.entry(name).or_default();
            column.resize(before, f64::NAN);
            column.extend(values);
        }
    }

    /// How many groups are kept.
    pub fn group_count(&self) -> usize {
        self.places.len()
    }

    /// How many rewards are kept, missing ones included.
    pub fn reward_count(&self) -> usize {
        self.rewards.len()
    }

    /// Forgets the oldest groups until at most `keep` rewards are left; answers how many groups went.
    pub fn shrink_to(&mut self, keep: usize) -> usize {
        let excess = self.rewards.len().saturating_sub(keep);
        let dropped = self
            .places
            .partition_point(|place| place.start < excess)
            // The newest group stays, whatever its size.
            .min(self.places.len().saturating_sub(1));
        let Some(start) = self.places.get(dropped).map(|place| place.start) else {
            return 0;
        };
        self.places.drain(..dropped);
        for place in &mut self.places {
            place.start -= start;
        }
        let columns = [
            &mut self.rewards,
            &mut self.lengths,
            &mut self.advantages,
            &mut self.truncated,
        ];
        for column in columns.into_iter().chain(self.components.values_mut()) {
            column.drain(..start.min(column.len()));
        }
        self.components.retain(|_, column| !column.is_empty());
        dropped
    }

    /// The newest groups, or all of them.
    pub fn view(&self, newest: Option<usize>) -> SheetView<'_> {
        let count = newest.unwrap_or(usize::MAX).min(self.places.len());
        SheetView {
            sheet: self,
            first_group: self.places.len() - count,
        }
    }
}

impl<'a> SheetView<'a> {
    /// How many groups are in view.
    pub fn group_count(self) -> usize {
        self.sheet.places.len() - self.first_group
    }

    /// All rewards in view, missing ones included.
    pub fn rewards(self) -> &'a [f64] {
        &self.sheet.rewards[self.start()..]
    }

    /// The rewards of each group.
    pub fn groups(self) -> impl Iterator<Item = &'a [f64]> + Clone {
        self.ranges().map(|range| &self.sheet.rewards[range])
    }

    /// Each group's place in a column of this view.
    pub fn places(self) -> impl Iterator<Item = Range<usize>> + Clone {
        let start = self.start();
        self.ranges()
            .map(move |range| range.start - start..range.end - start)
    }

    /// What each group's advantages are divided by.
    pub fn divisors(self) -> impl Iterator<Item = f64> + Clone {
        self.sheet.places[self.first_group..]
            .iter()
            .map(|place| place.divisor)
    }

    /// Lengths, one for each reward; `None` where none were given.
    pub fn lengths(self) -> Option<Vec<f64>> {
        self.column(&self.sheet.lengths)
    }

    /// The trainer's advantages, one for each reward.
    pub fn advantages(self) -> Option<Vec<f64>> {
        self.column(&self.sheet.advantages)
    }

    /// Truncation flags, one for each reward.
    pub fn truncated(self) -> Option<Vec<f64>> {
        self.column(&self.sheet.truncated)
    }

    /// The values of each reward function that has any in view.
    pub fn components(self) -> impl Iterator<Item = (&'a str, Vec<f64>)> {
        self.sheet
            .components
            .iter()
            .filter_map(move |(name, column)| Some((name.as_str(), self.column(column)?)))
    }

    fn start(self) -> usize {
        self.sheet
            .places
            .get(self.first_group)
            .map_or(self.sheet.rewards.len(), |place| place.start)
    }

    fn ranges(self) -> impl Iterator<Item = Range<usize>> + Clone {
        let places = &self.sheet.places[self.first_group..];
        let ends = places
            .iter()
            .skip(1)
            .map(|place| place.start)
            .chain([self.sheet.rewards.len()]);
        places.iter().zip(ends).map(|(place, end)| place.start..end)
    }

    /// The part of a column in view, filled up to the length of the rewards; `None` where it has no value there.
    fn column(self, column: &[f64]) -> Option<Vec<f64>> {
        let mut values = column.get(self.start()..).unwrap_or_default().to_vec();
        values.resize(self.rewards().len(), f64::NAN);
        values.iter().any(|value| !value.is_nan()).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(groups: &[Vec<f64>]) -> GroupBatch {
        GroupBatch::new(groups)
    }

    #[test]
    fn a_column_given_late_is_missing_before() {
        let mut sheet = Sheet::default();
        sheet.append(batch(&[vec![1.0, 2.0]]), &[1.0]);
        let second = batch(&[vec![3.0]]).with_lengths(&[vec![30.0]]).unwrap();
        sheet.append(second, &[1.0]);
        sheet.append(batch(&[vec![4.0]]), &[1.0]);
        let lengths = sheet.view(None).lengths().unwrap();
        assert!(lengths[0].is_nan() && lengths[1].is_nan() && lengths[3].is_nan());
        assert_eq!(lengths[2], 30.0);
        assert_eq!(sheet.view(Some(1)).lengths(), None);
    }

    #[test]
    fn the_oldest_groups_go_first_and_are_counted() {
        let mut sheet = Sheet::default();
        for value in 0..5 {
            let group = vec![value as f64; 3];
            let with_length = batch(std::slice::from_ref(&group))
                .with_lengths(std::slice::from_ref(&group))
                .unwrap();
            sheet.append(with_length, &[1.0]);
        }
        assert_eq!(sheet.shrink_to(7), 3);
        assert_eq!(sheet.group_count(), 2);
        let groups: Vec<&[f64]> = sheet.view(None).groups().collect();
        assert_eq!(groups, [&[3.0; 3][..], &[4.0; 3]]);
        assert_eq!(sheet.view(None).lengths().unwrap()[..3], [3.0; 3]);
        assert_eq!(sheet.shrink_to(0), 1, "the newest group stays");
    }

    #[test]
    fn a_view_of_nothing_is_empty() {
        let sheet = Sheet::default();
        assert_eq!(sheet.view(None).group_count(), 0);
        assert_eq!(sheet.view(Some(3)).groups().count(), 0);
    }
}
