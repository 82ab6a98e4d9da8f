//! Several runs over each other, aligned at their start.

use nilo_sample::Recording;

use crate::chart::Chart;
use crate::curve::{Gap, Point, gaps, highest, pieces, tree_points};
use crate::frame::{Contents, Frame};
use crate::legend::{Entry, Swatch, legend, legend_width};
use crate::levels::{draw_limit, limit_text};
use crate::memory_chart::{line, range_nanos, split_limit};
use crate::options::ChartOptions;
use crate::svg::Element;
use crate::theme::Palette;

/// When the colours are used up, the lines are dashed.
const DASHES: [&str; 3] = ["", "6 3", "2 2.5"];

struct Run<'a> {
    label: &'a str,
    points: Vec<Point>,
    gaps: Vec<Gap>,
}

/// Draws the tree's memory of each run as a line; `options.peak` is not used, each run shows its own highest sample.
pub fn compare_chart(runs: &[(&str, &Recording)], options: &ChartOptions) -> Chart {
    let palette = options.theme.palette();
    let (width, height) = options.drawn_size();
    let mut longest_nanos = 1;
    let mut drawn: Vec<Run<'_>> = Vec::new();
    for (label, recording) in runs {
        let points = tree_points(recording);
        longest_nanos = longest_nanos.max(range_nanos(recording, &points, options.duration_nanos));
        let gaps = gaps(&points, recording);
        drawn.push(Run {
            label,
            points,
            gaps,
        });
    }
    let peaks: Vec<Option<Point>> = drawn.iter().map(|run| highest(&run.points)).collect();
    let peak_bytes = peaks.iter().flatten().map(|peak| peak.bytes);
    let peak_bytes = peak_bytes.fold(0.0, f64::max);
    let (near, far) = split_limit(options.limit.as_ref(), peak_bytes);
    let entries: Vec<Entry> = drawn
        .iter()
        .zip(&peaks)
        .enumerate()
        .map(|(index, (run, peak))| Entry {
            swatch: Swatch::Line {
                stroke: colour(index, palette).to_owned(),
                dash: dash(index, palette),
            },
            name: run.label.to_owned(),
            peak_bytes: peak.map(|peak| peak.bytes),
        })
        .collect();
    let frame = Frame::new(Contents {
        width,
        height,
        range_nanos: longest_nanos,
        highest_bytes: peak_bytes.max(near.map_or(0.0, |limit| limit.bytes as f64)),
        has_labels: false,
        legend_width: legend_width(&entries, width),
        footnotes: far
            .map(|limit| format!("{} (off the scale)", limit_text(limit)))
            .into_iter()
            .collect(),
    });

    let plural = if runs.len() == 1 { "" } else { "s" };
    let standard_title = format!("Memory of {} run{plural}", runs.len());
    let title = options.title.as_deref().unwrap_or(&standard_title);
    let subtitle =
        "whole process trees, aligned at the start of each run; dots mark the highest samples";
    let mut content = vec![
        frame.header(title, subtitle, palette),
        frame.grid(palette),
        frame.axes(palette),
    ];
    for (index, run) in drawn.iter().enumerate() {
        let pieces = pieces(&run.points, &run.gaps, |time| frame.x(time));
        let stroke = colour(index, palette);
        content.push(line(&pieces, &frame, stroke, dash(index, palette)));
    }
    for (index, peak) in peaks.iter().enumerate() {
        content.extend(peak.map(|peak| {
            let (x, y) = (frame.x(peak.time_nanos), frame.y(peak.bytes));
            Element::dot(x, y, 4.0, colour(index, palette))
                .attr("stroke", palette.background)
                .attr("stroke-width", "1.5")
        }));
    }
    content.extend(near.map(|limit| draw_limit(limit, None, &frame, palette)));
    if peaks.iter().all(Option::is_none) {
        content.push(frame.notice("no samples", palette));
    }
    content.push(legend(&entries, &frame, palette));
    Chart::new((width, height), title, palette, content)
}

fn colour(index: usize, palette: &Palette) -> &'static str {
    palette.series[index % palette.series.len()]
}

fn dash(index: usize, palette: &Palette) -> &'static str {
    DASHES[index / palette.series.len() % DASHES.len()]
}
