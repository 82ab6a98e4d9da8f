//! Any text as a listing of `sacct`: refused in one sentence or read, and what is read can be explained.
//!
//! Seeds: `fuzz/seed.sh` puts listings of a real Slurm into the corpus.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilo_analysis::SlurmPlace;
use nilo_request::{Completeness, RunFacts};
use nilo_request::slurm::{compare_with_slurm, parse_sacct};

/// A run that may be any job of the listing.
fn run(job: Option<&str>, peak_bytes: u64) -> RunFacts {
    RunFacts {
        run: "run".to_owned(),
        label: "run".to_owned(),
        job: "run".to_owned(),
        host: String::new(),
        completeness: Completeness::Whole,
        peak_bytes: Some(peak_bytes),
        limit_used_bytes: Some(peak_bytes),
        peak_kind: None,
        usual_bytes: None,
        growth: None,
        duration_secs: 1.0,
        limit_bytes: None,
        limit_source: None,
        limit_was_asked_for: false,
        gpus: Vec::new(),
        refused_by: None,
        slurm: job.map(|job| SlurmPlace {
            job: job.to_owned(),
            step: Some("0".to_owned()),
        }),
        most_processes: 3,
        rss_sum_peak_bytes: Some(peak_bytes),
        page_cache_peak_bytes: Some(peak_bytes),
        damaged: false,
    }
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match parse_sacct(&text) {
        Err(error) => assert!(!error.to_string().contains('\n'), "one sentence: {error}"),
        Ok(jobs) => {
            let number = jobs.first().map(|job| job.id.clone());
            for peak_bytes in [0, 1 << 20, u64::MAX] {
                for run in [run(number.as_deref(), peak_bytes), run(None, peak_bytes)] {
                    let _ = compare_with_slurm(&[run], &jobs);
                }
            }
        }
    }
});
