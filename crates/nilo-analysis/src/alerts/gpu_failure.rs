//! The alert that a GPU allocation failed and nobody caught the exception: one for each process.

use std::collections::{BTreeMap, BTreeSet};

use nilo_sample::{Alert, AlertKind, Event, GpuAllocationFailure, Severity, TimedEvent};

use crate::tracking::Resource;

/// What can be done, whatever the cause is; `nilo show` knows more.
const ADVICE: [&str; 2] = [
    "Reduce the batch size or the sequence length, or accumulate gradients over smaller batches",
    "Run `nilo show` for what grew and what would make it fit",
];

/// Turns events into alerts.
#[derive(Debug, Clone, Default)]
pub struct GpuFailureAlerts {
    /// What the allocator told last, by process.
    told: BTreeMap<u32, GpuAllocationFailure>,
    /// Processes of which somebody was told.
    alerted: BTreeSet<u32>,
}

impl GpuFailureAlerts {
    /// Takes in events in the order of time; gives the alerts that they raise, each with what it is about.
    pub fn take(&mut self, events: &[TimedEvent]) -> Vec<(Resource, Alert)> {
        events
            .iter()
            .filter_map(|timed| match &timed.event {
                Event::GpuAllocationFailed(failure) => {
                    self.told.insert(failure.pid, failure.as_ref().clone());
                    None
                }
                Event::Exception(exception) if exception.is_gpu_out_of_memory() => {
                    let is_first = self.alerted.insert(exception.pid);
                    let failure = match self.told.remove(&exception.pid) {
                        Some(failure) => failure.with_exception(exception),
                        None => GpuAllocationFailure::of_exception(exception),
                    };
                    is_first.then(|| alert(timed.time_nanos, &failure))
                }
                _ => None,
            })
            .collect()
    }
}

fn alert(time_nanos: u64, failure: &GpuAllocationFailure) -> (Resource, Alert) {
    let resource = match failure.device {
        Some(index) => Resource::Gpu { index },
        None => Resource::UnnamedGpu,
    };
    let (used, limit) = (failure.allocated_bytes, failure.limit_bytes());
    let percent =
        |(used, limit): (u64, u64)| (1000.0 * used as f64 / limit.max(1) as f64).round() / 10.0;
    let pid = failure.pid;
    let alert = Alert {
        kind: AlertKind::GpuOutOfMemory,
        severity: Severity::Critical,
        resource: resource.to_string(),
        raised: true,
        time_nanos,
        text: format!("{resource} ran out of memory: PID {pid} {failure}"),
        used_bytes: used,
        limit_bytes: limit,
        used_percent: used.zip(limit).map(percent),
        bytes_per_sec: None,
        seconds_left: None,
        seconds_left_low: None,
        seconds_left_high: None,
        confidence: None,
        recommendations: ADVICE.map(str::to_owned).to_vec(),
    };
    (resource, alert)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::UnhandledException;

    fn raised(pid: u32, message: &str) -> TimedEvent {
        let exception = UnhandledException {
            pid,
            type_name: "RuntimeError".to_owned(),
            message: message.to_owned(),
            ..UnhandledException::default()
        };
        TimedEvent {
            time_nanos: 9,
            event: Event::Exception(Box::new(exception)),
        }
    }

    #[test]
    fn an_exception_that_says_so_is_told_once_for_each_process() {
        let mut alerts = GpuFailureAlerts::default();
        let failed = TimedEvent {
            time_nanos: 8,
            event: Event::GpuAllocationFailed(Box::new(GpuAllocationFailure {
                pid: 7,
                device: Some(1),
                requested_bytes: Some(1 << 30),
                allocated_bytes: Some(50 << 30),
                allowed_bytes: Some(100 << 30),
                ..GpuAllocationFailure::default()
            })),
        };
        assert_eq!(alerts.take(&[failed, raised(7, "shapes differ")]), []);
        let message = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has";
        let found = alerts.take(&[raised(7, message), raised(7, message), raised(8, message)]);
        let told: Vec<_> = found
            .iter()
            .map(|(resource, alert)| (resource.to_string(), alert.used_percent))
            .collect();
        let expected = [("GPU 1".to_owned(), Some(50.0)), ("GPU 0".to_owned(), None)];
        assert_eq!(told, expected);
        let text = &found[0].1.text;
        assert!(
            text.contains("PID 7 tried to allocate 1.00 GiB on cuda:1"),
            "{text}"
        );
    }
}
