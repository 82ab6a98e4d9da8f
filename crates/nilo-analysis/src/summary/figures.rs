//! The figures that every picture of a run shows: those of its summary, without the forecasts, which no picture needs.

use nilo_sample::{Ending, Recording};

use super::cpu::{CpuSummary, summarize_cpu};
use super::memory::{MemorySummary, summarize_memory};
use crate::assessment::{RanOut, ran_out_without_growth};
use crate::metric_history::metrics;

/// What a picture says in numbers.
#[derive(Debug, Clone)]
pub struct ChartFigures {
    /// From start to end.
    pub duration_nanos: u64,
    /// Memory of the whole tree.
    pub memory: MemorySummary,
    /// What it ended of, where that is memory; without the growth that led there.
    pub ran_out: Option<RanOut>,
    /// CPU of the whole tree.
    pub cpu: CpuSummary,
    /// What the program logged, in the order of its first values.
    pub metrics: Vec<String>,
}

impl ChartFigures {
    /// The figures of a recording whose ending has been judged.
    pub fn of(recording: &Recording, ending: &Ending) -> ChartFigures {
        let duration_nanos = ending.time_nanos.max(1);
        let logged = metrics(recording);
        let names = logged.into_iter().filter(|metric| metric.has_values());
        let ran_out = ran_out_without_growth(recording, ending);
        ChartFigures {
            duration_nanos,
            memory: summarize_memory(recording).with_ending(ran_out.as_ref()),
            ran_out,
            cpu: summarize_cpu(recording, duration_nanos),
            metrics: names.map(|metric| metric.name).collect(),
        }
    }

    /// Takes the CPU figures of another reading of the run: of thinned rows the busiest second cannot be told.
    pub fn take_cpu_of(&mut self, recording: &Recording) {
        self.cpu = summarize_cpu(recording, self.duration_nanos);
    }

    /// The metric to draw when nobody names one.
    pub fn usual_metric(&self) -> Option<String> {
        usual_metric(self.metrics.iter().map(String::as_str))
    }
}

/// The metric to draw when nobody names one: the loss, or else the first.
pub(super) fn usual_metric<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<String> {
    let loss = names.clone().find(|name| *name == "loss");
    let some_loss = || names.clone().find(|name| name.ends_with("/loss"));
    let chosen = loss.or_else(some_loss).or_else(|| names.clone().next())?;
    Some(chosen.to_owned())
}

#[cfg(test)]
mod tests {
    use nilo_sample::rows::TreeRow;
    use nilo_sample::{NO_STEP, TableSpec, fixture};

    use super::*;
    use crate::ending::{EndingEvidence, judge_ending};
    use crate::summary::summarize;

    #[test]
    fn a_picture_has_the_figures_of_the_summary() {
        let mut recording = fixture::recording();
        let row = |bytes: f64, cpu_secs: f64| TreeRow {
            memory_bytes: bytes,
            rss_bytes: bytes,
            cpu_nanos: cpu_secs * 1e9,
            processes: 1.0,
            ..TreeRow::ABSENT
        };
        let second = 1_000_000_000;
        let rows = [
            (0, row(5e6, 0.0)),
            (second, row(9e6, 0.5)),
            (3 * second, row(7e6, 2.5)),
        ];
        recording
            .tables
            .push(fixture::table_of(TableSpec::tree(), &rows));
        for (name, value) in [
            ("unused", nilo_sample::ABSENT),
            ("eval/loss", 1.0),
            ("lr", 2.0),
        ] {
            let mut table = fixture::table(TableSpec::metrics("metrics", [name]));
            fixture::tick_values(&mut table, second, &[value]);
            table.steps.push(NO_STEP);
            recording.tables.push(table);
        }
        let evidence = EndingEvidence {
            exit_code: Some(0),
            time_nanos: Some(4 * second),
            ..EndingEvidence::default()
        };
        let ending = judge_ending(&recording, &evidence);
        let (summary, figures) = (
            summarize(&recording, &ending),
            ChartFigures::of(&recording, &ending),
        );
        assert_eq!(figures.memory.peak_bytes, Some(9_000_000));
        assert_eq!(figures.memory.peak_secs, summary.memory.peak_secs);
        assert_eq!(figures.cpu, summary.cpu);
        assert_eq!(figures.cpu.max_percent, Some(100.0));
        assert_eq!(figures.usual_metric().as_deref(), Some("eval/loss"));
        assert_eq!(figures.usual_metric(), summary.usual_metric());
        assert!(
            summary
                .metrics
                .iter()
                .map(|metric| &metric.name)
                .eq(&figures.metrics)
        );
    }
}
