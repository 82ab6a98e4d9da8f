//! Priorities that can be drawn from in proportion, in a tree sixteen wide.
//!
//! A node is computed from its children anew with each change, so sums never drift; leaves are four bytes, the rest a fifteenth more.

const WIDTH: usize = 16;

/// Sums and minima over priorities; those of empty places are zero and count for no minimum.
#[derive(Debug, Clone, Default)]
pub(crate) struct SumTree {
    leaves: Vec<f32>,
    /// From the level above the leaves up to the root, which has one node.
    levels: Vec<Vec<Node>>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    sum: f64,
    least: f32,
}

const EMPTY: Node = Node {
    sum: 0.0,
    least: f32::INFINITY,
};

impl SumTree {
    pub(crate) fn total(&self) -> f64 {
        self.levels.last().map_or(0.0, |root| root[0].sum)
    }

    /// The smallest priority that is not zero.
    pub(crate) fn least(&self) -> Option<f32> {
        self.levels
            .last()
            .map(|root| root[0].least)
            .filter(|least| least.is_finite())
    }

    pub(crate) fn get(&self, place: usize) -> f32 {
        self.leaves.get(place).copied().unwrap_or(0.0)
    }

    pub(crate) fn set(&mut self, place: usize, priority: f32) {
        if place >= self.leaves.len() {
            self.grow(place + 1);
        }
        self.leaves[place] = priority;
        let mut place = place / WIDTH;
        let mut node = node_of(&self.leaves[place * WIDTH..][..WIDTH]);
        for level in 0..self.levels.len() {
            self.levels[level][place] = node;
            place /= WIDTH;
            node = combined(&self.levels[level], place);
        }
    }

    /// The place where the sum of those before it passes `target`, which is below the total.
    pub(crate) fn find(&self, target: f64) -> usize {
        let mut target = target;
        let mut place = 0;
        for level in self.levels.iter().rev().skip(1) {
            place = descend(place, &mut target, |child| {
                level.get(child).map_or(0.0, |node| node.sum)
            });
        }
        descend(place, &mut target, |child| f64::from(self.get(child)))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.leaves.capacity() * 4
            + self
                .levels
                .iter()
                .map(|level| level.capacity() * size_of::<Node>())
                .sum::<usize>()
    }

    fn grow(&mut self, places: usize) {
        self.leaves
            .resize((places + places / 4).next_multiple_of(WIDTH), 0.0);
        let mut level: Vec<Node> = self.leaves.chunks_exact(WIDTH).map(node_of).collect();
        self.levels.clear();
        while level.len() > 1 {
            let above = (0..level.len().div_ceil(WIDTH))
                .map(|parent| combined(&level, parent))
                .collect();
            self.levels.push(std::mem::replace(&mut level, above));
        }
        self.levels.push(level);
    }
}

fn node_of(priorities: &[f32]) -> Node {
    priorities.iter().fold(EMPTY, |node, &priority| Node {
        sum: node.sum + f64::from(priority),
        least: if priority > 0.0 {
            node.least.min(priority)
        } else {
            node.least
        },
    })
}

fn combined(children: &[Node], parent: usize) -> Node {
    let begin = (parent * WIDTH).min(children.len());
    let end = (begin + WIDTH).min(children.len());
    children[begin..end].iter().fold(EMPTY, |node, child| Node {
        sum: node.sum + child.sum,
        least: node.least.min(child.least),
    })
}

/// Among the children of a node, the one whose share `target` falls into; the last that has any, where rounding leaves it beyond all.
fn descend(parent: usize, target: &mut f64, sum_of: impl Fn(usize) -> f64) -> usize {
    let mut last = (parent * WIDTH, 0.0);
    for child in parent * WIDTH..(parent + 1) * WIDTH {
        let sum = sum_of(child);
        if *target < sum {
            return child;
        }
        *target -= sum;
        if sum > 0.0 {
            last = (child, sum);
        }
    }
    // Just below its end, for the levels underneath.
    *target = last.1 * (1.0 - f64::EPSILON);
    last.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_minima_and_places_are_those_of_a_list(
            changes in prop::collection::vec((0_usize..900, prop_oneof![Just(0.0_f32), 0.01_f32..9.0]), 1..200),
            draws in prop::collection::vec(0.0_f64..1.0, 20),
        ) {
            let mut tree = SumTree::default();
            let mut list = vec![0.0_f32; 900];
            for (place, priority) in changes {
                tree.set(place, priority);
                list[place] = priority;
                prop_assert_eq!(tree.get(place), priority);
            }
            let total: f64 = list.iter().map(|&priority| f64::from(priority)).sum();
            prop_assert!((tree.total() - total).abs() <= 1e-9 * total.max(1.0));
            let least = list.iter().copied().filter(|&priority| priority > 0.0).min_by(f32::total_cmp);
            prop_assert_eq!(tree.least(), least);
            for draw in draws {
                let target = draw * tree.total();
                let found = tree.find(target);
                if total > 0.0 {
                    prop_assert!(list[found] > 0.0, "drew an empty place");
                    let before: f64 = list[..found].iter().map(|&priority| f64::from(priority)).sum();
                    prop_assert!(before <= target + 1e-6 && target <= before + f64::from(list[found]) + 1e-6);
                }
            }
        }
    }
}
