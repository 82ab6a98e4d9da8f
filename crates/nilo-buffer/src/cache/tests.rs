//! The known answers: which policy wins on which pattern, and that budgets hold.

use proptest::prelude::*;

use super::*;

const KEYS: u64 = 2000;
const CACHED: usize = 1000;

/// The share of requests that hit, with entries of one byte.
fn hit_rate(policy: CachePolicy, requests: impl Iterator<Item = u64>) -> (f64, CachePolicy) {
    let mut cache = PolicyCache::new(CACHED, policy);
    for key in requests {
        if cache.get(key).is_none() {
            cache.insert(key, (), 1);
        }
    }
    let counts = cache.counts();
    let rate = counts.hits as f64 / (counts.hits + counts.misses) as f64;
    (rate, counts.policy)
}

fn epochs(passes: usize) -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(3);
    (0..passes).flat_map(move |_| {
        let mut keys: Vec<u64> = (0..KEYS).collect();
        random.shuffle(&mut keys);
        keys
    })
}

fn skewed(requests: usize) -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(4);
    let weights: Vec<f64> = (1..=KEYS * 5)
        .map(|rank| 1.0 / (rank as f64).powf(0.9))
        .collect();
    let sums: Vec<f64> = weights
        .iter()
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let total = sums[sums.len() - 1];
    (0..requests).map(move |_| {
        let drawn = random.f64() * total;
        sums.partition_point(|&sum| sum < drawn) as u64
    })
}

fn recent(requests: u64) -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(5);
    (0..requests).map(move |number| number / 2 + KEYS - (random.f64().powi(3) * KEYS as f64) as u64)
}

#[test]
fn pinning_hits_its_share_of_an_epoch_and_recency_does_not() {
    let pinned = hit_rate(CachePolicy::Pin, epochs(20)).0;
    assert!((0.45..0.5).contains(&pinned), "{pinned}");
    assert!(hit_rate(CachePolicy::Lru, epochs(20)).0 < 0.25);
}

#[test]
fn auto_finds_that_epochs_want_pinning() {
    let (rate, policy) = hit_rate(CachePolicy::Auto, epochs(40));
    assert_eq!(policy, CachePolicy::Pin);
    assert!(rate > 0.4, "{rate}");
}

#[test]
fn frequency_beats_recency_on_skewed_keys_and_auto_stays_with_it() {
    let frequent = hit_rate(CachePolicy::TinyLfu, skewed(100_000)).0;
    let recent = hit_rate(CachePolicy::Lru, skewed(100_000)).0;
    assert!(frequent > recent + 0.03, "{frequent} {recent}");
    let (rate, policy) = hit_rate(CachePolicy::Auto, skewed(100_000));
    assert_eq!(policy, CachePolicy::TinyLfu);
    assert!(rate > frequent - 0.02, "{rate} {frequent}");
}

#[test]
fn auto_finds_that_recent_keys_want_recency() {
    let (rate, policy) = hit_rate(CachePolicy::Auto, recent(100_000));
    assert_eq!(policy, CachePolicy::Lru);
    assert!(
        rate > hit_rate(CachePolicy::TinyLfu, recent(100_000)).0,
        "{rate}"
    );
}

proptest! {
    #[test]
    fn the_budget_holds_and_what_is_in_is_what_was_put(
        policy in prop::sample::select(vec![CachePolicy::Auto, CachePolicy::Pin, CachePolicy::Lru, CachePolicy::TinyLfu]),
        requests in prop::collection::vec((0_u64..40, 1_usize..30, prop::bool::weighted(0.1)), 0..400),
    ) {
        let mut cache = PolicyCache::new(100, policy);
        let mut latest = HashMap::new();
        for (key, bytes, is_removed) in requests {
            if is_removed {
                cache.remove(key);
                prop_assert!(!cache.contains(key));
            } else if let Some(&value) = cache.get(key) {
                prop_assert_eq!(Some(&value), latest.get(&key));
            } else {
                let value = bytes * 7;
                latest.insert(key, value);
                let held = cache.entries.len();
                let gone = cache.insert(key, value, bytes).len();
                prop_assert_eq!(cache.entries.len() + gone, held + 1);
            }
            let used: usize = cache.entries.values().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(used, cache.counts().used_bytes);
            prop_assert!(used <= 100);
        }
    }
}
