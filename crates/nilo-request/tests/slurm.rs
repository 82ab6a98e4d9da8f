//! Listings of a real Slurm 22.05 with jobs that did what their names say: forked, leaked into the limit, had a spike between two looks.

// Helpers outside of test functions unwrap too.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use nilo_analysis::SlurmPlace;
use nilo_request::slurm::{Account, SacctError, SlurmJob, compare_with_slurm, parse_sacct};
use nilo_request::{Completeness, GpuFacts, RunFacts};
use nilo_sample::units::MIB;
use proptest::prelude::*;

fn listing(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sacct");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn jobs(name: &str) -> Vec<SlurmJob> {
    parse_sacct(&listing(name)).unwrap()
}

fn job<'a>(jobs: &'a [SlurmJob], id: &str) -> &'a SlurmJob {
    jobs.iter().find(|job| job.id == id).unwrap()
}

#[test]
fn every_layout_says_the_same() {
    let parsable = jobs("parsable2.txt");
    assert_eq!(parsable, jobs("parsable.txt"));
    let mut aligned = jobs("aligned.txt");
    assert_eq!(parsable.len(), aligned.len());
    for (one, other) in parsable.iter().zip(&mut aligned) {
        // Narrow columns cut long names.
        other.name.clone_from(&one.name);
        assert_eq!(one, other);
    }
}

#[test]
fn jobs_have_their_steps() {
    let jobs = jobs("parsable2.txt");
    let forked = job(&jobs, "1");
    assert_eq!(forked.name.as_deref(), Some("forked"));
    assert_eq!(
        (forked.state.as_str(), forked.requested_bytes),
        ("COMPLETED", Some(600 * MIB))
    );
    assert_eq!((forked.elapsed_secs, forked.nodes), (Some(4), Some(1)));
    assert_eq!(forked.steps.len(), 2);
    assert_eq!(forked.steps[1].max_rss_bytes, Some(1_086_364 * 1024));
    let leaking = job(&jobs, "2");
    assert_eq!(
        (leaking.state.as_str(), leaking.exit),
        ("FAILED", Some((1, 0)))
    );
    assert!(leaking.steps[1].ran_out_of_memory());
    assert_eq!(job(&jobs, "6").state, "TIMEOUT");
    assert_eq!(job(&jobs, "7_1").steps[0].id, "batch");
    assert_eq!(job(&jobs, "9").state, "CANCELLED");
}

#[test]
fn a_listing_without_memory_is_read_all_the_same() {
    let jobs = jobs("default.txt");
    let leaking = job(&jobs, "2");
    assert!(leaking.steps[1].ran_out_of_memory());
    assert_eq!(leaking.steps[1].max_rss_bytes, None);
}

#[test]
fn old_and_foreign_spellings_are_read() {
    let text = "JobID|State|ReqMem|NNodes|AllocCPUS|MaxRSS\n\
                5|COMPLETED|4000Mc|2|16|\n5.batch|COMPLETED|4000Mc|2|16|12K\n\
                6|COMPLETED|4Gn|2|16|\n7|COMPLETED|64G|2|16|\n8|COMPLETED|4000Mc|2||\n";
    let jobs = parse_sacct(text).unwrap();
    assert_eq!(job(&jobs, "5").requested_bytes, Some(32_000 * MIB));
    assert_eq!(job(&jobs, "6").requested_bytes, Some(4096 * MIB));
    assert_eq!(job(&jobs, "7").requested_bytes, Some(32 * 1024 * MIB));
    assert_eq!(job(&jobs, "8").requested_bytes, None);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let said = |text: &str| parse_sacct(text).unwrap_err().to_string();
    assert_eq!(said(""), "the sacct output is empty");
    assert_eq!(
        said("1|a|b\n"),
        "line 1 is not a sacct header with a JobID field"
    );
    assert_eq!(
        said("JobID|State|MaxRSS\n1|COMPLETED|\n1.0|COMPLETED\n"),
        "line 3 has 2 fields, the header has 3"
    );
    assert_eq!(
        said("JobID|State|MaxRSS\n\n1.0|COMPLETED|12Q\n"),
        "line 3, MaxRSS: cannot be read: \"12Q\""
    );
    assert_eq!(
        parse_sacct("Slurm accounting storage is disabled\n"),
        Err(SacctError::Disabled)
    );
}

