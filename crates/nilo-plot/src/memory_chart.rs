//! The chart of one run: the tree's memory as a line, its processes as areas under it, and what happened.

use nilo_analysis::{MetricHistory, StepClock, metrics};
use nilo_sample::units::format_bytes;
use nilo_sample::{Limit, Recording};

use crate::charged_line::{self, charged_points};
use crate::chart::Chart;
use crate::cpu_lines::cpu_panel;
use crate::curve::{CurvePoint, gaps, memory_points, pieces};
use crate::frame::{Contents, PlotArea};
use crate::gpu_lines::gpu_panels;
use crate::legend::{LegendEntry, Swatch, legend, legend_width};
use crate::levels::{PeakLabel, draw_limit, draw_peak, limit_on_scale, limit_text, peak_of};
use crate::marks::{draw_gaps, draw_moments, hatch, moments};
use crate::metric_lines::{chosen, metric_lines, step_range};
use crate::options::{ChartOptions, XAxisKind};
use crate::panel::{
    MOST_PANELS, Panel, PanelKind, PanelSeries, draw_panels, labels_width, panel_colour,
    panels_height,
};
use crate::stack::{LayerKind, Stack, stack};
use crate::subtitle::{subtitle, title};
use crate::svg::{Element, Path};
use crate::theme::Palette;
use crate::x_axis::XAxis;

/// The x axis is cut into this many columns before the layout is known; no chart has more pixels across.
const FINEST_COLUMNS: f64 = 2048.0;
/// A memory chart without samples over panels that have some is no higher than this.
const EMPTY_HEIGHT_PX: f64 = 200.0;

