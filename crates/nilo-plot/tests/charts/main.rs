//! What a chart promises, read back from its SVG and its pixels.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

mod compared;
mod legend;
mod moments;
#[path = "../../examples/synthetic/mod.rs"]
mod synthetic;

use nilo_analysis::ChartFigures;
use nilo_plot::{Chart, ChartOptions, PeakMark, Theme, compare_chart, memory_chart};
use nilo_sample::units::format_bytes;
use nilo_sample::{Event, Recording, RunStatus};
use proptest::prelude::*;
use resvg::tiny_skia::Pixmap;
use resvg::usvg;
use resvg::usvg::roxmltree::Document;
use synthetic::*;

/// All text of a chart, one string for each element; fails unless the SVG is well-formed.
fn texts(chart: &Chart) -> Vec<String> {
    let svg = chart.to_svg();
    let document = Document::parse(&svg).unwrap();
    let texts = document.descendants().filter(|n| n.has_tag_name("text"));
    let words = texts.filter_map(|node| node.text().map(str::to_owned));
    words.collect()
}

fn has_text(chart: &Chart, wanted: &str) -> bool {
    texts(chart).iter().any(|text| text.contains(wanted))
}

/// The path data of the tree's line.
fn line_path(chart: &Chart) -> String {
    let svg = chart.to_svg();
    let document = Document::parse(&svg).unwrap();
    let group = document
        .descendants()
        .find(|node| node.attribute("class") == Some("line"))
        .unwrap();
    let path = group.children().find(|node| node.has_tag_name("path"));
    path.and_then(|path| path.attribute("d"))
        .unwrap_or_default()
        .to_owned()
}

fn plain(recording: &Recording) -> Chart {
    memory_chart(recording, &ChartOptions::default())
}

#[test]
fn every_picture_of_a_run_has_the_figures_of_its_summary() {
    let recording = oom();
    let ending = ending(RunStatus::Killed, 9.0);
    let summary = nilo_analysis::summarize(&recording, &ending);
    let options = ChartOptions::of_run(&recording, &ChartFigures::of(&recording, &ending));
    assert_eq!(
        options.peak.unwrap().bytes,
        summary.memory.peak_bytes.unwrap()
    );
    assert_eq!(options.cpu, Some(summary.cpu));
    assert_eq!(
        options.limit.map(|limit| limit.bytes),
        summary.memory.limit_bytes
    );
}

