//! The columns of format version 1, as they lie in files that people have: names, kinds, units and order stay.
#![allow(clippy::unwrap_used, reason = "a test")]

use nilo_sample::{ProcessId, TableSpec};

const ID: ProcessId = ProcessId {
    pid: 7,
    start_ticks: 99,
};

fn columns(spec: &TableSpec) -> Vec<String> {
    let columns = spec.columns.iter();
    let text = columns.map(|column| {
        let (kind, unit) = (column.kind, column.unit);
        format!("{} {kind:?} {unit:?}", column.name).to_lowercase()
    });
    text.collect()
}

#[test]
fn the_columns_of_tree_stay() {
    assert_eq!(
        columns(&TableSpec::tree()),
        [
            "memory_bytes gauge bytes",
            "rss_bytes gauge bytes",
            "high_water_bytes gauge bytes",
            "swap_bytes gauge bytes",
            "cpu_nanos counter nanos",
            "processes gauge count",
            "pss_processes gauge count",
        ]
    );
}

#[test]
fn the_columns_of_process_stay() {
    assert_eq!(
        columns(&TableSpec::process(ID)),
        [
            "rss_bytes gauge bytes",
            "cpu_nanos counter nanos",
            "memory_bytes gauge bytes",
            "virtual_bytes gauge bytes",
            "distinct_bytes gauge bytes",
        ]
    );
}

#[test]
fn the_columns_of_process_detail_stay() {
    assert_eq!(
        columns(&TableSpec::process_detail(ID)),
        [
            "peak_rss_bytes gauge bytes",
            "pss_bytes gauge bytes",
            "uss_bytes gauge bytes",
            "swap_bytes gauge bytes",
            "threads gauge count",
            "open_files gauge count",
            "minor_faults counter count",
            "major_faults counter count",
            "read_bytes counter bytes",
            "written_bytes counter bytes",
            "peak_virtual_bytes gauge bytes",
            "data_bytes gauge bytes",
        ]
    );
}

#[test]
fn the_columns_of_cgroup_stay() {
    assert_eq!(
        columns(&TableSpec::cgroup("/job")),
        [
            "usage_bytes gauge bytes",
            "working_set_bytes gauge bytes",
            "peak_bytes gauge bytes",
            "limit_bytes gauge bytes",
            "anon_bytes gauge bytes",
            "file_bytes gauge bytes",
            "shmem_bytes gauge bytes",
            "swap_bytes gauge bytes",
            "oom_kills counter count",
            "limit_hits counter count",
            "owned gauge count",
            "holds_job gauge count",
        ]
    );
}

#[test]
fn the_columns_of_host_stay() {
    assert_eq!(
        columns(&TableSpec::host()),
        [
            "total_bytes gauge bytes",
            "available_bytes gauge bytes",
            "swap_total_bytes gauge bytes",
            "swap_used_bytes gauge bytes",
            "shm_total_bytes gauge bytes",
            "shm_used_bytes gauge bytes",
            "pressure_some_nanos counter nanos",
            "pressure_full_nanos counter nanos",
            "oom_kills counter count",
        ]
    );
}

#[test]
fn the_columns_of_phase_stay() {
    assert_eq!(
        columns(&TableSpec::phase("step")),
        ["duration_nanos gauge nanos",]
    );
}

#[test]
fn the_columns_of_sampled_phase_stay() {
    assert_eq!(
        columns(&TableSpec::sampled_phase("step")),
        ["duration_nanos gauge nanos", "weight gauge count",]
    );
}

#[test]
fn the_columns_of_gpu_phase_stay() {
    assert_eq!(
        columns(&TableSpec::gpu_phase("step")),
        [
            "duration_nanos gauge nanos",
            "weight gauge count",
            "peak_at_least_bytes gauge bytes",
            "peak_at_most_bytes gauge bytes",
        ]
    );
}

#[test]
fn the_columns_of_throughput_stay() {
    assert_eq!(
        columns(&TableSpec::throughput(0)),
        [
            "batches counter count",
            "samples counter count",
            "tokens counter count",
            "counted_nanos counter nanos",
        ]
    );
}

#[test]
fn the_columns_of_torch_memory_stay() {
    assert_eq!(
        columns(&TableSpec::torch_memory(0)),
        [
            "allocated_bytes gauge bytes",
            "reserved_bytes gauge bytes",
            "peak_allocated_bytes gauge bytes",
            "peak_reserved_bytes gauge bytes",
            "device_free_bytes gauge bytes",
            "device_total_bytes gauge bytes",
            "allowed_bytes gauge bytes",
            "inactive_split_bytes gauge bytes",
            "alloc_retries counter count",
            "ooms counter count",
        ]
    );
}

#[test]
fn the_columns_of_gpu_stay() {
    assert_eq!(
        columns(&TableSpec::gpu(0)),
        [
            "used_bytes gauge bytes",
            "total_bytes gauge bytes",
            "job_bytes gauge bytes",
            "utilization gauge ratio",
            "power_watts gauge plain",
            "power_limit_watts gauge plain",
            "temperature_celsius gauge plain",
            "sm_clock_mhz gauge plain",
            "memory_clock_mhz gauge plain",
            "throttled_by_power gauge count",
            "throttled_by_heat gauge count",
            "throttled_by_hardware gauge count",
            "uncorrected_ecc_errors counter count",
            "nvlink_sent_bytes counter bytes",
            "nvlink_received_bytes counter bytes",
        ]
    );
}

#[test]
fn the_columns_of_recorder_stay() {
    assert_eq!(
        columns(&TableSpec::recorder()),
        [
            "rss_bytes gauge bytes",
            "cpu_nanos counter nanos",
            "ticks counter count",
            "late_ticks counter count",
            "dropped_samples counter count",
            "interval_nanos gauge nanos",
        ]
    );
}