/// Draws the memory of a run over time or steps, and the chosen metrics below it.
pub fn memory_chart(recording: &Recording, options: &ChartOptions) -> Chart {
    let palette = options.theme.palette();
    let (width, mut height) = options.drawn_size();
    let points = memory_points(recording);
    let logged = metrics(recording);
    let names = &options.metrics[..options.metrics.len().min(MOST_PANELS)];
    let histories: Vec<(&str, MetricHistory)> = chosen(&logged, names).collect();
    let x_axis = x_axis(recording, &points, &histories, options);
    let is_steps = x_axis.is_steps();
    let (gpus, gpus_left_out) = gpu_panels(recording, &x_axis, width.min(FINEST_COLUMNS), palette);
    let of_metrics = histories
        .iter()
        .enumerate()
        .map(|(index, (name, history))| Panel {
            name: (*name).to_owned(),
            from_zero: false,
            kind: PanelKind::Values,
            runs: 1 + options.earlier_runs,
            unseen: None,
            series: vec![PanelSeries {
                stroke: panel_colour(index, palette),
                dash: "",
                lines: metric_lines(history, &x_axis, width.min(FINEST_COLUMNS)),
            }],
        });
    let gaps = gaps(&points, recording);
    let cpu = cpu_panel(
        recording,
        options.cpu,
        &gaps,
        &x_axis,
        width.min(FINEST_COLUMNS),
        palette,
    );
    let panels: Vec<Panel> = cpu.into_iter().chain(gpus).chain(of_metrics).collect();
    if points.is_empty() && !panels.is_empty() {
        height = height.min(EMPTY_HEIGHT_PX);
    }
    height += panels_height(&panels);
    let peak = peak_of(options.peak.as_ref(), &points);
    let peak_bytes = peak.as_ref().map_or(0.0, |peak| peak.bytes as f64);
    let charged = charged_points(recording, options.limit.as_ref(), &points, peak_bytes);
    let highest_charged = charged.iter().map(|point| point.bytes).fold(0.0, f64::max);
    let (limit, far_limit) = split_limit(options.limit.as_ref(), peak_bytes.max(highest_charged));

    let columns = width.min(FINEST_COLUMNS);
    let column = |time: u64| x_axis.share(time) * columns;
    let charged = pieces(&charged, &gaps, column);
    let pieces = pieces(&points, &gaps, column);
    let curve = pieces.concat();
    let max_processes = options.max_processes.min(palette.series.len());
    let restarts = x_axis.restarts();
    // Passes lie over each other, and areas would hide some of them: lines only.
    let stack = match restarts {
        0 => stack(recording, &curve, max_processes),
        _ => Stack::default(),
    };
    let mut entries = entries(&stack, &curve, palette);
    if !charged.is_empty() {
        if entries.is_empty() {
            entries.push(total_entry(&curve, palette));
        }
        entries.insert(0, charged_entry(highest_charged, palette));
    }
    let moments = moments(recording, options.ran_out);

    // What is cut for lack of room is the end, and never the figure of the limit.
    let far_limit = far_limit.map(|limit| format!("{} (off the scale)", limit_text(limit)));
    let mut footnotes: Vec<String> = far_limit.into_iter().collect();
    if stack.scaled {
        footnotes.push("areas scaled to the tree total (shared pages counted once)".to_owned());
    }
    if !charged.is_empty() {
        footnotes.push(charged_line::FOOTNOTE.to_owned());
    }
    if gpus_left_out > 0 {
        footnotes.push(format!("{gpus_left_out} more GPUs are not drawn"));
    }
    if recording.dropped_samples() > 0 {
        footnotes.push(format!("{} samples were lost", recording.dropped_samples()));
    }
    if recording.dropped_program_rows > 0 && !histories.is_empty() {
        footnotes.push(format!(
            "{} logged rows were lost",
            recording.dropped_program_rows
        ));
    }
    if is_steps && !points.is_empty() {
        footnotes.push("memory stands at the step that was trained at its time".to_owned());
    }
    if options.earlier_runs > 0 && !points.is_empty() {
        footnotes.push("memory and CPU are those of the last run alone".to_owned());
    }
    if restarts > 0 {
        let times = if restarts == 1 { "time" } else { "times" };
        footnotes.push(format!(
            "steps go back {restarts} {times}: a line for each pass"
        ));
    }
    let unseen = match (points.first(), points.last()) {
        (Some(first), Some(last)) => x_axis.why_unseen(first.time_nanos, last.time_nanos),
        _ => Some("no samples"),
    };
    let limit_bytes = limit.map_or(0.0, |limit| limit.bytes as f64);
    let sampled_bytes = curve.iter().map(|point| point.bytes).fold(0.0, f64::max);
    let frame = PlotArea::new(Contents {
        width,
        height,
        x_axis,
        highest_bytes: (peak.is_some() || limit.is_some()).then_some(
            peak_bytes
                .max(limit_bytes)
                .max(sampled_bytes)
                .max(highest_charged),
        ),
        has_labels: !moments.is_empty(),
        legend_width: legend_width(&entries, width),
        footnotes,
        panels_height: panels_height(&panels),
        panel_labels_width: labels_width(&panels),
    });

    let title = options
        .title
        .as_deref()
        .unwrap_or(title(&recording.description));
    let subtitle = subtitle(&recording.description, options, width - 32.0);
    let mut content = vec![
        hatch(palette),
        frame.header(title, &subtitle, palette),
        frame.grid(palette),
        match restarts {
            0 => areas(&stack, &pieces, &frame, palette),
            _ => Element::group(),
        },
        // What one pass lacks, another has at the same steps.
        draw_gaps(if restarts == 0 { &gaps } else { &[] }, &frame, palette),
        frame.axes(palette),
        draw_panels(&panels, &frame, palette),
        draw_moments(&moments, &frame, palette),
        line(&pieces, &frame, palette.ink, ""),
        Element::group().attr("class", "charged").child(line(
            &charged,
            &frame,
            palette.danger,
            charged_line::DASH,
        )),
    ];
    let peak_label = peak
        .as_ref()
        .map(|peak| PeakLabel::place(peak, &curve, limit, &frame));
    content.extend(limit.map(|limit| draw_limit(limit, peak_label.as_ref(), &frame, palette)));
    content.extend(unseen.map(|why| frame.notice(why, palette)));
    if let (Some(peak), Some(peak_label)) = (&peak, &peak_label) {
        content.push(draw_peak(peak, peak_label, &points, &frame, palette));
    }
    content.push(legend(&entries, &frame, palette));
    let description = format!(
        "Memory of {title} over {}, peak {}",
        if is_steps { "steps" } else { "time" },
        format_bytes(peak_bytes)
    );
    Chart::new((width, height), &description, palette, content)
}

