//! The legend: which processes have a colour of their own, and what has room beside their names.

use nilo_plot::{Chart, ChartOptions, PeakMark, memory_chart};
use nilo_sample::Event;
use nilo_sample::units::format_bytes;
use resvg::usvg::roxmltree::Document;

use super::{has_text, plain, texts, texts_in_font};
use crate::synthetic::*;

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
fn small_processes_are_summed() {
    let chart = plain(&many_processes(5000));
    assert!(has_text(&chart, "4992 others"));
    assert!(chart.to_svg().len() < 1_000_000);
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
