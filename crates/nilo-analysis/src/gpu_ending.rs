//! A run that ended because an allocation on a GPU failed: an ending of its own kind, whatever status the process had.

use nilo_sample::{Ending, Event, GpuAllocationFailure, Recording, RunStatus, UnhandledException};

use crate::exceptions::ending_exception;

/// The ending, or that of the GPU where the exception that ended the run says so. Every verdict on an ending passes through here.
pub(crate) fn with_gpu_failure(recording: &Recording, ending: Ending) -> Ending {
    let may_be = matches!(
        ending.status,
        RunStatus::Exited | RunStatus::Ended | RunStatus::Killed | RunStatus::Lost
    );
    let exception = ending_exception(recording, &ending)
        .map(|(_, exception)| exception)
        .filter(|exception| may_be && exception.is_gpu_out_of_memory());
    match exception {
        Some(exception) => Ending {
            status: RunStatus::GpuOutOfMemory,
            gpu_out_of_memory: Some(failure_behind(recording, exception)),
            ..ending
        },
        None => ending,
    }
}

/// The failure that an exception tells of: the allocator's own account where it is there, which is exact, and the message.
fn failure_behind(recording: &Recording, exception: &UnhandledException) -> GpuAllocationFailure {
    let events = recording.events.iter().rev();
    let mut told = events.filter_map(|timed| match &timed.event {
        Event::GpuAllocationFailed(failure) if failure.pid == exception.pid => Some(failure),
        _ => None,
    });
    match told.next() {
        Some(failure) => failure.as_ref().clone().with_exception(exception),
        None => GpuAllocationFailure::of_exception(exception),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::{TimedEvent, fixture};

    const MESSAGE: &str =
        "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 80.00 GiB";

    fn ending(exit_code: Option<i32>, status: RunStatus) -> Ending {
        Ending {
            status,
            exit_code,
            signal: None,
            time_nanos: 9,
            oom: None,
            left_running: Vec::new(),
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        }
    }

    fn raised(type_name: &str) -> Recording {
        let mut recording = fixture::recording();
        recording.description.root_pids = vec![7];
        let exception = UnhandledException {
            pid: 7,
            type_name: type_name.to_owned(),
            message: MESSAGE.to_owned(),
            ..UnhandledException::default()
        };
        recording.events.push(TimedEvent {
            time_nanos: 8,
            event: Event::Exception(Box::new(exception)),
        });
        recording
    }

    #[test]
    fn a_command_that_failed_with_it_ended_of_it() {
        let recording = raised("torch.OutOfMemoryError");
        let ended = with_gpu_failure(&recording, ending(Some(1), RunStatus::Exited));
        assert_eq!(ended.status, RunStatus::GpuOutOfMemory);
        assert_eq!(ended.exit_code, Some(1));
        let failure = ended.gpu_out_of_memory.clone().unwrap();
        assert_eq!(failure.requested_bytes, Some(16 << 20));
        assert_eq!(with_gpu_failure(&recording, ended.clone()), ended);
    }

    #[test]
    fn one_that_went_on_or_ended_otherwise_did_not() {
        let recording = raised("torch.OutOfMemoryError");
        let well = ending(Some(0), RunStatus::Exited);
        assert_eq!(with_gpu_failure(&recording, well.clone()), well);
        let killed = ending(None, RunStatus::OomKilled);
        assert_eq!(with_gpu_failure(&recording, killed.clone()), killed);
    }

    #[test]
    fn the_account_of_the_allocator_is_exact() {
        let mut recording = raised("torch.OutOfMemoryError");
        for (pid, requested_bytes) in [(7, 16_777_000), (8, 5)] {
            let failure = GpuAllocationFailure {
                pid,
                requested_bytes: Some(requested_bytes),
                ..GpuAllocationFailure::default()
            };
            recording.events.push(TimedEvent {
                time_nanos: 7,
                event: Event::GpuAllocationFailed(Box::new(failure)),
            });
        }
        let ended = with_gpu_failure(&recording, ending(Some(1), RunStatus::Exited));
        let failure = ended.gpu_out_of_memory.unwrap();
        assert_eq!(failure.requested_bytes, Some(16_777_000));
        assert_eq!(failure.device_total_bytes, Some(80 << 30));
    }
}
