//! The forecaster as a whole: what must be said, what must not be said, and what must not happen.

use proptest::prelude::*;

use super::super::{Cause, Forecaster, Growth, GrowthKind, Reading, RiskLevel};

const GIB: f64 = 1073741824.0;
const MIB: f64 = 1048576.0;

fn reading(secs: f64, used: f64) -> Reading {
    Reading {
        time_nanos: (secs * 1e9) as u64,
        used_bytes: used * GIB,
        limit_bytes: Some(16.0 * GIB),
        ..Reading::default()
    }
}

/// Feeds one reading a second and gives the first second at which the level was high.
fn watch(forecaster: &mut Forecaster, secs: u32, reading: impl Fn(f64) -> Reading) -> Option<u32> {
    let mut alarm = None;
    for second in 0..secs {
        forecaster.observe(&reading(f64::from(second)));
        if forecaster.forecast().level >= RiskLevel::High {
            alarm.get_or_insert(second);
        }
    }
    alarm
}

fn alarm(secs: u32, reading: impl Fn(f64) -> Reading) -> Option<u32> {
    watch(&mut Forecaster::new(), secs, reading)
}

#[test]
fn a_steady_leak_is_foretold_with_its_time() {
    let mut forecaster = Forecaster::new();
    // 4 GiB at first, 16 GiB after 2400 s.
    let alarm = watch(&mut forecaster, 2000, |t| reading(t, 4.0 + t * 0.005)).unwrap();
    assert!((1750..1900).contains(&alarm), "{alarm}");
    let forecast = forecaster.forecast();
    let (low, high) = (
        forecast.seconds_low.unwrap(),
        forecast.seconds_high.unwrap(),
    );
    assert!(low < 400.0 && 400.0 < high, "{forecast:?}");
    assert!(forecast.confidence > 0.8);
    assert_eq!(forecast.cause, Some(Cause::Growth));
}

#[test]
fn a_sawtooth_under_the_limit_is_calm() {
    assert_eq!(alarm(3600, |t| reading(t, 6.0 + (t % 40.0) * 0.2)), None);
}

#[test]
fn a_plateau_near_the_limit_is_calm() {
    let level = |t: f64| 14.8 - 12.0 * (-t / 90.0).exp();
    assert_eq!(alarm(3600, |t| reading(t, level(t))), None);
}

#[test]
fn a_cache_full_to_the_brim_is_calm_while_little_is_allocated() {
    let torch = |t: f64| Reading {
        held_bytes: Some((3.0 + (t % 3.0)) * GIB),
        ..reading(t, (4.0 + (t / 20.0).floor() * 3.0).min(15.9))
    };
    assert_eq!(alarm(1800, torch), None);
}

#[test]
fn a_reserve_that_creeps_to_the_limit_is_fragmentation() {
    let mut forecaster = Forecaster::new();
    let torch = |t: f64| Reading {
        held_bytes: Some((5.0 + (t % 3.0)) * GIB),
        ..reading(t, 6.0 + (t / 45.0).floor() * 0.2)
    };
    assert!(watch(&mut forecaster, 2100, torch).is_some());
    assert_eq!(forecaster.forecast().cause, Some(Cause::Fragmentation));
}

#[test]
fn workers_that_are_replaced_each_epoch_alarm_nobody_after_the_first() {
    let epoch = |t: f64| t % 600.0 * 0.012;
    let workers = |t: f64| Reading {
        children_bytes: Some((1.0 + epoch(t)) * GIB),
        ..reading(t, 4.0 + epoch(t))
    };
    assert_eq!(alarm(3600, workers), None);
}

#[test]
fn a_slow_leak_under_recurring_spikes_is_foretold_from_the_spikes() {
    let mut forecaster = Forecaster::new();
    let spiky = |t: f64| {
        let spike = if t % 300.0 < 8.0 { 4.0 } else { 0.0 };
        reading(t, 5.0 + t * 0.003 + spike)
    };
    // The base alone would reach the limit after 3,667 s; with a spike on top it is 2,333 s.
    let alarm = watch(&mut forecaster, 2300, spiky).unwrap();
    assert!((1500..2300).contains(&alarm), "{alarm}");
    assert_eq!(forecaster.forecast().cause, Some(Cause::Peaks));
}