const WITH_GPUS: &str = "JobID|State|NNodes|AllocTRES|TRESUsageInMax\n\
    7|COMPLETED|1|billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=32G,node=1|\n\
    7.extern|COMPLETED|1|cpu=8,gres/gpu=2,mem=32G,node=1|cpu=00:00:00,energy=0,fs/disk=5273,gres/gpumem=0,gres/gpuutil=0,mem=256K,pages=0,vmem=0\n\
    7.0|COMPLETED|1|cpu=8,gres/gpu=2,mem=32G,node=1|cpu=00:56:24,energy=0,fs/disk=350130624578,gres/gpumem=38888M,gres/gpuutil=187,mem=10372780K,pages=3465,vmem=10194376K\n";

#[test]
fn gpus_and_their_usage_are_read() {
    let jobs = parse_sacct(WITH_GPUS).unwrap();
    let job = job(&jobs, "7");
    assert_eq!(job.gpus, Some(2));
    assert_eq!(job.steps[0].max_gpu_memory_bytes, None);
    assert_eq!(job.steps[1].max_gpu_memory_bytes, Some(38_888 * MIB));
    assert_eq!(job.steps[1].max_gpu_utilization_percent, Some(187));
    let wanted = "JobID|ReqTRES\n8|billing=1,cpu=1,gres/gpu=1,mem=1G,node=1\n";
    assert_eq!(parse_sacct(wanted).unwrap()[0].gpus, Some(1));
}

fn on_gpus(peaks: &[u64]) -> RunFacts {
    let gpu = |(device, peak): (usize, &u64)| GpuFacts {
        device: device as u32,
        peak_bytes: *peak,
        peak_allocated_bytes: None,
        total_bytes: None,
    };
    RunFacts {
        gpus: peaks.iter().enumerate().map(gpu).collect(),
        ..run("7", 256 * MIB, 1, 256 * MIB)
    }
}

#[test]
fn slurms_gpu_memory_is_explained() {
    let jobs = parse_sacct(WITH_GPUS).unwrap();
    let said = |run: RunFacts| -> Vec<String> {
        let accounts = compare_with_slurm(&[run], &jobs);
        let sentences = accounts[0].sentences.iter();
        sentences
            .filter(|text| text.contains("GPU"))
            .cloned()
            .collect()
    };
    assert_eq!(
        said(on_gpus(&[19_000 * MIB, 19_500 * MIB])),
        [
            "Slurm saw 37.98 GiB of GPU memory and a utilization of 187 % at most, and the peak was 37.60 GiB: they agree"
        ]
    );
    assert_eq!(
        said(on_gpus(&[60_000 * MIB])),
        [
            "2 GPUs were allocated per node, and the job used 1 of them",
            "Slurm saw 37.98 GiB of GPU memory and a utilization of 187 % at most, and the peak was 58.59 GiB: \
             Slurm asks the driver every 30 s by default and misses what comes between",
        ]
    );
    let accounts = compare_with_slurm(&[on_gpus(&[60_000 * MIB])], &jobs);
    assert_eq!(accounts[0].gpu_peak_bytes, Some(60_000 * MIB));
    assert_eq!(accounts[0].max_gpu_memory_bytes, Some(38_888 * MIB));
}

/// A run of one of the jobs, as it was recorded there.
fn run(job: &str, peak: u64, processes: u64, rss_sum: u64) -> RunFacts {
    RunFacts {
        run: format!("run-{job}"),
        peak_bytes: Some(peak),
        most_processes: processes,
        rss_sum_peak_bytes: Some(rss_sum),
        slurm: Some(SlurmPlace {
            job: job.to_owned(),
            step: Some("0".to_owned()),
        }),
        ..plain_facts()
    }
}

