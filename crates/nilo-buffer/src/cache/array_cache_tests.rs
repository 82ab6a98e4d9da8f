//! Arrays come back from memory and from disk, and both budgets hold.

use super::*;

fn cache(max_bytes: usize, spill: Option<PathBuf>) -> ArrayCache {
    ArrayCache::new(ArrayCacheSettings {
        max_bytes,
        policy: CachePolicy::Lru,
        is_compressed: true,
        spill_folder: spill,
        max_disk_bytes: 1 << 20,
    })
}

fn noise(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..1000).map(|_| random.u8(..)).collect()
}

fn get(cache: &ArrayCache, key: u64) -> Option<Vec<u8>> {
    let mut out = vec![0; 1000];
    cache.find(key)?.read(&mut out).expect("reads");
    Some(out)
}

#[test]
fn without_a_spill_folder_the_oldest_is_gone() {
    let cache = cache(2500, None);
    assert!(cache.put(1, &noise(1), 1).expect("fits").is_empty());
    assert!(cache.put(2, &noise(2), 1).expect("fits").is_empty());
    assert_eq!(cache.put(3, &noise(3), 1).expect("evicts"), [1]);
    assert_eq!(get(&cache, 1), None);
    assert_eq!(get(&cache, 3), Some(noise(3)));
}

#[test]
fn with_a_spill_folder_it_is_read_from_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(2500, Some(folder.path().to_owned()));
    for key in 0..20 {
        assert!(cache.put(key, &noise(key), 1).expect("spills").is_empty());
    }
    for key in 0..20 {
        assert_eq!(get(&cache, key), Some(noise(key)));
    }
    let statistics = cache.statistics();
    assert_eq!(
        (statistics.memory.entries, statistics.disk_entries),
        (2, 18)
    );
    assert_eq!(
        (
            statistics.disk_hits,
            statistics.disk_bytes,
            statistics.raw_bytes
        ),
        (18, 18_000, 20_000)
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("lists").count(),
        0,
        "files have no names"
    );
}

#[test]
fn the_disk_has_a_budget_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = ArrayCache::new(ArrayCacheSettings {
        max_bytes: 1000,
        policy: CachePolicy::Lru,
        is_compressed: false,
        spill_folder: Some(folder.path().to_owned()),
        max_disk_bytes: 2000,
    });
    let gone: Vec<u64> = (0..5)
        .flat_map(|key| cache.put(key, &noise(key), 1).expect("puts"))
        .collect();
    assert_eq!(gone, [0, 1]);
    assert!(cache.remove(2) && !cache.remove(2));
    assert_eq!(cache.statistics().raw_bytes, 2000);
}

#[test]
fn numbers_are_shuffled_and_noise_is_left() {
    let numbers: Vec<u8> = (0..10_000_u32)
        .flat_map(|number| (number as f32 * 0.1).to_le_bytes())
        .collect();
    assert_eq!(best_codec(&numbers, 4), ByteCodec::ShuffleZstd);
    assert_eq!(best_codec(&noise(1), 1), ByteCodec::Raw);
    assert_eq!(best_codec(&[], 4), ByteCodec::Raw);
}

#[test]
fn what_was_found_outlives_its_place_in_the_cache() {
    let cache = cache(2500, None);
    cache.put(1, &noise(1), 1).expect("fits");
    let found = cache.find(1).expect("is there");
    cache.put(1, &[7; 10], 1).expect("replaces");
    let mut out = vec![0; 1000];
    found.read(&mut out).expect("reads");
    assert_eq!(out, noise(1));
}

#[test]
fn an_array_that_cannot_be_written_is_gone_and_not_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = cache(2500, Some(folder.path().join("missing")));
    cache.put(1, &noise(1), 1).expect("fits");
    cache.put(2, &noise(2), 1).expect("fits");
    assert!(cache.put(3, &noise(3), 1).is_err());
    assert_eq!(get(&cache, 1), None);
    assert_eq!(get(&cache, 3), Some(noise(3)));
    assert_eq!(cache.statistics().raw_bytes, 2000);
}
