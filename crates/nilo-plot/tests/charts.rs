//! What a chart promises, read back from its SVG and its pixels.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

#[path = "../examples/synthetic/mod.rs"]
mod synthetic;

use nilo_analysis::ChartFigures;
use nilo_plot::{Chart, ChartOptions, PeakMark, Theme, compare_chart, memory_chart};
use nilo_sample::units::format_bytes;
use nilo_sample::{Event, Limit, LimitSource, Recording, RunStatus};
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
fn processes_too_small_to_be_seen_share_a_colour() {
    let at = [(0, GIB), (SECOND, GIB)];
    let small = [(0, 4.0 * MIB), (SECOND, 4.0 * MIB)];
    let mut recording = empty("small");
    add_process(&mut recording, 1, "python", &at);
    add_process(&mut recording, 2, "bash", &small);
    add_process(&mut recording, 3, "sed", &small);
    sum_processes(&mut recording, &[0, SECOND], 1.0);
    let chart = plain(&recording);
    assert!(has_text(&chart, "2 others"), "{:?}", texts(&chart));
    assert!(!has_text(&chart, "bash"));
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

#[test]
fn a_training_run_names_its_processes_its_peak_and_its_limit() {
    let options = ChartOptions {
        peak: Some(PeakMark {
            bytes: (2.5 * GIB) as u64,
            time_nanos: Some(70 * SECOND),
            kind: "VmHWM".into(),
        }),
        limit: Some(limit(3.0 * GIB)),
        ..ChartOptions::default()
    };
    let chart = memory_chart(&training(0.88), &options);
    for wanted in [
        "gpt2-small, batch 32",
        "exited 0 after 1m 30s",
        "2026-11-15 07:55 UTC",
        "peak 2.50 GiB (VmHWM)",
        "limit 3.00 GiB, cgroup v1 /slurm/uid_1000/job_88",
        "python train.py",
        "areas scaled to the tree total (shared pages counted once)",
        "time (s)",
        "1.5 GiB",
    ] {
        assert!(has_text(&chart, wanted), "{wanted}: {:?}", texts(&chart));
    }
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

/// A typewriter's font is a fifth wider than ours.
#[test]
fn names_and_figures_of_the_legend_do_not_meet_in_another_font() {
    let mut recording = empty("long names");
    for (pid, name) in [(1, "torchrun --nproc-per-node 8"), (2, "python train.py")] {
        let points = [(0, 700.0 * MIB), (SECOND, 700.0 * MIB)];
        add_process(&mut recording, pid, name, &points);
    }
    let points = [(0, 1400.0 * MIB), (SECOND, 1400.0 * MIB)];
    add_tree(&mut recording, &points);
    let chart = plain(&recording);
    for font in [
        epaint_default_fonts::HACK_REGULAR,
        epaint_default_fonts::UBUNTU_LIGHT,
    ] {
        let texts = texts_in_font(&chart, font);
        let right_of_curves = texts.iter().filter(|text| text.1 > 650.0);
        let legend: Vec<_> = right_of_curves.collect();
        assert!(legend.len() >= 6, "{texts:?}");
        for (index, one) in legend.iter().enumerate() {
            for other in &legend[index + 1..] {
                let same_line = (one.3 - other.3).abs() < 8.0;
                let apart = one.2 < other.1 || other.2 < one.1;
                assert!(!same_line || apart, "{one:?} meets {other:?}");
            }
        }
    }
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

fn with_hole(secs: std::ops::Range<u64>) -> Recording {
    let mut recording = empty("gap");
    let points: Vec<_> = curve(100.0, 2.0, |_| MIB)
        .into_iter()
        .filter(|(time, _)| !(secs.start * SECOND..secs.end * SECOND).contains(time))
        .collect();
    add_tree(&mut recording, &points);
    recording
}

#[test]
fn a_gap_breaks_the_line_and_is_hatched() {
    let whole = plain(&with_hole(0..0));
    assert_eq!(line_path(&whole).matches('M').count(), 1);
    let broken = plain(&with_hole(30..50));
    assert_eq!(line_path(&broken).matches('M').count(), 2);
    assert!(has_text(&broken, "no samples"));
    assert!(broken.to_svg().contains("url(#gap)"));
}

#[test]
fn a_recorder_that_said_it_slowed_down_leaves_no_gap() {
    let mut recording = with_hole(30..35);
    let event = Event::Interval {
        nanos: 5 * SECOND,
        reason: "busy".into(),
    };
    add_event(&mut recording, 30 * SECOND, event);
    assert_eq!(line_path(&plain(&recording)).matches('M').count(), 1);
}

#[test]
fn a_recorded_gap_breaks_the_line_even_when_short() {
    let mut recording = with_hole(30..31);
    let reason = "stopped".to_owned();
    let nanos = SECOND;
    add_event(&mut recording, 31 * SECOND, Event::Gap { nanos, reason });
    assert_eq!(line_path(&plain(&recording)).matches('M').count(), 2);
}

#[test]
fn an_oom_kill_is_marked_once() {
    let mut recording = oom();
    assert!(has_text(&plain(&recording), "OOM kill"));
    let kill = Event::OomKill {
        cgroup: None,
        kills: 1,
    };
    add_event(&mut recording, 3600 * SECOND, kill);
    let chart = plain(&recording);
    let labels = texts(&chart).into_iter().filter(|text| text == "OOM kill");
    assert_eq!(labels.count(), 1);
}

#[test]
fn marks_in_one_place_say_how_many_more_there_are() {
    let mut recording = training(1.0);
    for text in ["saved", "evaluated", "lr halved"] {
        add_mark(&mut recording, 40.0, text);
    }
    let chart = plain(&recording);
    assert!(has_text(&chart, "saved +2"), "{:?}", texts(&chart));
}

#[test]
fn a_mark_leaves_the_captions_of_panels_alone() {
    let mut recording = training(1.0);
    add_mark(&mut recording, 40.0, "saved");
    add_metric(&mut recording, "python-1", "loss", &[(0, 0, 1.0)]);
    let options = ChartOptions {
        metrics: vec!["loss".to_owned()],
        ..ChartOptions::default()
    };
    let svg = memory_chart(&recording, &options).to_svg();
    let document = Document::parse(&svg).unwrap();
    let number = |text: &str| text.parse::<f64>().unwrap();
    let moments = document
        .descendants()
        .find(|node| node.attribute("class") == Some("moments"));
    let lines: Vec<(f64, f64)> = moments
        .unwrap()
        .descendants()
        .filter_map(|node| node.attribute("d"))
        .flat_map(|data| data.split('M').skip(1))
        .map(|piece| {
            let ends: Vec<&str> = piece.split(['L', ' ']).collect();
            (number(ends[1]), number(ends[3]))
        })
        .collect();
    let caption = document
        .descendants()
        .find(|node| node.has_tag_name("text") && node.text() == Some("loss"));
    let y = number(caption.unwrap().attribute("y").unwrap());
    assert!(lines.len() > 1, "{lines:?}");
    let is_free = |(from, to): &(f64, f64)| *to < y - 10.0 || *from > y;
    assert!(lines.iter().all(is_free), "{y}: {lines:?}");
}

#[test]
fn dense_marks_lose_labels_and_never_overlap() {
    let mut recording = training(1.0);
    for mark in 0..2000 {
        add_mark(
            &mut recording,
            f64::from(mark) * 0.045,
            &format!("step {mark}"),
        );
    }
    let labels = texts(&plain(&recording))
        .into_iter()
        .filter(|text| text.starts_with("step "))
        .count();
    assert!((5..=30).contains(&labels), "{labels}");
}

#[test]
fn small_processes_are_summed() {
    let chart = plain(&many_processes(5000));
    assert!(has_text(&chart, "4992 others"));
    assert!(chart.to_svg().len() < 1_000_000);
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

#[test]
fn a_process_that_lives_throughout_has_a_colour_among_many_short_ones() {
    let mut recording = empty("many");
    let throughout: Vec<(u64, f64)> = (0..=60).map(|t| (t * SECOND, 50.0 * MIB)).collect();
    add_process(&mut recording, 1, "server", &throughout);
    for n in 0..40 {
        let begin = u64::from(n + 1) * SECOND;
        let points = [(begin, 60.0 * MIB), (begin + SECOND / 10, 60.0 * MIB)];
        add_process(&mut recording, 100 + n, &format!("child {n}"), &points);
        let ended = Event::ProcessEnded {
            id: id(100 + n),
            exit_code: Some(0),
            signal: None,
            peak_rss_bytes: None,
        };
        add_event(&mut recording, begin + SECOND / 10, ended);
    }
    let ticks: Vec<u64> = (0..=600).map(|t| t * SECOND / 10).collect();
    sum_processes(&mut recording, &ticks, 1.0);
    let chart = plain(&recording);
    assert!(has_text(&chart, "server"), "{:?}", texts(&chart));
    assert!(has_text(&chart, "33 others"), "{:?}", texts(&chart));
}

#[test]
fn the_figures_of_limit_and_peak_are_never_cut() {
    let mut recording = training(0.88);
    recording.description.command = vec!["python".to_owned(), "x".repeat(500)];
    for width in [240, 300, 400, 480, 500, 560, 640, 960] {
        for peak in [0.5, 1.5, 2.4, 2.9, 2.99] {
            let options = ChartOptions {
                width,
                peak: Some(PeakMark {
                    bytes: (peak * GIB) as u64,
                    time_nanos: Some(45 * SECOND),
                    kind: "VmHWM".into(),
                }),
                limit: Some(limit(3.0 * GIB)),
                ..ChartOptions::default()
            };
            let chart = memory_chart(&recording, &options);
            let of_peak = format!("peak {}", format_bytes((peak * GIB).floor()));
            assert!(
                has_text(&chart, "limit 3.00 GiB") && has_text(&chart, &of_peak),
                "{width}: {:?}",
                texts(&chart)
            );
        }
    }
}

#[test]
fn the_heading_of_the_figures_stands_clear_of_the_command() {
    let mut recording = training(0.88);
    recording.description.command = vec!["python".to_owned(), "x".repeat(500)];
    let svg = plain(&recording).to_svg();
    let document = Document::parse(&svg).unwrap();
    let base = |wanted: &dyn Fn(&str) -> bool| -> f64 {
        let texts = document.descendants().filter(|n| n.has_tag_name("text"));
        let mut found = texts.filter(|node| node.text().is_some_and(wanted));
        found
            .next()
            .unwrap()
            .attribute("y")
            .unwrap()
            .parse()
            .unwrap()
    };
    let command = base(&|text| text.starts_with("python xxx"));
    let heading = base(&|text| text == "peak");
    assert!(heading - command >= 16.0, "{command} {heading}");
}

#[test]
fn a_narrow_legend_has_names_rather_than_figures() {
    let recording = training(0.88);
    let at = |width| {
        let options = ChartOptions {
            width,
            ..ChartOptions::default()
        };
        memory_chart(&recording, &options)
    };
    let (narrow, wide) = (at(500), at(960));
    for chart in [&narrow, &wide] {
        assert!(has_text(chart, "python train.py"), "{:?}", texts(chart));
    }
    let has_heading = |chart: &Chart| texts(chart).iter().any(|text| text == "peak");
    assert!(has_heading(&wide) && !has_heading(&narrow));
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

#[test]
fn our_own_names_in_the_legend_are_whole() {
    let recording = charged();
    let limit = recording.description.limit.clone();
    for width in [500, 640, 800, 960, 1400] {
        let options = ChartOptions {
            width,
            limit: limit.clone(),
            ..ChartOptions::default()
        };
        let told = texts(&memory_chart(&recording, &options));
        let is_whole = |text: &String| {
            [
                "charged to the cgroup, sampled",
                "charged to the cgroup",
                "cgroup charge",
                "charged",
            ]
            .contains(&text.as_str())
        };
        assert!(told.iter().any(is_whole), "{width}: {told:?}");
        let is_cut = |text: &String| text.starts_with("charged") && text.ends_with('…');
        assert!(!told.iter().any(is_cut), "{width}: {told:?}");
    }
}
