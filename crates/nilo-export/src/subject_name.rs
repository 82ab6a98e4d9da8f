//! A table's subject in one word, for formats that have a single text column for it.

use nilo_sample::Subject;

/// `tree`, `process:4711:99`, `process-detail:4711:99`, `cgroup:/job`, `host`, `recorder`, `gpu:0`, `metrics:train`, `phase:step/forward`, `throughput`, `throughput:1` of a second tracker, `torch-memory:0`, `unknown`.
///
/// The second number of a process is its start time in clock ticks, which tells it from a later one with the same PID.
pub fn subject_name(subject: &Subject) -> String {
    match subject {
        Subject::Tree => "tree".to_owned(),
        Subject::Process(id) => format!("process:{}:{}", id.pid, id.start_ticks),
        Subject::ProcessDetail(id) => format!("process-detail:{}:{}", id.pid, id.start_ticks),
        Subject::Cgroup { path } => format!("cgroup:{path}"),
        Subject::Host => "host".to_owned(),
        Subject::Recorder => "recorder".to_owned(),
        Subject::Gpu { index } => format!("gpu:{index}"),
        Subject::Metrics { name } => format!("metrics:{name}"),
        Subject::Phase { name } => format!("phase:{name}"),
        Subject::Throughput { tracker: 0 } => "throughput".to_owned(),
        Subject::Throughput { tracker } => format!("throughput:{tracker}"),
        Subject::TorchMemory { device, pid: None } => format!("torch-memory:{device}"),
        Subject::TorchMemory {
            device,
            pid: Some(pid),
        } => format!("torch-memory:{device}:{pid}"),
        Subject::Unknown => "unknown".to_owned(),
    }
}