#[test]
fn full_memory_with_free_swap_is_calm_and_filling_swap_is_not() {
    let swapping = |t: f64| Reading {
        swap_total_bytes: Some(8.0 * GIB),
        swap_used_bytes: Some(((t - 400.0).max(0.0) * 0.004).min(8.0) * GIB),
        ..reading(t, (8.0 + t * 0.02).min(15.7))
    };
    let alarm = alarm(2400, swapping).unwrap();
    assert!(alarm > 1700, "{alarm}");
}

#[test]
fn a_neighbour_is_named() {
    let mut forecaster = Forecaster::new();
    let host = |t: f64| Reading {
        own_bytes: Some(3.0 * GIB),
        ..reading(t, 6.0 + t * 0.005)
    };
    assert!(watch(&mut forecaster, 1900, host).is_some());
    assert_eq!(forecaster.forecast().cause, Some(Cause::Neighbour));
}

#[test]
fn a_limit_that_is_raised_ends_the_alarm() {
    let mut forecaster = Forecaster::new();
    watch(&mut forecaster, 2200, |t| reading(t, 4.0 + t * 0.005));
    assert!(forecaster.forecast().level >= RiskLevel::High);
    for second in 2200..2400 {
        let t = f64::from(second);
        forecaster.observe(&Reading {
            limit_bytes: Some(64.0 * GIB),
            ..reading(t, 4.0 + t * 0.005)
        });
    }
    assert!(forecaster.forecast().level < RiskLevel::High);
}

#[test]
fn no_slope_runs_across_a_gap() {
    // Flat before and after, but 6 GiB higher after an hour of silence.
    let gap = |t: f64| {
        reading(
            if t < 900.0 { t } else { t + 3600.0 },
            if t < 900.0 { 5.0 } else { 11.0 },
        )
    };
    assert_eq!(alarm(1800, gap), None);
}

#[test]
fn nothing_is_foretold_without_a_limit_and_growth_is_found_all_the_same() {
    let mut forecaster = Forecaster::new();
    let unlimited = |t: f64| Reading {
        limit_bytes: None,
        ..reading(t, 4.0 + t * 0.005)
    };
    assert_eq!(watch(&mut forecaster, 1000, unlimited), None);
    let growth = forecaster.growth(0.1 * GIB).unwrap();
    assert_eq!(growth.kind, GrowthKind::Leak);
    assert!((growth.bytes_per_sec / (0.005 * GIB) - 1.0).abs() < 0.02);
}

#[test]
fn a_leak_that_begins_late_is_one_when_it_has_lasted() {
    let mut forecaster = Forecaster::new();
    watch(&mut forecaster, 3000, |t| {
        reading(t, 4.0 + (t - 2000.0).max(0.0) * 0.002)
    });
    assert_eq!(forecaster.growth(0.1 * GIB).unwrap().kind, GrowthKind::Leak);
}

#[test]
fn growth_that_dies_away_is_no_leak() {
    let mut forecaster = Forecaster::new();
    watch(&mut forecaster, 3600, |t| {
        reading(t, 4.0 + 1.5 * (1.0 + t / 60.0).ln())
    });
    let growth = forecaster.growth(0.1 * GIB);
    assert!(growth.is_none_or(|growth| growth.kind == GrowthKind::Growth));
}

