//! What the panels of metrics promise, read back from the SVG.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "../examples/synthetic/mod.rs"]
mod synthetic;

use nilo_plot::{Chart, ChartOptions, XAxisKind, compare_chart, memory_chart};
use nilo_sample::TableSpec;
use nilo_sample::fixture::table_of;
use nilo_sample::rows::TreeRow;
use proptest::prelude::*;
use resvg::usvg::roxmltree::{Document, Node};
use synthetic::*;

fn falling(rows: u64) -> Vec<(u64, i64, f64)> {
    let row = |i: u64| (i * SECOND, i as i64, 4.0 / (1.0 + i as f64));
    (0..rows).map(row).collect()
}

fn with_metrics(names: &[&str]) -> ChartOptions {
    ChartOptions {
        metrics: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ChartOptions::default()
    }
}

fn texts(chart: &Chart) -> Vec<String> {
    let svg = chart.to_svg();
    let document = Document::parse(&svg).unwrap();
    let texts = document.descendants().filter(|n| n.has_tag_name("text"));
    texts
        .filter_map(|node| node.text().map(str::to_owned))
        .collect()
}

/// What is in each panel, counted by a question.
fn in_panels(chart: &Chart, wanted: impl Fn(&Node<'_, '_>) -> bool) -> Vec<usize> {
    let svg = chart.to_svg();
    let document = Document::parse(&svg).unwrap();
    let panels = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("panel"));
    panels
        .map(|panel| panel.descendants().filter(&wanted).count())
        .collect()
}

fn is_curve(node: &Node<'_, '_>) -> bool {
    node.has_tag_name("path")
}

fn is_red_tick(node: &Node<'_, '_>) -> bool {
    node.has_tag_name("line") && node.attribute("stroke") == Some("#c1121f")
}

#[test]
fn a_chosen_metric_has_a_panel_on_the_axis_of_the_memory() {
    let mut recording = training(1.0);
    add_metric(&mut recording, "python-1", "loss", &falling(80));
    let chart = memory_chart(&recording, &with_metrics(&["loss", "not logged"]));
    assert_eq!(in_panels(&chart, is_curve), [1]);
    let texts = texts(&chart);
    for wanted in [
        "loss",
        "last 0.05, min 0.05, max 4",
        "time (s)",
        "python train.py",
    ] {
        assert!(
            texts.iter().any(|text| text == wanted),
            "{wanted}: {texts:?}"
        );
    }
    let plain = memory_chart(&recording, &ChartOptions::default());
    assert!(in_panels(&plain, is_curve).is_empty());
}

#[test]
fn what_is_not_finite_is_a_tick_and_breaks_the_line() {
    let mut recording = training(1.0);
    let mut rows = falling(80);
    (rows[20].2, rows[50].2) = (f64::NAN, f64::NEG_INFINITY);
    add_metric(&mut recording, "python-1", "loss", &rows);
    let only_nan: Vec<_> = (0..80).map(|i| (i * SECOND, i as i64, f64::NAN)).collect();
    add_metric(&mut recording, "python-1", "bad", &only_nan);
    let chart = memory_chart(&recording, &with_metrics(&["loss", "bad"]));
    assert_eq!(in_panels(&chart, is_red_tick), [2, 80]);
    let moves = |node: &Node<'_, '_>| {
        let data = node.attribute("d").unwrap_or_default();
        data.matches('M').count() == 3
    };
    assert_eq!(in_panels(&chart, moves), [1, 0]);
    let texts = texts(&chart);
    assert!(texts.contains(&"1 NaN, 1 -inf".to_owned()), "{texts:?}");
    assert!(texts.contains(&"80 NaN".to_owned()), "{texts:?}");
}

#[test]
fn one_spike_among_a_million_values_is_drawn() {
    let mut recording = empty("spike");
    let mut rows: Vec<(u64, i64, f64)> = (0..1_000_000)
        .map(|i| (i * SECOND / 100, i as i64, 1.0))
        .collect();
    rows[612_345].2 = 50.0;
    add_metric(&mut recording, "python-1", "loss", &rows);
    for across in [XAxisKind::Time, XAxisKind::Steps] {
        let options = ChartOptions {
            across,
            ..with_metrics(&["loss"])
        };
        let chart = memory_chart(&recording, &options);
        assert!(chart.to_svg().len() < 300_000);
        assert!(texts(&chart).contains(&"last 1, min 1, max 50".to_owned()));
        let svg = chart.to_svg();
        let document = Document::parse(&svg).unwrap();
        let panel = document
            .descendants()
            .find(|n| n.attribute("class") == Some("panel"));
        let path = panel.unwrap().descendants().find(is_curve).unwrap();
        let heights: std::collections::BTreeSet<&str> = path
            .attribute("d")
            .unwrap()
            .split(['M', 'L'])
            .filter_map(|pair| pair.split(' ').nth(1))
            .collect();
        assert_eq!(heights.len(), 2, "{heights:?}");
    }
}