fn plain_facts() -> RunFacts {
    RunFacts {
        run: String::new(),
        label: "train".to_owned(),
        job: "train".to_owned(),
        host: "node-7".to_owned(),
        completeness: Completeness::Whole,
        peak_bytes: None,
        peak_kind: None,
        usual_bytes: None,
        growth: None,
        duration_secs: 4.0,
        limit_bytes: None,
        limit_used_bytes: None,
        limit_source: None,
        limit_was_asked_for: false,
        refused_by: None,
        gpus: Vec::new(),
        slurm: None,
        most_processes: 1,
        rss_sum_peak_bytes: None,
        page_cache_peak_bytes: None,
        damaged: false,
    }
}

fn account(run: RunFacts) -> Account {
    compare_with_slurm(&[run], &jobs("parsable2.txt")).remove(0)
}

#[test]
fn shared_pages_that_count_several_times_are_explained() {
    let found = account(run("1", 214 * MIB, 6, 1_056 * MIB));
    assert_eq!(found.job, "1.0");
    assert!(
        found.sentences[0].contains("all 6 processes"),
        "{:?}",
        found.sentences
    );
    assert_eq!(
        found.sentences[1],
        "600.00 MiB were requested per node, and 36 % of that was used; by MaxRSS it would be 177 %"
    );
}

#[test]
fn a_peak_between_two_looks_is_explained() {
    let found = account(run("10", 253 * MIB, 1, 253 * MIB));
    assert!(
        found.sentences[0].contains("missed the peak"),
        "{:?}",
        found.sentences
    );
}

#[test]
fn an_oom_kill_that_the_job_hides_is_told() {
    let killed = RunFacts {
        completeness: Completeness::OomKilled,
        ..run("2", 599 * MIB, 1, 599 * MIB)
    };
    let found = account(killed);
    assert!(found.sentences[0].ends_with("they agree"));
    assert_eq!(
        found.sentences[1],
        "Slurm counted an OOM kill in step 2.0 (OUT_OF_MEMORY 0:125), although the job itself shows FAILED 1:0: \
         MaxRSS is from before the kill and too low"
    );
}

#[test]
fn page_cache_in_the_figure_is_explained() {
    let cached = RunFacts {
        page_cache_peak_bytes: Some(240 * MIB),
        damaged: false,
        ..run("3", 25 * MIB, 1, 25 * MIB)
    };
    let found = account(cached);
    assert!(
        found.sentences[0].contains("page cache"),
        "{:?}",
        found.sentences
    );
}

#[test]
fn a_job_that_did_not_end_by_itself_is_told() {
    let found = account(run("6", 3 * MIB, 1, 3 * MIB));
    assert_eq!(found.job, "6.batch");
    assert!(found.sentences.last().unwrap().contains("time limit"));
}

#[test]
fn runs_and_jobs_are_paired_by_number_or_when_there_is_one_of_each() {
    let outside = RunFacts {
        slurm: None,
        ..run("", 214 * MIB, 1, 214 * MIB)
    };
    let all = jobs("parsable2.txt");
    assert!(compare_with_slurm(std::slice::from_ref(&outside), &all).is_empty());
    let only = [job(&all, "1").clone()];
    assert_eq!(compare_with_slurm(&[outside], &only).len(), 1);
    // Another job's number is no reason to guess.
    assert!(compare_with_slurm(&[run("77", MIB, 1, MIB)], &only).is_empty());
    // In an array the number of the cgroup is the raw one.
    let raw = parse_sacct("JobID|JobIDRaw|State\n7_2|8|COMPLETED\n7_1|7|COMPLETED\n").unwrap();
    assert_eq!(
        compare_with_slurm(&[run("8", MIB, 1, MIB)], &raw)[0].job,
        "7_2"
    );
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "(\\PC|\n|\\||-| ){0,200}") {
        let _ = parse_sacct(&text);
        let _ = parse_sacct(&format!("JobID|State|ReqMem|MaxRSS|Elapsed|ExitCode|NNodes\n{text}"));
        let _ = parse_sacct(&format!("JobID   MaxRSS\n------- ------\n{text}"));
    }
}