#[test]
fn a_leak_of_381_mib_a_minute_under_900_mib_alarms_by_half_of_the_time_left() {
    let mib = GIB / 1024.0;
    let leak = |t: f64| Reading {
        used_bytes: (12.0 + 381.0 / 60.0 * t) * mib,
        limit_bytes: Some(900.0 * mib),
        ..reading(t, 0.0)
    };
    // Killed after 140 s and established after 30 s.
    let mut forecaster = Forecaster::new();
    let alarm = watch(&mut forecaster, 139, leak).unwrap();
    assert!((60..=85).contains(&alarm), "{alarm}");
    assert!(forecaster.forecast().level >= RiskLevel::High);
    assert_eq!(forecaster.forecast().cause, Some(Cause::Growth));
    assert!(forecaster.forecast().confidence >= 0.5);
}

/// A batch that is raised every 25 seconds: peaks rise in steps of `height` GiB over a base that stays.
fn ramp(t: f64, steps: f64, height: f64) -> Reading {
    let raised = ((t - 100.0) / 25.0).ceil().clamp(0.0, steps);
    let is_peak = (t as u32).is_multiple_of(3);
    Reading {
        step: Some((t / 0.5) as i64),
        ..reading(t, 3.0 + if is_peak { 1.0 + height * raised } else { 0.0 })
    }
}

#[test]
fn a_batch_size_ramp_is_foretold_from_the_height_of_its_next_step() {
    let mut forecaster = Forecaster::new();
    // The sixth step would need 16.6 GiB; before it, 14.5 GiB were the most.
    let alarm = watch(&mut forecaster, 224, |t| ramp(t, 9.0, 2.1)).unwrap();
    assert!((150..224).contains(&alarm), "{alarm}");
    let forecast = forecaster.forecast();
    assert_eq!(forecast.cause, Some(Cause::Stairs));
    assert!(
        (forecast.peak_height_bytes / GIB - 2.1).abs() < 0.2,
        "{forecast:?}"
    );
    let (low, high) = (
        forecast.seconds_low.unwrap(),
        forecast.seconds_high.unwrap(),
    );
    assert!(low < 30.0 && high > 2.0, "{forecast:?}");
}

#[test]
fn steps_that_double_are_foretold_to_double_again() {
    let level = |t: f64| 1.0 + 0.4 * (t / 30.0).floor().exp2();
    let doubling = |t: f64| Reading {
        step: Some(t as i64),
        ..reading(t, level(t))
    };
    let mut forecaster = Forecaster::new();
    // 7.4 GiB from 120 s on, 13.8 GiB from 150 s on, 26.6 GiB would be next.
    assert!(watch(&mut forecaster, 175, doubling).is_some());
    assert_eq!(forecaster.forecast().cause, Some(Cause::Stairs));
}

#[test]
fn a_staircase_that_has_ended_is_calm() {
    let mut forecaster = Forecaster::new();
    watch(&mut forecaster, 400, |t| ramp(t, 5.0, 2.1));
    assert!(forecaster.forecast().level < RiskLevel::High);
}

#[test]
fn shards_that_are_loaded_alarm_nobody() {
    let shards = |t: f64| reading(t, 0.2 + 1.6 * (t / 6.0).ceil().min(8.0));
    assert_eq!(alarm(600, shards), None);
}

#[test]
fn one_rise_is_no_staircase() {
    let once = |t: f64| Reading {
        step: Some(t as i64),
        ..reading(t, if t < 300.0 { 5.0 } else { 12.0 })
    };
    assert_eq!(alarm(900, once), None);
}

#[test]
fn uneven_growth_has_a_wider_interval_than_a_line() {
    let width = |level: fn(f64) -> f64| {
        let mut forecaster = Forecaster::new();
        watch(&mut forecaster, 1500, |t| reading(t, level(t)));
        let forecast = *forecaster.forecast();
        forecast.seconds_high.unwrap() / forecast.seconds_low.unwrap()
    };
    let line = width(|t| 4.0 + t * 0.006);
    let bent = width(|t| 4.0 + 9.0 * (t / 1500.0).powi(2));
    assert!(bent > 1.1 * line, "{bent} {line}");
}