#[test]
fn steps_that_restart_are_pieces_of_their_own_across_steps() {
    let mut recording = training(1.0);
    let epochs: Vec<_> = (0..40)
        .map(|i| (i * SECOND, (i % 10) as i64, 1.0 / (i + 1) as f64))
        .collect();
    add_metric(&mut recording, "python-1", "loss", &epochs);
    let pieces = |across: XAxisKind| {
        let options = ChartOptions {
            across,
            ..with_metrics(&["loss"])
        };
        let chart = memory_chart(&recording, &options);
        let svg = chart.to_svg().to_owned();
        let document = Document::parse(&svg).unwrap();
        let panel = document
            .descendants()
            .find(|n| n.attribute("class") == Some("panel"));
        let path = panel.unwrap().descendants().find(is_curve).unwrap();
        path.attribute("d").unwrap().matches('M').count()
    };
    assert_eq!(pieces(XAxisKind::Time), 1);
    assert_eq!(pieces(XAxisKind::Steps), 4);
}

#[test]
fn ranks_are_lines_of_their_own() {
    let mut recording = training(1.0);
    add_metric(&mut recording, "python-1", "loss", &falling(40));
    add_metric(&mut recording, "python-2", "loss", &falling(40));
    let chart = memory_chart(&recording, &with_metrics(&["loss"]));
    let two_pieces = |node: &Node<'_, '_>| {
        let data = node.attribute("d").unwrap_or_default();
        data.matches('M').count() == 2
    };
    assert_eq!(in_panels(&chart, two_pieces), [1]);
}

#[test]
fn of_several_ranks_the_first_is_told_and_the_others_are_faint() {
    let mut recording = training(1.0);
    let mut high = falling(40);
    for row in &mut high {
        row.2 += 20.0;
    }
    high[3].2 = f64::NAN;
    add_metric(&mut recording, "python-2", "loss", &high);
    add_metric(&mut recording, "python-1", "loss", &falling(40));
    let ranks = recording.tables.iter_mut().rev().take(2).zip(0..);
    ranks.for_each(|(table, rank)| table.spec.rank = Some(rank));
    let chart = memory_chart(&recording, &with_metrics(&["loss"]));
    let told = nilo_analysis::metrics::summarize_metrics(&recording);
    let [last, min, max] = [told[0].last, told[0].min, told[0].max]
        .map(|value| nilo_plot::short_number(value.unwrap().value));
    let caption = format!("rank 0 of 2: last {last}, min {min}, max {max}");
    assert_eq!(caption, "rank 0 of 2: last 0.1, min 0.1, max 4");
    let texts = texts(&chart);
    assert!(texts.contains(&caption), "{texts:?}");
    assert!(texts.contains(&"1 not finite in other ranks".to_owned()));
    assert_eq!(in_panels(&chart, is_curve), [2]);
    let is_faint = |node: &Node<'_, '_>| node.attribute("class") == Some("other ranks");
    assert_eq!(in_panels(&chart, is_faint), [1]);
    let runs = [("a", &recording), ("b", &recording)];
    let compared = compare_chart(&runs, &with_metrics(&["loss"]));
    assert_eq!(in_panels(&compared, is_faint), [2]);
}

/// The corners of the memory's line, in pieces.
fn memory_pieces(chart: &Chart) -> Vec<Vec<f64>> {
    let svg = chart.to_svg();
    let document = Document::parse(&svg).unwrap();
    let line = document
        .descendants()
        .find(|node| node.attribute("class") == Some("line"));
    let path = line.unwrap().descendants().find(is_curve).unwrap();
    let pieces = path.attribute("d").unwrap().split('M').skip(1);
    let across = |pair: &str| pair.split(' ').next()?.parse().ok();
    pieces
        .map(|piece| piece.split('L').filter_map(across).collect())
        .collect()
}

