//! The GPUs of several runs side by side. Runs need not be on the same ones, so figures are of the fullest GPU of each run.

use nilo_sample::RunMode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::gpus::GpuSummary;
use crate::summary::Summary;

/// The GPUs of one run of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, JsonSchema, Serialize)]
pub struct ComparedGpus {
    /// How many it was on; where the job's share is not known, how many it could see.
    pub count: usize,
    /// The most that the job held on one of them; absent where the driver does not tell.
    pub peak_job_bytes: Option<u64>,
    /// The most that was used on one of them, by whomever.
    pub peak_used_bytes: Option<u64>,
    /// Mean share of the time in which some kernel ran, over all of them.
    pub mean_utilization: Option<f64>,
    /// Peak of the job against the first run's: 0.1 is ten percent more.
    pub peak_job_change_ratio: Option<f64>,
    /// Peak used against the first run's.
    pub peak_used_change_ratio: Option<f64>,
}

/// The GPUs that a run is about: those that the job held memory on, or all recorded ones if that is not known of any.
/// Nothing for a job that is known to have held none.
pub fn gpus_of_run(summary: &Summary) -> Vec<&GpuSummary> {
    let all = summary.gpus.iter();
    let of_job: Vec<&GpuSummary> = all.clone().filter(|gpu| gpu.is_the_jobs()).collect();
    let is_unknown = |gpu: &GpuSummary| gpu.peak_job_bytes.is_none();
    match of_job.is_empty() {
        true if summary.mode == RunMode::Machine => all.collect(),
        true => all.filter(|gpu| is_unknown(gpu)).collect(),
        false => of_job,
    }
}

/// The GPUs of each run, in their order.
pub(crate) fn compare_gpus(summaries: &[Summary]) -> Vec<Option<ComparedGpus>> {
    let mut compared: Vec<Option<ComparedGpus>> = summaries.iter().map(of_run).collect();
    let Some(base) = compared.first().copied().flatten() else {
        return compared;
    };
    for run in compared.iter_mut().flatten() {
        run.peak_job_change_ratio = change(base.peak_job_bytes, run.peak_job_bytes);
        run.peak_used_change_ratio = change(base.peak_used_bytes, run.peak_used_bytes);
    }
    compared
}

fn of_run(summary: &Summary) -> Option<ComparedGpus> {
    let gpus = gpus_of_run(summary);
    let busy: Vec<f64> = gpus.iter().filter_map(|gpu| gpu.mean_utilization).collect();
    let mean = busy.iter().sum::<f64>() / busy.len() as f64;
    (!gpus.is_empty()).then_some(ComparedGpus {
        count: gpus.len(),
        peak_job_bytes: gpus.iter().filter_map(|gpu| gpu.peak_job_bytes).max(),
        peak_used_bytes: gpus.iter().filter_map(|gpu| gpu.peak_used_bytes).max(),
        mean_utilization: (!busy.is_empty()).then_some(mean),
        ..ComparedGpus::default()
    })
}

fn change(base: Option<u64>, value: Option<u64>) -> Option<f64> {
    let base = base.filter(|base| *base > 0)? as f64;
    Some((value? as f64 - base) / base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::{EndingEvidence, judge_ending};
    use crate::summary::summarize;
    use nilo_sample::rows::GpuRow;
    use nilo_sample::{ABSENT, TableSpec, fixture};

    fn run(mode: RunMode, gpus: &[(u32, f64, f64, f64)]) -> Summary {
        let mut recording = fixture::recording();
        recording.description.mode = mode;
        recording.tables = gpus
            .iter()
            .map(|(index, used_bytes, job_bytes, utilization)| {
                let row = GpuRow {
                    used_bytes: *used_bytes,
                    job_bytes: *job_bytes,
                    utilization: *utilization,
                    ..GpuRow::ABSENT
                };
                fixture::table_of(TableSpec::gpu(*index), &[(0, row)])
            })
            .collect();
        let ending = judge_ending(&recording, &EndingEvidence::default());
        summarize(&recording, &ending)
    }

    #[test]
    fn the_fullest_gpu_of_each_run_is_compared_with_that_of_the_first() {
        let compared = compare_gpus(&[
            run(RunMode::Run, &[(0, 50.0, 40.0, 0.5), (7, 99.0, 0.0, 1.0)]),
            run(RunMode::Run, &[(2, 80.0, 60.0, 0.2), (3, 90.0, 30.0, 0.4)]),
        ]);
        let first = compared[0].unwrap();
        assert_eq!((first.count, first.peak_job_bytes), (1, Some(40)));
        let second = compared[1].unwrap();
        assert_eq!((second.count, second.peak_used_bytes), (2, Some(90)));
        assert_eq!(second.peak_job_change_ratio, Some(0.5));
        assert_eq!(second.peak_used_change_ratio, Some(0.8));
        assert!((second.mean_utilization.unwrap() - 0.3).abs() < 1e-12);
    }

    #[test]
    fn a_job_that_held_none_has_no_gpus_and_an_unknown_share_is_unknown() {
        let compared = compare_gpus(&[
            run(RunMode::Run, &[(0, 50.0, 0.0, 0.5)]),
            run(RunMode::Run, &[(0, 50.0, ABSENT, ABSENT)]),
            run(RunMode::Machine, &[(0, 50.0, ABSENT, 0.5)]),
        ]);
        assert_eq!(compared[0], None);
        let unknown = compared[1].unwrap();
        assert_eq!(
            (unknown.peak_job_bytes, unknown.peak_used_bytes),
            (None, Some(50))
        );
        assert_eq!(
            (unknown.mean_utilization, unknown.peak_used_change_ratio),
            (None, None)
        );
        assert_eq!(compared[2].unwrap().mean_utilization, Some(0.5));
    }
}