/// What is said of growth after ten readings a second.
fn kind_after(
    secs: f64,
    level: impl Fn(f64) -> f64,
    step: impl Fn(f64) -> Option<i64>,
) -> Option<GrowthKind> {
    let mut forecaster = Forecaster::new();
    for at in 0..(secs * 10.0) as u32 {
        let t = f64::from(at) / 10.0;
        forecaster.observe(&Reading {
            step: step(t),
            ..reading(t, level(t))
        });
    }
    forecaster.growth(0.16 * GIB).map(|growth| growth.kind)
}

/// Loading at 20 MiB a second, then nothing more.
fn loaded(t: f64, loading_secs: f64) -> f64 {
    1.0 + 0.02 * t.min(loading_secs)
}

#[test]
fn loading_that_is_over_is_no_leak_once_the_level_stands_still() {
    for (loading_secs, still_secs) in [
        (12.0, 4.0),
        (30.0, 8.0),
        (60.0, 10.0),
        (100.0, 20.0),
        (600.0, 120.0),
        (600.0, 90.0),
        (300.0, 300.0),
    ] {
        let kind = kind_after(
            loading_secs + still_secs,
            |t| loaded(t, loading_secs),
            |_| None,
        );
        assert_eq!(kind, None, "{loading_secs} s, then {still_secs} s");
    }
}

#[test]
fn loading_is_no_leak_once_training_brings_nothing() {
    for (loading_secs, training_secs, step_secs) in [
        (12.0, 3.0, 0.02),
        (30.0, 8.0, 0.02),
        (60.0, 3.0, 0.02),
        (100.0, 5.0, 0.05),
        (600.0, 20.0, 0.2),
    ] {
        let step = |t: f64| (t >= loading_secs).then(|| ((t - loading_secs) / step_secs) as i64);
        let kind = kind_after(
            loading_secs + training_secs,
            |t| loaded(t, loading_secs),
            step,
        );
        assert_eq!(
            kind, None,
            "{loading_secs} s, then {training_secs} s of steps"
        );
    }
}

/// Twenty seconds of growth and three of standing still may be loading, or a leak and the writing of a report.
#[test]
fn growth_that_stopped_a_moment_ago_is_no_leak_and_not_nothing() {
    let paused_after = |still_secs: f64| {
        let mut forecaster = Forecaster::new();
        for tick in 0..((20.0 + still_secs) * 10.0) as u32 {
            let t = f64::from(tick) / 10.0;
            forecaster.observe(&reading(t, 0.1 + 0.12 * t.min(20.0)));
        }
        assert_eq!(forecaster.growth(0.1 * GIB), None, "{still_secs}");
        forecaster.paused_growth(0.1 * GIB)
    };
    let paused = paused_after(3.0).unwrap();
    assert!(
        (2.0 * GIB..2.41 * GIB).contains(&paused.grown_bytes),
        "{paused:?}"
    );
    assert!((17.0..21.0).contains(&paused.lasted_secs), "{paused:?}");
    assert!((2.0..4.5).contains(&paused.paused_secs), "{paused:?}");
    // By then it has loaded.
    assert_eq!(paused_after(10.0), None);
    assert_eq!(paused_after(60.0), None);
}

#[test]
fn a_leak_that_pauses_stays_one() {
    // Grows for 30 s, pauses for 10.
    let level = |t: f64| 1.0 + 0.02 * (30.0 * (t / 40.0).floor() + (t % 40.0).min(30.0));
    for secs in (100..600).step_by(7) {
        let kind = kind_after(f64::from(secs), level, |_| None);
        assert_eq!(kind, Some(GrowthKind::Leak), "after {secs} s");
    }
}

#[test]
fn a_leak_is_one_after_the_last_evaluation_too() {
    let level = |t: f64| 1.0 + 0.02 * t.min(300.0);
    let step = |t: f64| Some((t.min(300.0) / 0.25) as i64);
    assert_eq!(kind_after(360.0, level, step), Some(GrowthKind::Leak));
    // The same with steps that go on: the leak is over.
    let step = |t: f64| Some((t / 0.25) as i64);
    assert_eq!(kind_after(360.0, level, step), None);
}

