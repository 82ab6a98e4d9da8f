//! How much a growth was, how long it lasted, and its rate.

use super::{MIB, reading};
use crate::{Forecaster, Growth, GrowthKind, Reading};

/// Ten readings a second, in MiB; gives what is said of growth once a second.
fn growth_by_second(
    secs: u32,
    level: impl Fn(f64) -> f64,
) -> Vec<(f64, Growth, impl Fn(f64) -> f64)> {
    let mut forecaster = Forecaster::new();
    let mut told = Vec::new();
    let mut levels: Vec<f64> = Vec::new();
    for at in 0..secs * 10 {
        let t = f64::from(at) / 10.0;
        levels.push(level(t) * MIB);
        forecaster.observe(&Reading {
            used_bytes: level(t) * MIB,
            limit_bytes: None,
            ..reading(t, 0.0)
        });
        if at % 10 == 9
            && let Some(growth) = forecaster.growth(5.0 * MIB)
        {
            let known = levels.clone();
            // From the lowest to the highest level since then.
            let range_since = move |since: f64| {
                let from = ((since * 10.0).floor().max(0.0) as usize).min(known.len() - 1);
                let since = &known[from..];
                let fold =
                    |start: f64, pick: fn(f64, f64) -> f64| since.iter().copied().fold(start, pick);
                fold(f64::NEG_INFINITY, f64::max) - fold(f64::INFINITY, f64::min)
            };
            told.push((t, growth, range_since));
        }
    }
    told
}

#[test]
fn growth_is_told_as_long_as_it_lasted_and_pauses_when_it_stops() {
    // A program begins, stands still, grows for 27 s and stands still again.
    let level = |t: f64| (20.0 + 20.0 * t).min(60.0) + 80.0 * ((t - 50.0) / 27.0).clamp(0.0, 1.0);
    let told = growth_by_second(140, level);
    let leaks: Vec<_> = told
        .iter()
        .filter(|(t, growth, _)| *t > 60.0 && growth.kind == GrowthKind::Leak)
        .collect();
    assert!(!leaks.is_empty());
    for (t, growth, _) in leaks {
        let lasted = t.min(77.0) - 50.0;
        assert!(
            (0.75 * lasted..1.15 * lasted + 1.0).contains(&growth.lasted_secs),
            "{t}: {growth:?}"
        );
        assert!(growth.grown_bytes <= 80.5 * MIB, "{t}: {growth:?}");
        assert!(*t < 80.5 || growth.paused_secs > 0.0, "{t}: {growth:?}");
    }
}

#[test]
fn growth_is_never_told_as_more_than_the_level_rose() {
    let shapes: [fn(f64) -> f64; 5] = [
        // Loads fast, then copies page after page, ever more slowly, and gives some back.
        |t| (60.0 * t).min(300.0) + 660.0 * (1.0 - (-(t - 6.0).max(0.0) / 25.0).exp()),
        |t| (60.0 * t).min(300.0) + 16.0 * (t - 6.0).clamp(0.0, 40.0),
        |t| 100.0 + 3.0 * t + 40.0 * ((t * 0.9) % 1.0),
        |t| 100.0 + 0.04 * t * t,
        |t| 50.0 + 30.0 * (t / 7.0).floor(),
    ];
    for (shape, level) in shapes.into_iter().enumerate() {
        let told = growth_by_second(80, level);
        assert!(!told.is_empty(), "shape {shape}");
        for (t, growth, range_since) in told {
            let since = t - growth.began_secs_ago();
            let most = range_since(since);
            assert!(
                growth.grown_bytes <= most + 0.5 * MIB,
                "shape {shape} at {t}: {growth:?}, {} since {since}",
                most / MIB
            );
            assert!(
                growth.lasted_secs <= t + 0.2,
                "shape {shape} at {t}: {growth:?}"
            );
        }
    }
}

/// Ten readings a second of a program that loads `loaded` MiB and then keeps 5 MiB a second, in pieces.
fn growth_after_start_up(secs: u32, loaded: f64, piece: f64) -> Growth {
    let mut forecaster = Forecaster::new();
    for tick in 0..10 * secs {
        let t = f64::from(tick) / 10.0;
        let kept = (5.0 * (t - 1.0).max(0.0) / piece).floor() * piece;
        forecaster.observe(&Reading {
            time_nanos: u64::from(tick) * 100_000_000,
            used_bytes: (7.0 + loaded * t.min(1.0) + kept) * MIB,
            ..Reading::default()
        });
    }
    forecaster.growth(MIB).expect("it grows")
}

#[test]
fn amount_and_time_of_a_growth_give_a_rate_within_its_interval() {
    for secs in 30..70 {
        for (loaded, piece) in [(0.0, 0.5), (5.0, 0.5), (40.0, 0.5), (40.0, 8.0)] {
            let growth = growth_after_start_up(secs, loaded, piece);
            let mean = growth.grown_bytes / growth.lasted_secs;
            let interval = 0.9999 * growth.bytes_per_sec_low..1.0001 * growth.bytes_per_sec_high;
            assert!(interval.contains(&mean), "{secs} s: {mean} in {growth:?}");
            assert!(interval.contains(&growth.bytes_per_sec), "{growth:?}");
            let off = (mean / MIB - 5.0).abs();
            assert!(off < 0.25, "{secs} s, {loaded} MiB, {piece}: {growth:?}");
        }
    }
}

#[test]
fn what_was_loaded_before_a_growth_is_not_part_of_it() {
    // 500 MiB within two seconds, then 2 MiB a second.
    let level = |t: f64| 250.0 * t.min(2.0) + 2.0 * (t - 2.0).max(0.0);
    for (t, growth, _) in growth_by_second(100, level) {
        if t > 30.0 {
            assert!(
                growth.grown_bytes <= 2.0 * (t - 1.0) * MIB,
                "{t}: {growth:?}"
            );
            assert!((t - growth.began_secs_ago()) > 1.0, "{t}: {growth:?}");
        }
    }
}
