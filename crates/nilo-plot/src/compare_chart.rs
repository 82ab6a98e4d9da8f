//! Several runs over each other, aligned at their start.

use nilo_analysis::assessment::ran_out_without_growth;
use nilo_analysis::ending::limit_in_force;
use nilo_analysis::peak::tree_peak;
use nilo_analysis::{Metric, metrics};
use nilo_sample::units::format_bytes;
use nilo_sample::{Limit, Recording, RunMode, Subject};

use crate::chart::Chart;
use crate::compare_gpu_lines::compared_gpu_panel;
use crate::curve::{CurvePoint, SampleGap, gaps, height_at, memory_points, pieces};
use crate::frame::{Contents, PlotArea};
use crate::legend::{LegendEntry, Swatch, legend, legend_width};
use crate::levels::{draw_level, limit_text, peak_mark, peak_of};
use crate::limit_labels::LimitLabels;
use crate::marks::{BETWEEN_LABELS_PX, PlotMark, draw_moments, label_range, moments};
use crate::memory_chart::{line, range_nanos, split_limit};
use crate::metric_lines::{chosen, metric_lines};
use crate::options::{ChartOptions, PeakMark, RanOutMark};
use crate::panel::{
    MOST_PANELS, Panel, PanelKind, PanelSeries, draw_panels, labels_width, panels_height,
};
use crate::svg::Element;
use crate::theme::Palette;
use crate::x_axis::XAxis;

/// When the colours are used up, the lines are dashed.
const DASHES: [&str; 3] = ["", "6 3", "2 2.5"];

struct ComparedCurve<'a> {
    label: &'a str,
    points: Vec<CurvePoint>,
    gaps: Vec<SampleGap>,
    metrics: Vec<Metric<'a>>,
}

/// Draws the tree's memory of each run as a line, and below it the GPU memory and the chosen metrics of all runs.
///
/// Each run shows its own peak, its limit and its OOM kill: `options.peak` is not used, and `options.limit` is that of runs without one.
/// `options.across` is not used either, runs are laid over each other by time.
pub fn compare_chart(runs: &[(&str, &Recording)], options: &ChartOptions) -> Chart {
    let palette = options.theme.palette();
    let (width, mut height) = options.drawn_size();
    let mut longest_nanos = 1;
    let mut drawn: Vec<ComparedCurve<'_>> = Vec::new();
    for (label, recording) in runs {
        let points = memory_points(recording);
        longest_nanos = longest_nanos.max(range_nanos(recording, &points, options.duration_nanos));
        if !options.metrics.is_empty() {
            longest_nanos = longest_nanos.max(last_logged_nanos(recording));
        }
        let gaps = gaps(&points, recording);
        drawn.push(ComparedCurve {
            label,
            points,
            gaps,
            metrics: metrics(recording),
        });
    }
    let x_axis = XAxis::time(longest_nanos);
    let style = |index: usize| (colour(index, palette), dash(index, palette));
    let gpus = compared_gpu_panel(runs, &x_axis, f64::from(options.width), style);
    let of_metrics = panels(&drawn, &x_axis, options, palette);
    let panels: Vec<Panel> = gpus.into_iter().chain(of_metrics).collect();
    height += panels_height(&panels);
    let peaks: Vec<Option<PeakMark>> = drawn
        .iter()
        .zip(runs)
        .map(|(run, (_, recording))| peak_of(known_peak(recording).as_ref(), &run.points))
        .collect();
    let has_samples = peaks.iter().any(Option::is_some);
    let peak_bytes = peaks.iter().flatten().map(|peak| peak.bytes as f64);
    let peak_bytes = peak_bytes.fold(0.0, f64::max);
    let limits = limits(runs, options.limit.as_ref());
    let is_near = |limit: &&RunLimit<'_>| split_limit(Some(&limit.limit), peak_bytes).0.is_some();
    let near: Vec<&RunLimit<'_>> = limits.iter().filter(is_near).collect();
    let far = limits.iter().filter(|limit| !is_near(limit));
    let far = far.filter(|limit| split_limit(Some(&limit.limit), peak_bytes).1.is_some());
    let footnotes = far.map(|limit| format!("{} (off the scale)", limit.text()));
    let highest_limit = near.iter().map(|limit| limit.limit.bytes as f64);
    let highest_limit = highest_limit.fold(0.0, f64::max);
    let kills = kills(&drawn, runs);
    let entries: Vec<LegendEntry> = drawn
        .iter()
        .zip(&peaks)
        .enumerate()
        .map(|(index, (run, peak))| LegendEntry {
            swatch: Swatch::Line {
                stroke: colour(index, palette).to_owned(),
                dash: dash(index, palette),
            },
            name: run.label.to_owned(),
            shorter_names: &[],
            peak_bytes: peak.as_ref().map(|peak| peak.bytes as f64),
        })
        .collect();
    let frame = PlotArea::new(Contents {
        width,
        height,
        x_axis,
        highest_bytes: has_samples.then_some(peak_bytes.max(highest_limit)),
        has_labels: !kills.is_empty(),
        legend_width: legend_width(&entries, width),
        footnotes: footnotes.collect(),
        panels_height: panels_height(&panels),
        panel_labels_width: labels_width(&panels),
    });

    let plural = if runs.len() == 1 { "" } else { "s" };
    let standard_title = format!("Memory of {} run{plural}", runs.len());
    let title = options.title.as_deref().unwrap_or(&standard_title);
    let is_machine = |(_, run): &(&str, &Recording)| run.description.mode == RunMode::Machine;
    let of = match runs.iter().all(is_machine) {
        true => "host memory",
        false => "whole process trees",
    };
    let subtitle = format!("{of}, aligned at the start of each run; dots and stems mark the peaks");
    let mut content = vec![
        frame.header(title, &subtitle, palette),
        frame.grid(palette),
        frame.axes(palette),
        draw_panels(&panels, &frame, palette),
    ];
    for (index, run) in drawn.iter().enumerate() {
        let pieces = pieces(&run.points, &run.gaps, |time| frame.x(time));
        let stroke = colour(index, palette);
        content.push(line(&pieces, &frame, stroke, dash(index, palette)));
    }
    for (index, (run, peak)) in drawn.iter().zip(&peaks).enumerate() {
        let colour = colour(index, palette);
        content.extend(
            peak.as_ref()
                .map(|peak| peak_mark(peak, &run.points, colour, &frame, palette)),
        );
    }
    let texts = kill_texts(&kills, &frame);
    let moments = kills.iter().zip(&texts).map(|(kill, text)| PlotMark {
        time_nanos: kill.time_nanos,
        text,
        is_kill: true,
    });
    content.push(draw_moments(&moments.collect::<Vec<_>>(), &frame, palette));
    let limit_y = |limit: &RunLimit<'_>| frame.y(limit.limit.bytes as f64);
    let heights = near.iter().map(|limit| limit_y(limit)).collect();
    let mut labels = LimitLabels::new(&frame, heights);
    for limit in near {
        let place = labels.place(limit_y(limit), &limit.texts());
        let colour = limit.colour(palette);
        let level = draw_level(&limit.limit, place.as_ref(), colour, &frame, palette);
        content.push(level.tooltip(&limit.text()));
    }
    content.extend(kills.iter().map(|kill| kill.cross(&frame, palette)));
    if !has_samples {
        content.push(frame.notice("no samples", palette));
    }
    content.push(legend(&entries, &frame, palette));
    Chart::new((width, height), title, palette, content)
}

