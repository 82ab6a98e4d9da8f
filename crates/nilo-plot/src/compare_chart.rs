//! Several runs over each other, aligned at their start.

use nilo_analysis::{Metric, metrics};
use nilo_sample::{Recording, Subject};

use crate::chart::Chart;
use crate::curve::{Gap, Point, gaps, highest, pieces, tree_points};
use crate::frame::{Contents, Frame};
use crate::legend::{Entry, Swatch, legend, legend_width};
use crate::levels::{draw_limit, limit_text};
use crate::memory_chart::{line, range_nanos, split_limit};
use crate::metric_lines::{chosen, metric_lines};
use crate::options::ChartOptions;
use crate::panel::{MOST_PANELS, Panel, PanelSeries, draw_panels, labels_width, panels_height};
use crate::svg::Element;
use crate::theme::Palette;
use crate::x_axis::XAxis;

/// When the colours are used up, the lines are dashed.
const DASHES: [&str; 3] = ["", "6 3", "2 2.5"];

struct Run<'a> {
    label: &'a str,
    points: Vec<Point>,
    gaps: Vec<Gap>,
    metrics: Vec<Metric<'a>>,
}

/// Draws the tree's memory of each run as a line, and below it the chosen metrics of all runs.
///
/// `options.peak` is not used, each run shows its own highest sample; `options.across` neither, runs are laid over each other by time.
pub fn compare_chart(runs: &[(&str, &Recording)], options: &ChartOptions) -> Chart {
    let palette = options.theme.palette();
    let (width, mut height) = options.drawn_size();
    let mut longest_nanos = 1;
    let mut drawn: Vec<Run<'_>> = Vec::new();
    for (label, recording) in runs {
        let points = tree_points(recording);
        longest_nanos = longest_nanos.max(range_nanos(recording, &points, options.duration_nanos));
        if !options.metrics.is_empty() {
            longest_nanos = longest_nanos.max(last_logged_nanos(recording));
        }
        let gaps = gaps(&points, recording);
        drawn.push(Run {
            label,
            points,
            gaps,
            metrics: metrics(recording),
        });
    }
    let x_axis = XAxis::time(longest_nanos);
    let panels = panels(&drawn, &x_axis, options, palette);
    height += panels_height(&panels);
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
        x_axis,
        highest_bytes: peak_bytes.max(near.map_or(0.0, |limit| limit.bytes as f64)),
        has_labels: false,
        legend_width: legend_width(&entries, width),
        footnotes: far
            .map(|limit| format!("{} (off the scale)", limit_text(limit)))
            .into_iter()
            .collect(),
        panels_height: panels_height(&panels),
        panel_labels_width: labels_width(&panels),
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
        draw_panels(&panels, &frame, palette),
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

/// When a metric was logged last.
fn last_logged_nanos(recording: &Recording) -> u64 {
    let tables = recording.tables.iter();
    let logged = tables.filter(|table| matches!(table.spec.subject, Subject::Metrics { .. }));
    let last = logged.filter_map(|table| table.times.last().copied());
    last.max().unwrap_or(0)
}

/// A panel for each chosen metric, with a line for each run that logged it.
fn panels(
    runs: &[Run<'_>],
    x_axis: &XAxis,
    options: &ChartOptions,
    palette: &Palette,
) -> Vec<Panel> {
    let names = options.metrics.iter().take(MOST_PANELS);
    let panels = names.map(|name| {
        let series = runs.iter().enumerate().filter_map(|(index, run)| {
            let (_, history) = chosen(&run.metrics, std::slice::from_ref(name)).next()?;
            Some(PanelSeries {
                stroke: colour(index, palette),
                dash: dash(index, palette),
                lines: metric_lines(&history, x_axis, f64::from(options.width)),
            })
        });
        Panel {
            name: name.clone(),
            from_zero: false,
            series: series.collect(),
        }
    });
    panels.collect()
}

fn colour(index: usize, palette: &Palette) -> &'static str {
    palette.series[index % palette.series.len()]
}

fn dash(index: usize, palette: &Palette) -> &'static str {
    DASHES[index / palette.series.len() % DASHES.len()]
}