/// Steps where they are asked for and known, else time up to the last thing that is drawn.
fn x_axis(
    recording: &Recording,
    points: &[CurvePoint],
    histories: &[(&str, MetricHistory)],
    options: &ChartOptions,
) -> XAxis {
    if options.across == XAxisKind::Steps
        && let Some(mut axis) = XAxis::steps(&StepClock::of(recording))
    {
        for range in histories
            .iter()
            .filter_map(|(_, history)| step_range(history))
        {
            axis.include_steps(range);
        }
        return axis;
    }
    let range_nanos = range_nanos(recording, points, options.duration_nanos);
    let last = histories
        .iter()
        .filter_map(|(_, history)| history.points.last());
    let logged_nanos = last.map(|point| point.time_nanos).max();
    XAxis::time(range_nanos.max(logged_nanos.unwrap_or(0)))
}

/// The length of the time axis: what was asked for, but never less than what there is to see.
pub(crate) fn range_nanos(recording: &Recording, points: &[CurvePoint], asked: Option<u64>) -> u64 {
    let last_nanos = points.last().map_or(0, |point| point.time_nanos);
    let ending = recording.description.ending.as_ref();
    let ended_nanos = ending.map_or(0, |ending| ending.time_nanos);
    let range_nanos = last_nanos.max(asked.unwrap_or(ended_nanos));
    // A single sample at the start still has an axis to stand on.
    if range_nanos == 0 {
        1_000_000_000
    } else {
        range_nanos
    }
}

/// The limit to draw, or the one too far up to be drawn.
pub(crate) fn split_limit(
    limit: Option<&Limit>,
    peak_bytes: f64,
) -> (Option<&Limit>, Option<&Limit>) {
    match limit.filter(|limit| limit.bytes < nilo_sample::limit::NO_LIMIT_FROM) {
        Some(limit) if limit_on_scale(limit, peak_bytes) => (Some(limit), None),
        far => (None, far),
    }
}

/// The legend, in the order in which the eye meets the colours: the line, then the areas from top to bottom.
fn entries(stack: &Stack, curve: &[CurvePoint], palette: &Palette) -> Vec<LegendEntry> {
    if stack.layers.is_empty() || curve.is_empty() {
        return Vec::new();
    }
    let total = total_entry(curve, palette);
    let unattributed = stack.unattributed.then(|| LegendEntry {
        swatch: Swatch::Area {
            fill: unattributed_fill(palette),
        },
        name: "in no process".to_owned(),
        shorter_names: &[],
        peak_bytes: None,
    });
    let layers = stack.layers.iter().enumerate().rev();
    let layers = layers.map(|(index, layer)| LegendEntry {
        swatch: Swatch::Area {
            fill: layer_fill(index, layer.kind, palette),
        },
        name: layer.name.clone(),
        shorter_names: &[],
        peak_bytes: layer.peak_bytes,
    });
    [total]
        .into_iter()
        .chain(unattributed)
        .chain(layers)
        .collect()
}

fn total_entry(curve: &[CurvePoint], palette: &Palette) -> LegendEntry {
    LegendEntry {
        swatch: Swatch::Line {
            stroke: palette.ink.to_owned(),
            dash: "",
        },
        name: "whole tree, sampled".to_owned(),
        shorter_names: &["whole tree"],
        peak_bytes: Some(curve.iter().map(|point| point.bytes).fold(0.0, f64::max)),
    }
}