/// A limit, and whose it is where it is not that of all runs.
struct RunLimit<'a> {
    limit: Limit,
    is_of_one_source: bool,
    of: Vec<(usize, &'a str)>,
}

impl RunLimit<'_> {
    fn text(&self) -> String {
        match self.is_of_one_source {
            true => self.with_names(limit_text(&self.limit)),
            false => self.with_names(self.figure()),
        }
    }

    /// The same, and shorter ones for where it has no room.
    fn texts(&self) -> [String; 3] {
        [self.text(), self.with_names(self.figure()), self.figure()]
    }

    fn figure(&self) -> String {
        format!("limit {}", format_bytes(self.limit.bytes as f64))
    }

    fn with_names(&self, limit: String) -> String {
        let short = |(_, label): &(usize, &str)| label.chars().take(40).collect::<String>();
        let labels: Vec<String> = self.of.iter().map(short).collect();
        match labels.is_empty() {
            true => limit,
            false => format!("{}: {limit}", labels.join(", ")),
        }
    }

    /// Its run's, or red for that of several.
    fn colour(&self, palette: &Palette) -> &'static str {
        match self.of[..] {
            [(index, _)] => colour(index, palette),
            _ => palette.danger,
        }
    }
}

/// The limits in force at the end of each run, each told once; `usual` is that of runs without one.
fn limits<'a>(runs: &[(&'a str, &Recording)], usual: Option<&Limit>) -> Vec<RunLimit<'a>> {
    let mut limits: Vec<RunLimit<'a>> = Vec::new();
    for (index, (label, recording)) in runs.iter().enumerate() {
        let in_force = limit_in_force(recording).or_else(|| usual.cloned());
        let Some(limit) = in_force.filter(Limit::is_of_memory) else {
            continue;
        };
        match limits
            .iter_mut()
            .find(|known| known.limit.bytes == limit.bytes)
        {
            // One line, where cgroups of two names have one limit.
            Some(known) => {
                known.is_of_one_source &= known.limit.source == limit.source;
                known.of.push((index, label));
            }
            None => limits.push(RunLimit {
                limit,
                is_of_one_source: true,
                of: vec![(index, label)],
            }),
        }
    }
    for limit in &mut limits {
        if limit.of.len() == runs.len() {
            limit.of.clear();
        }
    }
    limits
}