#[test]
fn growth_that_stands_still_at_its_limit_is_not_over() {
    let until = |full: f64| move |t: f64| (1.0 + 0.025 * t).min(full);
    assert_eq!(
        kind_after(720.0, until(15.8), |_| None),
        Some(GrowthKind::Leak)
    );
    assert_eq!(kind_after(720.0, until(15.0), |_| None), None);
}

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

#[test]
fn a_leak_slower_than_the_loading_before_it_is_found() {
    let level = |t: f64| loaded(t, 60.0) + 0.002 * (t - 60.0).max(0.0);
    let step = |t: f64| (t >= 60.0).then(|| ((t - 60.0) / 0.25) as i64);
    assert_eq!(kind_after(300.0, level, step), Some(GrowthKind::Leak));
}

#[test]
fn empty_single_and_constant_series_say_nothing() {
    let mut forecaster = Forecaster::new();
    assert_eq!(forecaster.forecast().level, RiskLevel::Low);
    assert_eq!(forecaster.growth(0.0), None);
    forecaster.observe(&reading(0.0, 5.0));
    assert_eq!(
        (forecaster.forecast().seconds, forecaster.growth(0.0)),
        (None, None)
    );
    watch(&mut forecaster, 500, |t| reading(t + 1.0, 5.0));
    assert_eq!(
        (forecaster.forecast().seconds, forecaster.growth(0.0)),
        (None, None)
    );
}

#[test]
fn readings_that_are_no_numbers_and_times_that_go_back_are_ignored_and_counted() {
    let mut forecaster = Forecaster::new();
    forecaster.observe(&reading(10.0, 5.0));
    forecaster.observe(&reading(9.0, 5.0));
    forecaster.observe(&reading(10.0, 5.0));
    forecaster.observe(&reading(11.0, f64::NAN));
    forecaster.observe(&reading(12.0, f64::INFINITY));
    forecaster.observe(&reading(13.0, -1.0));
    assert_eq!(forecaster.ignored(), 5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever comes in, what comes out makes sense.
    #[test]
    fn any_series_gives_a_sane_answer(
        points in prop::collection::vec((0_u64..20_000_000_000, 0.0_f64..40.0, prop::option::of(0.0_f64..40.0), any::<bool>()), 0..400),
    ) {
        let mut forecaster = Forecaster::new();
        let mut time = 0;
        for (step, used, held, has_limit) in points {
            time += step;
            forecaster.observe(&Reading {
                time_nanos: time,
                held_bytes: held.map(|held| held * GIB),
                limit_bytes: has_limit.then_some(16.0 * GIB),
                ..reading(0.0, used)
            });
            let forecast = forecaster.forecast();
            prop_assert!((0.0..=1.0).contains(&forecast.confidence));
            if let (Some(low), Some(seconds), Some(high)) = (forecast.seconds_low, forecast.seconds, forecast.seconds_high) {
                prop_assert!(low.is_finite() && low >= 0.0 && low <= seconds && seconds <= high, "{:?}", forecast);
            }
        }
        let growth = forecaster.growth(0.0);
        prop_assert!(growth.is_none_or(|growth| growth.bytes_per_sec.is_finite() && growth.bytes_per_sec > 0.0));
    }

    /// Twice the memory under twice the limit is the same story.
    #[test]
    fn the_unit_does_not_matter(slope in 0.001_f64..0.01, factor in 0.01_f64..100.0) {
        let series = |scale: f64| {
            let mut forecaster = Forecaster::new();
            let at = watch(&mut forecaster, 1500, |t| Reading {
                limit_bytes: Some(16.0 * GIB * scale),
                ..reading(t, (4.0 + t * slope) * scale)
            });
            (at, forecaster.forecast().level)
        };
        prop_assert_eq!(series(1.0), series(factor));
    }
}
