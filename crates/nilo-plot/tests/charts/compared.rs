//! Charts of several runs: their legend, their limits, their peaks and how they ended.

use nilo_plot::{Chart, ChartOptions, compare_chart};
use nilo_sample::{Limit, LimitSource, Recording};

use super::{has_text, texts, texts_in_font};
use crate::synthetic::*;

#[test]
fn compared_runs_show_their_limits_and_kills() {
    let mut killed = oom();
    killed.description.limit = Some(limit(4.0 * GIB));
    let mut fine = empty("fine");
    add_tree(&mut fine, &curve(3600.0, 1.0, |_| 2.0 * GIB));
    fine.description.limit = Some(limit(6.0 * GIB));
    let options = ChartOptions::default();
    let chart = compare_chart(&[("leaky", &killed), ("fine", &fine)], &options);
    for wanted in [
        "leaky: limit 4.00 GiB",
        "fine: limit 6.00 GiB",
        "OOM kill: leaky",
    ] {
        assert!(has_text(&chart, wanted), "{wanted}: {:?}", texts(&chart));
    }
    let svg = chart.to_svg();
    let count = |class: &str| svg.matches(&format!("class=\"{class}\"")).count();
    assert_eq!((count("limit"), count("kill")), (2, 1));
    // What all share is told once.
    fine.description.limit = killed.description.limit.clone();
    let chart = compare_chart(&[("leaky", &killed), ("fine", &fine)], &options);
    assert!(has_text(&chart, "limit 4.00 GiB") && !has_text(&chart, "fine: limit"));
    // So are limits of one size in cgroups of two names, without either name.
    if let Some(Limit { source, .. }) = &mut fine.description.limit {
        *source = LimitSource::Host;
    }
    let chart = compare_chart(&[("leaky", &killed), ("fine", &fine)], &options);
    let told: Vec<String> = texts(&chart);
    let told: Vec<&String> = told.iter().filter(|text| text.contains("limit")).collect();
    assert_eq!(told, ["limit 4.00 GiB"]);
}

#[test]
fn every_kill_of_compared_runs_is_named() {
    let killed_after = |later_nanos: u64| {
        let mut killed = oom();
        let ending = killed.description.ending.as_mut().unwrap();
        ending.time_nanos += later_nanos;
        let oom = ending.oom.as_mut().unwrap();
        oom.time_nanos = oom.time_nanos.map(|time| time + later_nanos);
        killed
    };
    let (killed, later, fine) = (killed_after(0), killed_after(SECOND), training(1.0));
    let runs = [("a", &killed), ("fine", &fine), ("b", &later)];
    let chart = compare_chart(&runs, &ChartOptions::default());
    assert!(has_text(&chart, "OOM kills: a, b"), "{:?}", texts(&chart));
    // Far from each other they have labels of their own.
    let later = killed_after(3600 * SECOND);
    let chart = compare_chart(&[("a", &killed), ("b", &later)], &ChartOptions::default());
    for wanted in ["OOM kill: a", "OOM kill: b"] {
        assert!(has_text(&chart, wanted), "{wanted}: {:?}", texts(&chart));
    }
}

#[test]
fn compared_runs_have_the_peak_that_the_summary_tells() {
    let mut recording = empty("spike");
    add_tree(&mut recording, &curve(60.0, 1.0, |_| 2.0 * GIB));
    let tree = &mut recording.tables[0];
    let column = tree.spec.column("high_water_bytes").unwrap();
    tree.columns[column][30] = 3.0 * GIB;
    let chart = compare_chart(&[("spike", &recording)], &ChartOptions::default());
    let svg = chart.to_svg();
    assert!(has_text(&chart, "3.00 GiB"), "{:?}", texts(&chart));
    // A stem reaches up to it.
    assert!(svg.contains("class=\"peak\"") && svg.contains("stroke-dasharray=\"2 2.5\""));
}

#[test]
fn compared_runs_have_a_legend_with_peaks() {
    let (first, second) = (training(0.9), oom());
    let runs = [
        ("batch 32", &first),
        ("leak & <fix>", &second),
        ("gone", &empty("gone")),
    ];
    let chart = compare_chart(&runs, &ChartOptions::default());
    for wanted in [
        "Memory of 3 runs",
        "batch 32",
        "leak & <fix>",
        "gone",
        "time (min)",
    ] {
        assert!(has_text(&chart, wanted), "{wanted}");
    }
    chart.to_png(1.0).unwrap();
    assert!(has_text(
        &compare_chart(&[], &ChartOptions::default()),
        "no samples"
    ));
}

/// Each text with the box that it covers in the embedded font.
fn meeting(chart: &Chart, chosen: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let texts = texts_in_font(chart, epaint_default_fonts::HACK_REGULAR);
    let texts: Vec<_> = texts.into_iter().filter(|text| chosen(&text.0)).collect();
    let mut found = Vec::new();
    for (index, one) in texts.iter().enumerate() {
        for other in &texts[index + 1..] {
            let same_line = (one.3 - other.3).abs() < 12.0;
            if same_line && one.1 < other.2 && other.1 < one.2 {
                found.push((one.0.clone(), other.0.clone()));
            }
        }
    }
    found
}

#[test]
fn labels_of_limits_that_lie_close_together_do_not_meet() {
    let runs = close_limits();
    let compared: Vec<(&str, &Recording)> = runs.iter().map(|(name, run)| (*name, run)).collect();
    for width in [500, 700, 960] {
        let options = ChartOptions {
            width,
            ..ChartOptions::default()
        };
        let chart = compare_chart(&compared, &options);
        assert_eq!(
            meeting(&chart, |text| text.contains("limit")),
            [],
            "{width}"
        );
        for (_, run) in &runs {
            let bytes = run.description.limit.as_ref().unwrap().bytes as f64;
            let figure = format!("limit {}", nilo_sample::units::format_bytes(bytes));
            assert!(has_text(&chart, &figure), "{figure}: {:?}", texts(&chart));
        }
    }
}
