//! The order of answers inside their groups: what the best, the second, … the last one gets, and how often order is undecided.

use std::collections::BTreeMap;

use serde::Serialize;

use super::correlation::{pairs_among, tied_pairs};
use super::moments::finite;

/// What the answers at one place of their groups' order have in common; place 1 is the best.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RankPlace {
    /// Mean reward at this place.
    pub mean_reward: f64,
    /// Groups with so many scored answers.
    pub count: usize,
    /// How many of the answers here share their reward with another one of their group.
    pub tied: usize,
    /// Mean of the ranks of the answers here, where equal rewards share the mean of the places they take up.
    pub mean_rank: f64,
}

/// Order within groups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// For each place from 1 (best) to N.
    ///
    /// Equal rewards stand side by side, so which of them comes first changes nothing.
    pub rank_distribution: BTreeMap<usize, RankPlace>,
    /// Mean difference between neighbours in a group's order, ties being zero.
    pub mean_rank_gap: Option<f64>,
    /// Largest such difference.
    pub max_rank_gap: Option<f64>,
    /// Pairs of equal rewards among the pairs within groups.
    pub tied_pair_share: Option<f64>,
    /// Mean number of different rewards in a group.
    pub distinct_rewards_mean: Option<f64>,
}

/// Describes the order within groups; `groups` are ascending and finite.
pub fn describe_ranking(groups: &[Vec<f64>]) -> Ranking {
    let mut places: BTreeMap<usize, RankPlace> = BTreeMap::new();
    let (mut gaps, mut gap_sum, mut widest) = (0usize, 0.0, None);
    let (mut pairs, mut ties) = (0.0, 0.0);
    let (mut scored_groups, mut distinct) = (0usize, 0usize);
    for group in groups.iter().filter(|group| !group.is_empty()) {
        for neighbours in group.windows(2) {
            let gap = neighbours[1] - neighbours[0];
            gaps += 1;
            gap_sum += gap;
            widest = Some(f64::max(widest.unwrap_or(0.0), gap));
        }
        pairs += pairs_among(group.len());
        ties += tied_pairs(group, |a, b| a == b);
        scored_groups += 1;
        let best_first: Vec<f64> = group.iter().rev().copied().collect();
        let mut better = 0;
        for tied in best_first.chunk_by(|a, b| a == b) {
            distinct += 1;
            let shared_rank = better as f64 + (tied.len() + 1) as f64 / 2.0;
            for reward in tied {
                better += 1;
                let place = places.entry(better).or_default();
                place.count += 1;
                place.tied += usize::from(tied.len() > 1);
                let weight = 1.0 / place.count as f64;
                place.mean_reward += reward * weight - place.mean_reward * weight;
                place.mean_rank += (shared_rank - place.mean_rank) * weight;
            }
        }
    }
    Ranking {
        rank_distribution: places,
        mean_rank_gap: finite(gap_sum / gaps as f64),
        max_rank_gap: widest.and_then(finite),
        tied_pair_share: finite(ties / pairs),
        distinct_rewards_mean: finite(distinct as f64 / scored_groups as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_group_ranks_its_own_rewards() {
        let ranking = describe_ranking(&[vec![0.25, 0.5, 0.625, 1.0]]);
        let rewards: Vec<f64> = ranking
            .rank_distribution
            .values()
            .map(|place| place.mean_reward)
            .collect();
        assert_eq!(rewards, [1.0, 0.625, 0.5, 0.25]);
        assert_eq!(ranking.rank_distribution[&4].mean_rank, 4.0);
        assert_eq!(ranking.mean_rank_gap, Some(0.25));
        assert_eq!(ranking.max_rank_gap, Some(0.375));
        assert_eq!(ranking.tied_pair_share, Some(0.0));
        assert_eq!(ranking.distinct_rewards_mean, Some(4.0));
    }

    #[test]
    fn ties_share_the_average_rank() {
        let ranking = describe_ranking(&[vec![0.0, 1.0, 1.0], vec![0.0, 0.5]]);
        let first = &ranking.rank_distribution[&1];
        assert_eq!((first.count, first.tied), (2, 1));
        assert_eq!(first.mean_reward, 0.75);
        // 1.5 for the two that share the first place, 1 in the other group.
        assert_eq!(first.mean_rank, 1.25);
        assert_eq!(ranking.rank_distribution[&3].count, 1);
        assert_eq!(ranking.tied_pair_share, Some(0.25));
    }

    #[test]
    fn nothing_has_no_order() {
        let ranking = describe_ranking(&[vec![]]);
        assert!(ranking.rank_distribution.is_empty());
        assert_eq!(ranking.mean_rank_gap, None);
        assert_eq!(ranking.tied_pair_share, None);
        assert_eq!(ranking.distinct_rewards_mean, None);
    }
}
