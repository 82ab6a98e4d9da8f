//! Made-up facts for the tests of this folder.

use nilo_sample::units::GIB;

use crate::facts::{Completeness, RunFacts};

/// A whole run of a job with this peak.
pub(crate) fn run(job: &str, peak_gib: u64) -> RunFacts {
    RunFacts {
        run: format!("20261115-075530-417-{job}"),
        label: job.to_owned(),
        job: job.to_owned(),
        host: "node-7".to_owned(),
        completeness: Completeness::Whole,
        peak_bytes: Some(peak_gib * GIB),
        peak_kind: Some(nilo_analysis::peak::PeakKind::Vmhwm),
        usual_bytes: None,
        growth: None,
        duration_secs: 3600.0,
        limit_bytes: None,
        limit_used_bytes: None,
        limit_source: None,
        limit_was_asked_for: false,
        refused_by: None,
        gpus: Vec::new(),
        slurm: None,
        most_processes: 1,
        rss_sum_peak_bytes: Some(peak_gib * GIB),
        page_cache_peak_bytes: None,
        damaged: false,
    }
}