/// The peak that `nilo show` tells.
fn known_peak(recording: &Recording) -> Option<PeakMark> {
    tree_peak(recording).map(|peak| PeakMark {
        bytes: peak.bytes as u64,
        time_nanos: Some(peak.time_nanos),
        kind: peak.kind.measured_by().to_owned(),
    })
}

/// That memory ran out, as `nilo show` tells it.
fn ran_out_mark(recording: &Recording) -> Option<RanOutMark> {
    let ending = recording.description.ending.as_ref()?;
    let ran_out = ran_out_without_growth(recording, ending)?;
    Some(RanOutMark::of(&ran_out))
}

/// An OOM kill of a run, or where else its memory ran out.
struct Kill<'a> {
    label: &'a str,
    what: &'static str,
    time_nanos: u64,
    /// The height of the run's curve there.
    bytes: f64,
}

impl Kill<'_> {
    /// A cross where the curve ends.
    fn cross(&self, frame: &PlotArea, palette: &Palette) -> Element {
        const ARM_PX: f64 = 5.0;
        let (x, y) = (frame.x(self.time_nanos), frame.y(self.bytes));
        let arm = |dy: f64| {
            Element::line((x - ARM_PX, y - dy), (x + ARM_PX, y + dy), palette.danger)
                .attr("stroke-width", "2.2")
        };
        Element::group()
            .attr("class", "kill")
            .child(arm(ARM_PX))
            .child(arm(-ARM_PX))
    }
}

/// The kill of each run, in the order of time.
fn kills<'a>(drawn: &[ComparedCurve<'_>], runs: &[(&'a str, &Recording)]) -> Vec<Kill<'a>> {
    let of_run = |(run, (label, recording)): (&ComparedCurve<'_>, &(&'a str, &Recording))| {
        let ran_out = ran_out_mark(recording);
        let moments = moments(recording, ran_out).into_iter();
        let kills = moments.filter(|it| it.is_kill);
        // Of several kills in a run the first is marked.
        let kill = kills.min_by_key(|kill| kill.time_nanos)?;
        let last = run.points.last()?;
        let at = height_at(&run.points, kill.time_nanos);
        Some(Kill {
            label,
            what: ran_out.map_or("OOM kill", RanOutMark::text),
            time_nanos: kill.time_nanos,
            bytes: at.unwrap_or(last.bytes),
        })
    };
    let mut kills: Vec<Kill<'a>> = drawn.iter().zip(runs).filter_map(of_run).collect();
    kills.sort_by_key(|kill| kill.time_nanos);
    kills
}

/// A text for each kill. Those whose labels would collide have one label together, at the first of them, and an empty text at the others.
fn kill_texts(kills: &[Kill<'_>], frame: &PlotArea) -> Vec<String> {
    let text = |group: &[Kill<'_>]| {
        let short = |kill: &Kill<'_>| kill.label.chars().take(40).collect::<String>();
        let labels: Vec<String> = group.iter().map(short).collect();
        let mut causes: Vec<&str> = group.iter().map(|kill| kill.what).collect();
        causes.dedup();
        let what = match (&causes[..], labels.len()) {
            (["OOM kill"], 2..) => "OOM kills",
            ([only], _) => only,
            _ => "out of memory",
        };
        format!("{what}: {}", labels.join(", "))
    };
    let range = |group: &[Kill<'_>]| {
        let first = group.first().map_or(0, |kill| kill.time_nanos);
        label_range(&text(group), frame.x(first), frame)
    };
    // Where each group begins.
    let mut begins: Vec<usize> = (0..kills.len()).collect();
    let collision = |begins: &[usize]| {
        let group = |place: usize| {
            let end = begins.get(place + 1).copied().unwrap_or(kills.len());
            &kills[begins[place]..end]
        };
        (1..begins.len())
            .find(|place| range(group(place - 1)).1 + BETWEEN_LABELS_PX >= range(group(*place)).0)
    };
    while let Some(place) = collision(&begins) {
        begins.remove(place);
    }
    let mut texts = vec![String::new(); kills.len()];
    for (place, begin) in begins.iter().enumerate() {
        let end = begins.get(place + 1).copied().unwrap_or(kills.len());
        texts[*begin] = text(&kills[*begin..end]);
    }
    texts
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
    runs: &[ComparedCurve<'_>],
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
            kind: PanelKind::Values,
            runs: 1,
            unseen: None,
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
