//! GPU memory of several runs in one panel, with a line for each run: that of its fullest GPU.

use nilo_analysis::gpus::has_unknown_share;
use nilo_sample::{RecordedTable, Recording, RunMode, Subject};

use crate::gpu_lines::stairs;
use crate::panel::{Panel, PanelKind, PanelSeries};
use crate::x_axis::XAxis;

/// The panel; nothing where no run was on a GPU. `style` has the colour and the dashes of a run's line.
pub(crate) fn compared_gpu_panel(
    runs: &[(&str, &Recording)],
    axis: &XAxis,
    width_px: f64,
    style: impl Fn(usize) -> (&'static str, &'static str),
) -> Option<Panel> {
    let has_gpu = runs.iter().filter(|(_, run)| gpus_of(run).next().is_some());
    let mut has_gpu = has_gpu.peekable();
    has_gpu.peek()?;
    // Lines of one panel are of one kind: the job's part only where every run has it.
    let (column, name) = match has_gpu.all(|(_, run)| has_shares(run)) {
        true => ("job_bytes", "GPU, GiB held by the job"),
        false => ("used_bytes", "GPU, GiB used"),
    };
    let mut of_several = false;
    let series = runs.iter().enumerate().filter_map(|(index, (_, run))| {
        let (table, _) = gpus_of(run)
            .filter_map(|table| Some((table, table.series(column)?.max()?.1)))
            .filter(|(_, most)| *most > 0.0)
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        of_several |= gpus_of(run).count() > 1;
        let ending = run.description.ending.as_ref();
        let end_nanos = ending.map(|ending| ending.time_nanos);
        let (stroke, dash) = style(index);
        Some(PanelSeries {
            stroke,
            dash,
            lines: stairs(table.series(column)?, end_nanos, axis, width_px),
        })
    });
    let series: Vec<PanelSeries> = series.collect();
    (!series.is_empty()).then(|| Panel {
        name: match of_several {
            true => format!("{name} (of several the fullest)"),
            false => name.to_owned(),
        },
        from_zero: true,
        kind: PanelKind::SeveralRuns,
        runs: 1,
        unseen: None,
        series,
    })
}

/// The GPUs that a run is about: those on which the job is not known to have held nothing.
fn gpus_of(run: &Recording) -> impl Iterator<Item = &RecordedTable> {
    let is_machine = run.description.mode == RunMode::Machine;
    run.tables.iter().filter(move |table| {
        let is_gpu = matches!(table.spec.subject, Subject::Gpu { .. });
        is_gpu && (is_machine || !holds_nothing(table))
    })
}

fn holds_nothing(table: &RecordedTable) -> bool {
    table.series("job_bytes").is_some_and(|job| {
        let most = job.max().map(|(_, most)| most);
        most == Some(0.0) && !has_unknown_share(table)
    })
}

fn has_shares(run: &Recording) -> bool {
    run.description.mode != RunMode::Machine && gpus_of(run).all(|table| !has_unknown_share(table))
}