/// The left and the right edge of each text as a viewer draws it who has only this font, with its base line.
fn texts_in_font(chart: &Chart, font: &'static [u8]) -> Vec<(String, f32, f32, f32)> {
    fn collect(group: &usvg::Group, found: &mut Vec<(String, f32, f32, f32)>) {
        for node in group.children() {
            match node {
                usvg::Node::Group(group) => collect(group, found),
                usvg::Node::Text(text) => {
                    let chunks = text.chunks().iter().map(|chunk| chunk.text());
                    let place = text.abs_bounding_box();
                    let words = chunks.collect::<String>();
                    found.push((words, place.left(), place.right(), place.bottom()));
                }
                _ => {}
            }
        }
    }
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(font.to_vec());
    let family = fonts.faces().next().unwrap().families[0].0.clone();
    fonts.set_sans_serif_family(family);
    let options = usvg::Options {
        fontdb: fonts.into(),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(&chart.to_svg(), &options).unwrap();
    let mut found = Vec::new();
    collect(tree.root(), &mut found);
    found
}

#[test]
fn processor_time_has_a_panel_below_the_memory() {
    let mut recording = empty("busy");
    let points = curve(60.0, 10.0, |_| 500.0 * MIB);
    add_tree(&mut recording, &points);
    assert!(!plain(&recording).to_svg().contains("cpu panel"));
    let cpu = recording.tables[0].spec.column("cpu_nanos").unwrap();
    let spent = |time: u64| match time {
        // One core at first, two in the second half.
        time if time <= 30 * SECOND => time as f64,
        time => (2 * time - 30 * SECOND) as f64,
    };
    recording.tables[0].columns[cpu] = points.iter().map(|(time, _)| spent(*time)).collect();
    let chart = plain(&recording);
    assert!(chart.to_svg().contains("class=\"cpu panel\""));
    assert!(has_text(&chart, "CPU, % of a core"));
    assert!(
        has_text(&chart, "mean 150 %, busiest second 200 %"),
        "{:?}",
        texts(&chart)
    );
    chart.to_png(1.0).unwrap();
}

#[test]
fn areas_that_add_up_need_no_caption() {
    assert!(!has_text(&plain(&training(1.0)), "scaled"));
}

#[test]
fn a_limit_far_away_is_only_mentioned() {
    let options = ChartOptions {
        limit: Some(limit(64.0 * GIB)),
        ..ChartOptions::default()
    };
    let chart = memory_chart(&training(1.0), &options);
    let size = format_bytes(64.0 * GIB);
    let wanted = format!("limit {size}, cgroup v1 /slurm/uid_1000/job_88 (off the scale)");
    assert!(has_text(&chart, &wanted), "{:?}", texts(&chart));
    assert!(!chart.to_svg().contains("class=\"limit\""));
}

#[test]
fn markup_in_names_stays_text() {
    let mut recording = empty("<b>&\"'\u{1}");
    add_process(
        &mut recording,
        1,
        "</svg><script>alert(1)</script>",
        &[(0, MIB), (SECOND, MIB)],
    );
    add_tree(&mut recording, &[(0, MIB), (SECOND, MIB)]);
    add_mark(&mut recording, 0.5, "<i>epoch</i>");
    let chart = plain(&recording);
    assert!(has_text(&chart, "<b>&\"'\u{fffd}"));
    assert!(has_text(&chart, "<i>epoch</i>"));
    assert!(!chart.to_svg().contains("<script"));
    chart.to_png(1.0).unwrap();
}

#[test]
fn one_spike_among_a_million_samples_is_drawn() {
    let mut recording = empty("spike");
    let mut points = curve(100_000.0, 10.0, |_| 1.0 * GIB);
    points[612_345].1 = 2.0 * GIB;
    add_tree(&mut recording, &points);
    let chart = plain(&recording);
    let path = line_path(&chart);
    assert!(path.len() < 200_000, "{}", path.len());
    let heights: Vec<f64> = path
        .split(['M', 'L'])
        .filter_map(|pair| pair.split(' ').nth(1)?.parse().ok())
        .collect();
    let highest = heights.iter().copied().fold(f64::INFINITY, f64::min);
    let level = heights[0];
    let base = 540.0 - 48.0;
    let ratio = (base - highest) / (base - level);
    assert!((ratio - 2.0).abs() < 0.01, "{ratio}");
    assert!(has_text(&chart, "peak 2.00 GiB (sampled)"));
}

#[test]
fn a_peak_between_samples_stands_above_the_line() {
    let mut recording = empty("spike");
    add_tree(&mut recording, &curve(20.0, 2.0, |_| 300.0 * MIB));
    let peak = PeakMark {
        bytes: (2.11 * GIB) as u64,
        time_nanos: Some(5 * SECOND + 1),
        kind: "VmHWM".into(),
    };
    let options = ChartOptions {
        peak: Some(peak),
        ..ChartOptions::default()
    };
    let chart = memory_chart(&recording, &options);
    assert!(has_text(&chart, "peak 2.11 GiB (VmHWM)"));
    assert!(chart.to_svg().contains("stroke-dasharray=\"2 2.5\""));
    assert!(has_text(&chart, "2 GiB"));
}

#[test]
fn empty_single_and_constant_zero_recordings_are_drawn() {
    let none = plain(&empty("none"));
    assert!(has_text(&none, "no samples"));
    let mut single = empty("single");
    add_tree(&mut single, &[(0, 3.0 * MIB)]);
    assert!(has_text(&plain(&single), "peak 3.00 MiB (sampled)"));
    let mut zero = empty("zero");
    add_tree(&mut zero, &curve(5.0, 1.0, |_| 0.0));
    assert!(has_text(&plain(&zero), "peak 0 B (sampled)"));
    for chart in [none, plain(&single), plain(&zero)] {
        chart.to_png(1.0).unwrap();
    }
}

#[test]
fn pngs_have_the_size_asked_for() {
    let chart = plain(&training(0.9));
    for (scale, size) in [(1.0, (960, 540)), (2.0, (1920, 1080)), (0.5, (480, 270))] {
        let png = chart.to_png(scale).unwrap();
        let pixels = Pixmap::decode_png(&png).unwrap();
        assert_eq!((pixels.width(), pixels.height()), size);
    }
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1000.0] {
        let error = chart.to_png(scale).unwrap_err().to_string();
        assert!(error.starts_with("cannot draw 960 x 540"), "{error}");
    }
}

