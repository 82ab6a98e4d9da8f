//! Allocations on a GPU that failed although no exception of it ended a thread or the program: it caught them, and went on with less.

use std::collections::BTreeMap;
use std::fmt;

use nilo_sample::units::to_secs;
use nilo_sample::{Ending, Event, GpuAllocationFailure, Recording, RunStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::gpu_oom::{GpuOomCause, gpu_oom_cause};
use crate::torch_memory::failed_allocations;

/// While a program runs, an exception may be on its way for so long.
const ON_ITS_WAY_NANOS: u64 = 10_000_000_000;

/// Failed allocations that ended nothing.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct HandledGpuFailures {
    /// How many, by the allocators' own count.
    pub count: u64,
    /// When the last one failed, from the start.
    pub secs: f64,
    /// The last one.
    pub last: GpuAllocationFailure,
    /// Why that failed, where it can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<GpuOomCause>,
    /// Whether the program went on after them; of one that was killed nobody knows.
    pub went_on: bool,
}

/// Those of a run, on the devices that are asked about; that of the ending is none of them.
pub fn handled_gpu_failures(
    recording: &Recording,
    ending: &Ending,
    is_asked: impl Fn(Option<u32>) -> bool,
) -> Option<HandledGpuFailures> {
    let mut told: Vec<ToldFailure<'_>> = Vec::new();
    for timed in &recording.events {
        match &timed.event {
            Event::GpuAllocationFailed(failure) => told.push(ToldFailure {
                time_nanos: timed.time_nanos,
                failure,
                has_ended_something: false,
            }),
            // The last failure before it is the one that nobody caught.
            Event::Exception(exception) if exception.is_gpu_out_of_memory() => {
                let mut before = told.iter_mut().rev();
                if let Some(last) = before.find(|told| told.failure.pid == exception.pid) {
                    last.has_ended_something = true;
                }
            }
            _ => {}
        }
    }
    let is_over = |time_nanos: u64| {
        ending.status != RunStatus::Running || time_nanos + ON_ITS_WAY_NANOS <= ending.time_nanos
    };
    told.retain(|told| is_over(told.time_nanos) && is_asked(told.failure.device));
    let handled = told.iter().filter(|told| !told.has_ended_something);
    let last = handled.max_by_key(|told| told.time_nanos)?;
    let (time_nanos, last) = (last.time_nanos, last.failure);
    Some(HandledGpuFailures {
        count: count(recording, &told),
        secs: to_secs(time_nanos),
        last: last.clone(),
        cause: gpu_oom_cause(recording, last, None),
        went_on: !matches!(
            ending.status,
            RunStatus::Killed | RunStatus::Lost | RunStatus::OomKilled
        ),
    })
}

struct ToldFailure<'a> {
    time_nanos: u64,
    failure: &'a GpuAllocationFailure,
    has_ended_something: bool,
}

/// Of many failures of a process only the first are told one by one, and the allocator's count has all.
fn count(recording: &Recording, told: &[ToldFailure<'_>]) -> u64 {
    // How many were told, how many of them ended something, and the allocator's count.
    let mut of_device: BTreeMap<(u32, Option<u32>), (u64, u64, u64)> = BTreeMap::new();
    for one in told {
        let key = (one.failure.pid, one.failure.device);
        let (all, ended, counted) = of_device.entry(key).or_default();
        *all += 1;
        *ended += u64::from(one.has_ended_something);
        *counted = (*counted).max(one.failure.ooms.unwrap_or(0));
    }
    let handled = of_device
        .into_iter()
        .map(|((pid, device), (all, ended, counted))| {
            let later = device.and_then(|device| failed_allocations(recording, pid, device));
            all.max(counted).max(later.unwrap_or(0)) - ended
        });
    handled.sum()
}

impl fmt::Display for HandledGpuFailures {
    /// `1 GPU allocation failed and the program went on: tried to allocate 20.00 MiB on cuda:0 with ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "1 GPU allocation failed")?,
            count => write!(f, "{count} GPU allocations failed")?,
        }
        match self.went_on {
            true => write!(f, " and the program went on: ")?,
            false => write!(f, " before the end: ")?,
        }
        if self.count > 1 {
            write!(f, "the last ")?;
        }
        write!(f, "{}", self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::{TimedEvent, UnhandledException, fixture};

    const MIB: u64 = 1 << 20;

    fn failed(pid: u32, ooms: u64) -> Event {
        Event::GpuAllocationFailed(Box::new(GpuAllocationFailure {
            pid,
            device: Some(0),
            requested_bytes: Some(20 * MIB),
            allocated_bytes: Some(240 * MIB),
            allowed_bytes: Some(256 * MIB),
            ooms: Some(ooms),
            ..GpuAllocationFailure::default()
        }))
    }

    fn raised(pid: u32) -> Event {
        Event::Exception(Box::new(UnhandledException {
            pid,
            type_name: "torch.OutOfMemoryError".to_owned(),
            ..UnhandledException::default()
        }))
    }

    fn handled(events: Vec<Event>, status: RunStatus) -> Option<HandledGpuFailures> {
        let mut recording = fixture::recording();
        recording.events = (1..)
            .zip(events)
            .map(|(time_nanos, event)| TimedEvent { time_nanos, event })
            .collect();
        let ending = Ending {
            status,
            exit_code: Some(0),
            signal: None,
            time_nanos: 9_000_000_000,
            oom: None,
            left_running: Vec::new(),
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        };
        handled_gpu_failures(&recording, &ending, |device| device == Some(0))
    }

    #[test]
    fn a_failure_that_was_caught_is_told_with_its_figures() {
        let found = handled(vec![failed(7, 1)], RunStatus::Exited).unwrap();
        assert_eq!(
            found.to_string(),
            "1 GPU allocation failed and the program went on: tried to allocate 20.00 MiB on cuda:0 with 240.00 of 256.00 MiB allowed allocated"
        );
        let killed = handled(vec![failed(7, 1)], RunStatus::Killed).unwrap();
        assert!(killed.to_string().contains("failed before the end: tried"));
    }

    #[test]
    fn the_one_that_ended_its_process_is_none_of_them() {
        assert_eq!(
            handled(vec![failed(7, 1), raised(7)], RunStatus::GpuOutOfMemory),
            None
        );
        let before = vec![
            failed(7, 1),
            failed(7, 2),
            raised(7),
            failed(8, 1),
            raised(8),
        ];
        assert_eq!(handled(before, RunStatus::GpuOutOfMemory).unwrap().count, 1);
        let of_another = vec![failed(7, 1), raised(8)];
        assert_eq!(
            handled(of_another, RunStatus::GpuOutOfMemory)
                .unwrap()
                .count,
            1
        );
    }

    #[test]
    fn what_is_not_told_one_by_one_is_counted() {
        let found = handled(
            vec![failed(7, 1), failed(7, 60), failed(8, 1)],
            RunStatus::Exited,
        );
        let found = found.unwrap();
        assert_eq!(found.count, 61);
        assert!(
            found
                .to_string()
                .starts_with("61 GPU allocations failed and the program went on: the last tried")
        );
    }

    #[test]
    fn while_a_program_runs_its_exception_may_still_come() {
        assert_eq!(handled(vec![failed(7, 1)], RunStatus::Running), None);
    }
}
