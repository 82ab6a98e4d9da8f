//! What happened at a moment: gaps, kills and marks.

use nilo_plot::{ChartOptions, memory_chart};
use nilo_sample::{Event, Recording};
use resvg::usvg::roxmltree::Document;

use super::{has_text, line_path, plain, texts};
use crate::synthetic::*;

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