#[test]
fn text_and_curves_leave_pixels_without_fonts_of_the_machine() {
    let png = plain(&empty("a title")).to_png(1.0).unwrap();
    let pixels = Pixmap::decode_png(&png).unwrap();
    let title = (12..40).flat_map(|y| (16..100).map(move |x| (x, y)));
    let dark = title.filter(|(x, y)| pixels.pixel(*x, *y).unwrap().red() < 128);
    assert!(dark.count() > 50);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_recording_gives_a_well_formed_picture(
        rows in prop::collection::vec((any::<u64>(), any::<u64>()), 0..40),
        small_rows in prop::collection::vec((0u64..1 << 36, -1e9..1e12f64), 0..40),
        name in "\\PC{0,40}",
        mark in any::<String>(),
        size in (0u32..2000, 0u32..1200),
        peak in prop::option::of((any::<u64>(), prop::option::of(any::<u64>()))),
        limit_bytes in prop::option::of(any::<u64>()),
        event_nanos in any::<u64>(),
        dark in any::<bool>(),
    ) {
        let mut points: Vec<_> = rows.iter().map(|(time, bits)| (*time, f64::from_bits(*bits))).collect();
        points.extend(small_rows);
        points.sort_by_key(|(time, _)| *time);
        let mut recording = empty(&name);
        add_process(&mut recording, 1, &name, &points);
        add_tree(&mut recording, &points);
        add_event(&mut recording, event_nanos, Event::Mark { text: mark.clone() });
        add_event(&mut recording, event_nanos, Event::Gap { nanos: event_nanos / 2, reason: mark });
        let options = ChartOptions {
            width: size.0,
            height: size.1,
            peak: peak.map(|(bytes, time_nanos)| PeakMark { bytes, time_nanos, kind: name.clone() }),
            limit: limit_bytes.map(|bytes| limit(bytes as f64)),
            duration_nanos: (event_nanos % 3 == 0).then_some(event_nanos),
            theme: if dark { Theme::Dark } else { Theme::Light },
            max_processes: size.0 as usize,
            ..ChartOptions::default()
        };
        for chart in [memory_chart(&recording, &options), compare_chart(&[(&name, &recording)], &options)] {
            let svg = chart.to_svg();
            prop_assert!(Document::parse(&svg).is_ok());
            prop_assert!(!svg.contains("NaN") || name.contains("NaN"));
            prop_assert!(chart.to_png(0.25).is_ok());
        }
    }
}

/// The file system of a container has no fonts, and those of ideographs are larger than the whole program.
#[test]
fn characters_without_a_glyph_are_question_marks_in_pixels_and_themselves_in_svg() {
    let titled = |title: &str| {
        let options = ChartOptions {
            title: Some(title.to_owned()),
            ..ChartOptions::default()
        };
        memory_chart(&training(0.88), &options)
    };
    let ideographs = titled("訓練 größe → 한국");
    assert!(has_text(&ideographs, "訓練 größe → 한국"));
    assert!(ideographs.has_undrawable_characters());
    let marks = titled("?? größe → ??");
    assert!(!marks.has_undrawable_characters());
    let (one, other) = (ideographs.to_png(1.0).unwrap(), marks.to_png(1.0).unwrap());
    assert!(one == other);
}