#[test]
fn memory_of_steps_that_restart_has_a_line_for_each_pass() {
    let mut recording = training(1.0);
    let epochs: Vec<_> = (0..80)
        .map(|i| (i * SECOND, (i % 20) as i64, 1.0))
        .collect();
    add_metric(&mut recording, "python-1", "loss", &epochs);
    let rows: Vec<_> = (0..80).map(|i| (i * SECOND, i as f64 * GIB, GIB)).collect();
    add_gpu(&mut recording, 0, &rows);
    let options = ChartOptions {
        across: XAxisKind::Steps,
        ..with_metrics(&["loss"])
    };
    let chart = memory_chart(&recording, &options);
    let pieces = memory_pieces(&chart);
    assert_eq!(pieces.len(), 4, "{pieces:?}");
    for piece in &pieces {
        assert!(piece.is_sorted(), "{piece:?}");
        assert!(piece.last().unwrap() - piece[0] > 300.0, "{piece:?}");
    }
    let texts = texts(&chart);
    let has = |wanted: &str| texts.iter().any(|text| text.contains(wanted));
    assert!(has("steps go back 3 times: a line for each pass"));
    let four_pieces = |node: &Node<'_, '_>| {
        let data = node.attribute("d").unwrap_or_default();
        data.matches('M').count() == 4
    };
    // The GPU's memory, its part of the job, and the loss.
    assert_eq!(in_panels(&chart, four_pieces), [2, 1]);
    let svg = chart.to_svg();
    assert!(svg.contains("over steps, peak"), "the title of the picture");
    assert!(!svg.contains("over time, peak"));
}

#[test]
fn samples_after_the_last_step_are_told_in_words() {
    let mut recording = training(1.0);
    let tree = recording.tables.iter_mut();
    tree.for_each(|table| table.times.iter_mut().for_each(|time| *time += SECOND));
    let rows = [(0, 0, 2.0), (SECOND / 2, 1, 1.0)];
    add_metric(&mut recording, "python-1", "loss", &rows);
    let notices = |across| {
        let options = ChartOptions {
            across,
            ..with_metrics(&["loss"])
        };
        let texts = texts(&memory_chart(&recording, &options));
        let notices = texts.into_iter();
        notices
            .filter(|text| text == "all samples were taken after the last step")
            .count()
    };
    assert_eq!(notices(XAxisKind::Steps), 1);
    assert_eq!(notices(XAxisKind::Time), 0);
}

#[test]
fn without_samples_there_is_no_scale_of_memory() {
    let mut recording = empty("nothing");
    add_metric(&mut recording, "python-1", "loss", &falling(5));
    let options = with_metrics(&["loss"]);
    let charts = [
        memory_chart(&recording, &options),
        compare_chart(&[("a", &recording), ("b", &recording)], &options),
    ];
    for chart in charts {
        let texts = texts(&chart);
        assert!(texts.contains(&"no samples".to_owned()), "{texts:?}");
        assert!(!texts.iter().any(|text| text.contains("iB")), "{texts:?}");
    }
}

#[test]
fn caption_and_subtitle_name_the_runs_of_a_curve() {
    let mut recording = training(1.0);
    add_metric(&mut recording, "python-1", "loss", &falling(5));
    let options = ChartOptions {
        earlier_runs: 2,
        across: XAxisKind::Steps,
        ..with_metrics(&["loss"])
    };
    let texts = texts(&memory_chart(&recording, &options));
    let has = |wanted: &str| texts.iter().any(|text| text.contains(wanted));
    assert!(has("3 runs: last 0.8, min 0.8, max 4"), "{texts:?}");
    assert!(has("metrics with the 2 runs it resumes"), "{texts:?}");
    assert!(
        has("memory and CPU are those of the last run alone"),
        "{texts:?}"
    );
}

