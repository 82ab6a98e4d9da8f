use nilo_sample::rows::TorchMemoryRow;
use nilo_sample::{CodePlace, TableSpec, fixture};

use super::*;

const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000_000_000;

/// A device of 80 GiB that this process has filled.
fn full() -> GpuAllocationFailure {
    GpuAllocationFailure {
        pid: 7,
        device: Some(0),
        requested_bytes: Some(2 * GIB),
        allocated_bytes: Some(77 * GIB),
        reserved_bytes: Some(78 * GIB),
        device_free_bytes: Some(GIB),
        device_total_bytes: Some(80 * GIB),
        phase: Some("forward".to_owned()),
        grad_enabled: Some(true),
        is_training: Some(true),
        ..GpuAllocationFailure::default()
    }
}

fn holder(name: &str, kind: &str, gib: u64, tensors: u64) -> GpuHolder {
    GpuHolder {
        name: name.to_owned(),
        function: "train".to_owned(),
        kind: kind.to_owned(),
        bytes: gib * GIB,
        tensors,
    }
}

fn calls(function: &str) -> Vec<CodePlace> {
    vec![CodePlace {
        file: "/home/me/train.py".to_owned(),
        line: 3,
        function: function.to_owned(),
    }]
}

/// A recording with PyTorch's peak at these seconds, of a program that makes steps.
fn recorded(peaks: &[(u64, u64)]) -> Recording {
    with_peaks(peaks, |number| (number % 2) as f64)
}

/// ... and of which this is allocated in each row, as a share of the peak.
fn with_peaks(peaks: &[(u64, u64)], allocated: impl Fn(usize) -> f64) -> Recording {
    let mut table = fixture::table(TableSpec::torch_memory_of(7, 0));
    for (number, (second, gib)) in peaks.iter().enumerate() {
        let row = TorchMemoryRow {
            allocated_bytes: allocated(number) * (gib * GIB) as f64,
            peak_allocated_bytes: (gib * GIB) as f64,
            ..TorchMemoryRow::ABSENT
        };
        fixture::tick(&mut table, second * SECOND, row);
    }
    let mut recording = fixture::recording();
    recording.tables = vec![table];
    recording
}

fn told(failure: &GpuAllocationFailure) -> (GpuOomKind, String) {
    let cause = gpu_oom_cause(&recorded(&[]), failure, None).expect("a cause");
    assert!(!cause.advice.is_empty());
    (cause.kind, cause.text)
}

fn kind(failure: &GpuAllocationFailure) -> GpuOomKind {
    told(failure).0
}

#[test]
fn one_allocation_that_can_never_fit() {
    let failure = GpuAllocationFailure {
        requested_bytes: Some(1024 * GIB),
        ..full()
    };
    assert_eq!(
        told(&failure),
        (
            GpuOomKind::TooLargeRequest,
            "one allocation of 1.00 TiB is larger than the 80.00 GiB that the GPU has".to_owned()
        )
    );
}

#[test]
fn others_who_hold_a_good_part_of_the_device() {
    let crowded = GpuAllocationFailure {
        allocated_bytes: Some(17 * GIB),
        reserved_bytes: Some(18 * GIB),
        ..full()
    };
    // The driver names them, or only this process, or nobody.
    for (others, own) in [
        (Some(60 * GIB), Some(19 * GIB)),
        (None, Some(19 * GIB)),
        (None, None),
    ] {
        let failure = GpuAllocationFailure {
            other_processes_bytes: others,
            process_bytes: own,
            ..crowded.clone()
        };
        assert_eq!(kind(&failure), GpuOomKind::OtherProcesses);
    }
    // Little beside much of its own is not the cause.
    let beside = GpuAllocationFailure {
        other_processes_bytes: Some(GIB),
        process_bytes: Some(78 * GIB),
        ..full()
    };
    assert_eq!(kind(&beside), GpuOomKind::FirstStep);
}

#[test]
fn memory_of_libraries_in_the_same_process() {
    let failure = GpuAllocationFailure {
        allocated_bytes: Some(57 * GIB),
        reserved_bytes: Some(58 * GIB),
        process_bytes: Some(79 * GIB),
        other_processes_bytes: None,
        ..full()
    };
    assert_eq!(kind(&failure), GpuOomKind::OutsidePytorch);
}

#[test]
fn free_pieces_that_are_too_small() {
    let failure = GpuAllocationFailure {
        allocated_bytes: Some(70 * GIB),
        ..full()
    };
    let (kind_of, text) = told(&failure);
    assert_eq!(kind_of, GpuOomKind::Fragmentation);
    assert!(
        text.contains("8.00 GiB are reserved and not in use"),
        "{text}"
    );
    // Not more than what was asked for.
    let failure = GpuAllocationFailure {
        requested_bytes: Some(9 * GIB),
        ..failure
    };
    assert_ne!(kind(&failure), GpuOomKind::Fragmentation);
}