fn charged_entry(highest_bytes: f64, palette: &Palette) -> LegendEntry {
    LegendEntry {
        swatch: Swatch::Line {
            stroke: palette.danger.to_owned(),
            dash: charged_line::DASH,
        },
        name: charged_line::NAME.to_owned(),
        shorter_names: &charged_line::SHORTER_NAMES,
        peak_bytes: Some(highest_bytes),
    }
}

fn layer_fill(index: usize, kind: LayerKind, palette: &Palette) -> String {
    match kind {
        LayerKind::Process => palette.tint(palette.series[index % palette.series.len()], 0.75),
        LayerKind::Others => palette.tint(palette.others, 0.75),
    }
}

fn unattributed_fill(palette: &Palette) -> String {
    palette.tint(palette.axis, 0.18)
}

/// The areas, each drawn from the base line up to its upper edge, the highest first: no seams, and half the path data.
fn areas(
    stack: &Stack,
    pieces: &[Vec<CurvePoint>],
    frame: &PlotArea,
    palette: &Palette,
) -> Element {
    let mut group = Element::group().attr("class", "areas");
    let heights: Vec<f64> = pieces.iter().flatten().map(|point| point.bytes).collect();
    if stack.layers.is_empty() {
        let fill = palette.tint(palette.series[0], 0.35);
        group.push(area(pieces, &heights, frame, &fill));
        return group;
    }
    if stack.unattributed {
        let fill = unattributed_fill(palette);
        group.push(area(pieces, &heights, frame, &fill).tooltip("in no process"));
    }
    let mut edge = vec![0.0; heights.len()];
    let mut drawn = Vec::new();
    for (index, layer) in stack.layers.iter().enumerate() {
        for (edge, height) in edge.iter_mut().zip(&layer.heights) {
            *edge += height;
        }
        let fill = layer_fill(index, layer.kind, palette);
        let name: String = layer.name.chars().take(300).collect();
        drawn.push(area(pieces, &edge, frame, &fill).tooltip(&name));
    }
    for element in drawn.into_iter().rev() {
        group.push(element);
    }
    group
}

fn area(pieces: &[Vec<CurvePoint>], edge: &[f64], frame: &PlotArea, fill: &str) -> Element {
    let mut path = Path::default();
    let mut edge = edge.iter().copied();
    for piece in pieces {
        let Some(last) = piece.last() else {
            continue;
        };
        path.move_to(frame.x(piece[0].time_nanos), frame.bottom);
        for (point, height) in piece.iter().zip(edge.by_ref()) {
            path.line_to(frame.x(point.time_nanos), frame.y(height));
        }
        path.line_to(frame.x(last.time_nanos), frame.bottom);
        path.close();
    }
    path.element().attr("fill", fill)
}

/// The curve; pieces of a single sample are dots.
pub(crate) fn line(
    pieces: &[Vec<CurvePoint>],
    frame: &PlotArea,
    stroke: &str,
    dash: &'static str,
) -> Element {
    let mut group = Element::group().attr("class", "line");
    let mut path = Path::default();
    // Where every pixel column has its ups and downs, a thick line would be a black band.
    let dense =
        pieces.iter().map(Vec::len).sum::<usize>() as f64 > 2.0 * (frame.right - frame.left);
    for piece in pieces {
        if let [point] = piece[..] {
            let (x, y) = (frame.x(point.time_nanos), frame.y(point.bytes));
            group.push(Element::dot(x, y, 2.2, stroke));
            continue;
        }
        for (index, point) in piece.iter().enumerate() {
            let (x, y) = (frame.x(point.time_nanos), frame.y(point.bytes));
            if index == 0 {
                path.move_to(x, y);
            } else {
                path.line_to(x, y);
            }
        }
    }
    if !path.is_empty() {
        let path = path
            .element()
            .attr("fill", "none")
            .attr("stroke", stroke)
            .num("stroke-width", if dense { 1.0 } else { 1.6 })
            .attr("stroke-linejoin", "round");
        group.push(if dash.is_empty() {
            path
        } else {
            path.attr("stroke-dasharray", dash)
        });
    }
    group
}