#[test]
fn panels_without_anything_on_the_axis_of_steps_say_why() {
    let mut recording = empty("late");
    add_metric(&mut recording, "python-1", "loss", &falling(3));
    let row = |secs: u64| TreeRow {
        memory_bytes: GIB,
        cpu_nanos: (secs * SECOND) as f64,
        ..TreeRow::ABSENT
    };
    let rows: Vec<(u64, TreeRow)> = (10..20).map(|secs| (secs * SECOND, row(secs))).collect();
    recording.tables.push(table_of(TableSpec::tree(), &rows));
    let chart = |across| {
        let options = ChartOptions {
            across,
            ..with_metrics(&["loss"])
        };
        memory_chart(&recording, &options)
    };
    let notices = |chart: &Chart| {
        let notices = texts(chart).into_iter();
        notices
            .filter(|text| text == "all samples were taken after the last step")
            .count()
    };
    // One for the memory and one for the processor time.
    assert_eq!(notices(&chart(XAxisKind::Steps)), 2);
    assert_eq!(notices(&chart(XAxisKind::Time)), 0);
}

#[test]
fn runs_are_compared_in_one_panel() {
    let mut runs = [training(1.0), training(0.9)];
    for run in &mut runs {
        add_metric(run, "python-1", "loss", &falling(80));
    }
    let labelled = [("a", &runs[0]), ("b", &runs[1])];
    let chart = compare_chart(&labelled, &with_metrics(&["loss"]));
    assert_eq!(in_panels(&chart, is_curve), [2]);
    chart.to_png(1.0).unwrap();
}

#[test]
fn markup_in_metric_names_stays_text() {
    let mut recording = empty("x");
    let name = "</svg><script>\u{1b}[2J\u{202e}";
    add_metric(&mut recording, "python-1", name, &falling(3));
    let chart = memory_chart(&recording, &with_metrics(&[name]));
    assert!(!chart.to_svg().contains("<script"));
    assert!(texts(&chart).iter().any(|text| text.contains("</svg>")));
    chart.to_png(1.0).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_values_and_steps_give_a_picture(
        rows in prop::collection::vec((any::<u64>(), any::<i64>(), any::<u64>()), 0..40),
        steps in any::<bool>(),
    ) {
        let mut recording = training(1.0);
        let mut rows: Vec<(u64, i64, f64)> = rows
            .into_iter()
            .map(|(time, step, bits)| (time, step, f64::from_bits(bits)))
            .collect();
        rows.sort_by_key(|row| row.0);
        add_metric(&mut recording, "python-1", "any", &rows);
        let options = ChartOptions {
            across: if steps { XAxisKind::Steps } else { XAxisKind::Time },
            ..with_metrics(&["any"])
        };
        let chart = memory_chart(&recording, &options);
        prop_assert!(Document::parse(&chart.to_svg()).is_ok());
        prop_assert!(!chart.to_svg().contains("NaN\""));
    }
}

const GIB: f64 = 1073741824.0;

#[test]
fn a_gpu_has_a_panel_with_the_jobs_part_dashed() {
    let mut recording = training(1.0);
    let rows = [
        (SECOND, 2.0, 1.0),
        (20 * SECOND, 6.0, 5.0),
        (40 * SECOND, 3.0, 2.0),
    ];
    let rows = rows.map(|(time, used, share)| (time, used * GIB, share * GIB));
    add_gpu(&mut recording, 1, &rows);
    let whole = rows.map(|(time, used, _)| (time, used, used));
    add_gpu(&mut recording, 0, &whole);
    let chart = memory_chart(&recording, &ChartOptions::default());
    assert_eq!(in_panels(&chart, is_curve), [1, 2], "by their numbers");
    let is_dashed = |node: &Node<'_, '_>| node.attribute("stroke-dasharray").is_some();
    assert_eq!(in_panels(&chart, is_dashed), [0, 1]);
    let texts = texts(&chart);
    for wanted in [
        "GPU 0, GiB used",
        "GPU 1, GiB used (dashed: by the job)",
        "last 3, min 2, max 6",
    ] {
        assert!(
            texts.iter().any(|text| text == wanted),
            "{wanted}: {texts:?}"
        );
    }
}

#[test]
fn of_eight_gpus_four_are_drawn_and_the_rest_is_said() {
    let mut recording = training(1.0);
    for index in 0..8 {
        add_gpu(
            &mut recording,
            index,
            &[(SECOND, GIB, GIB), (2 * SECOND, f64::NAN, f64::NAN)],
        );
    }
    let chart = memory_chart(&recording, &ChartOptions::default());
    assert_eq!(in_panels(&chart, |_| true).len(), 4);
    assert!(
        texts(&chart)
            .iter()
            .any(|text| text == "4 more GPUs are not drawn")
    );
}