#[test]
fn graphs_of_an_evaluation_and_of_a_sum_of_losses() {
    let kept = GpuAllocationFailure {
        graph_passes: Some(12),
        graph_holder: Some("total".to_owned()),
        ..full()
    };
    let (kind_of, text) = told(&kept);
    assert_eq!(kind_of, GpuOomKind::GraphsKept);
    assert!(
        text.starts_with("`total` keeps the graphs of 12 forward passes"),
        "{text}"
    );
    for evaluation in [
        GpuAllocationFailure {
            is_training: Some(false),
            ..kept.clone()
        },
        GpuAllocationFailure {
            frames: calls("evaluate"),
            ..full()
        },
    ] {
        assert_eq!(kind(&evaluation), GpuOomKind::GraphsInEvaluation);
    }
    // Losses that were kept while training had settled are not what was too much.
    let settled = recorded(&[(0, 50), (10, 50), (15, 50), (20, 50)]);
    let cause = gpu_oom_cause(&settled, &kept, None).unwrap();
    assert_eq!(cause.kind, GpuOomKind::Spike);
}

#[test]
fn keys_and_values_of_generated_tokens() {
    let inference = GpuAllocationFailure {
        grad_enabled: Some(false),
        is_training: Some(false),
        ..full()
    };
    let generating = GpuAllocationFailure {
        frames: calls("generate"),
        ..inference.clone()
    };
    assert_eq!(kind(&generating), GpuOomKind::KvCache);
    let held = GpuAllocationFailure {
        holders: vec![holder("past_key_values", "tensors", 60, 64)],
        ..inference.clone()
    };
    assert_eq!(kind(&held), GpuOomKind::KvCache);
    let other = GpuAllocationFailure {
        holders: vec![holder("cache", "tensors", 2, 64)],
        ..inference
    };
    assert_ne!(kind(&other), GpuOomKind::KvCache);
}

#[test]
fn tensors_that_the_program_collects() {
    let failure = GpuAllocationFailure {
        holders: vec![
            holder("kept", "tensors", 60, 400),
            holder("model", "parameters", 9, 100),
        ],
        ..full()
    };
    assert_eq!(
        told(&failure),
        (
            GpuOomKind::Leak,
            "the program keeps more and more tensors: 60.00 GiB in 400 tensors held by `kept` in train()".to_owned()
        )
    );
    // One large tensor is no collection, and neither are a model's weights.
    for one in [
        holder("batch", "tensors", 60, 1),
        holder("model", "parameters", 60, 400),
    ] {
        let failure = GpuAllocationFailure {
            holders: vec![one],
            ..full()
        };
        assert_ne!(kind(&failure), GpuOomKind::Leak);
    }
}

#[test]
fn a_limit_of_the_programs_own() {
    let failure = GpuAllocationFailure {
        allowed_bytes: Some(79 * GIB),
        device_total_bytes: Some(140 * GIB),
        device_free_bytes: Some(60 * GIB),
        ..full()
    };
    assert_eq!(
        told(&failure),
        (
            GpuOomKind::AllowedFraction,
            "the program limits itself to 79.00 GiB; the GPU has 60.00 GiB free".to_owned()
        )
    );
}

#[test]
fn a_step_that_needs_more_than_all_before_it() {
    let peaks = [(0, 10), (1, 30), (5, 30), (9, 30), (60, 30), (61, 77)];
    let cause = gpu_oom_cause(&recorded(&peaks), &full(), None).unwrap();
    assert_eq!(cause.kind, GpuOomKind::Spike);
    assert_eq!(
        cause.text,
        "this step needs more than 79.00 GiB, where 30.00 GiB were enough for 59 seconds before"
    );
    // A model that is loaded and waits makes no steps.
    let idle = with_peaks(&peaks, |_| 1.0);
    let cause_of_idle = gpu_oom_cause(&idle, &full(), None).unwrap();
    assert_eq!(cause_of_idle.kind, GpuOomKind::FirstStep);
    // A peak that rises all the time has not settled.
    let rising: Vec<(u64, u64)> = (0..70).map(|second| (second, second + 1)).collect();
    let cause = gpu_oom_cause(&recorded(&rising), &full(), None).unwrap();
    assert_eq!(cause.kind, GpuOomKind::FirstStep);
}

#[test]
fn the_first_steps_do_not_fit() {
    let with = |phase: Option<&str>, state| GpuAllocationFailure {
        phase: phase.map(str::to_owned),
        holders: vec![holder("model", "parameters", state, 100)],
        ..full()
    };
    let (kind_of, text) = told(&with(Some("backward"), 20));
    assert_eq!(kind_of, GpuOomKind::FirstStep);
    assert!(
        text.ends_with(
            "20.00 GiB in parameters, gradients and optimizer state, 57.00 GiB in everything else"
        ),
        "{text}"
    );
    assert_eq!(
        kind(&with(Some("optimizer.step"), 20)),
        GpuOomKind::OptimizerState
    );
    assert_eq!(kind(&with(None, 75)), GpuOomKind::Model);
    assert!(gpu_oom_cause(&recorded(&[]), &with(None, 20), None).is_none());
}
