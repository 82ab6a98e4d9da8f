//! What the Python hooks told of a program: lines of JSON that any process of the job may have written, so nothing in them is trusted.
//!
//! The recorder copies them into its stream while the job runs. Where it was killed before that, readers take what is left from the file itself;
//! an event keeps its time, so that one which is in the stream already is known.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nilo_sample::redact::redact_message;
use nilo_sample::rows::TorchMemoryRow;
use nilo_sample::table::or_absent;
use nilo_sample::{Event, TimedEvent};
use serde::Deserialize;

use crate::axis::TimeAxis;

/// The folder of the hooks inside a run's folder.
pub const HOOKS: &str = "hooks";
/// The file in it that the hooks add lines to.
const TOLD: &str = "told.jsonl";
/// A longer line is none of ours.
const LONGEST_LINE: usize = 64 << 10;
/// The longest sentence of what could not be seen.
const LONGEST_BLIND: usize = 500;
/// What a reader takes from the file at once.
const LONGEST_READ: u64 = 32 << 20;

/// Where the hooks of a run add their lines.
pub fn hook_lines_path(run_dir: &Path) -> PathBuf {
    run_dir.join(HOOKS).join(TOLD)
}

/// Something that a hook told.
#[derive(Debug, Clone, PartialEq)]
pub struct HookLine {
    /// When, on the monotonic clock of the boot in which the run began.
    pub time_nanos: u64,
    /// What.
    pub message: HookMessage,
}

/// What it was.
#[derive(Debug, Clone, PartialEq)]
pub enum HookMessage {
    /// Something that happened.
    Event(Event),
    /// The figures of PyTorch's allocator in a process.
    TorchMemory {
        /// The process.
        pid: u32,
        /// The device's index there.
        device: u32,
        /// The figures.
        row: TorchMemoryRow,
    },
}

#[derive(Deserialize)]
struct ToldEvent {
    time_nanos: u64,
    #[serde(flatten)]
    event: Event,
}

#[derive(Deserialize)]
struct ToldMemory {
    time_nanos: u64,
    pid: u32,
    device: u32,
    torch_memory: BTreeMap<String, u64>,
}

/// Reads a line; nothing where it is not one that a hook writes.
pub fn parse_hook_line(line: &[u8]) -> Option<HookLine> {
    if line.len() > LONGEST_LINE {
        return None;
    }
    parse_event(line).or_else(|| parse_memory(line))
}

fn parse_event(line: &[u8]) -> Option<HookLine> {
    let told: ToldEvent = serde_json::from_slice(line).ok()?;
    let event = match told.event {
        Event::Exception(exception) => Event::Exception(Box::new(exception.bounded())),
        Event::GpuAllocationFailed(failure) => {
            Event::GpuAllocationFailed(Box::new(failure.bounded()))
        }
        Event::Blind { text } if text.len() <= LONGEST_BLIND => Event::Blind { text },
        _ => return None,
    };
    Some(HookLine {
        time_nanos: told.time_nanos,
        message: HookMessage::Event(event),
    })
}

fn parse_memory(line: &[u8]) -> Option<HookLine> {
    let told: ToldMemory = serde_json::from_slice(line).ok()?;
    let get = |name: &str| or_absent(told.torch_memory.get(name).copied());
    Some(HookLine {
        time_nanos: told.time_nanos,
        message: HookMessage::TorchMemory {
            pid: told.pid,
            device: told.device,
            row: TorchMemoryRow {
                allocated_bytes: get("allocated_bytes"),
                reserved_bytes: get("reserved_bytes"),
                peak_allocated_bytes: get("peak_allocated_bytes"),
                peak_reserved_bytes: get("peak_reserved_bytes"),
                device_free_bytes: get("device_free_bytes"),
                device_total_bytes: get("device_total_bytes"),
                allowed_bytes: get("allowed_bytes"),
                inactive_split_bytes: get("inactive_split_bytes"),
                alloc_retries: get("alloc_retries"),
                ooms: get("ooms"),
            },
        },
    })
}

/// Opens the file of lines; a link is none.
pub fn open_hook_lines(run_dir: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(hook_lines_path(run_dir))
}

/// What is left of a run's hooks, on its time axis.
pub(crate) fn left_over(run_dir: &Path, axis: &TimeAxis) -> Vec<TimedEvent> {
    let mut bytes = Vec::new();
    let Ok(file) = open_hook_lines(run_dir) else {
        return Vec::new();
    };
    if file.take(LONGEST_READ).read_to_end(&mut bytes).is_err() {
        return Vec::new();
    }
    // The last line may still be written.
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let whole = lines.filter_map(|line| line.strip_suffix(b"\n"));
    whole
        .filter_map(parse_hook_line)
        .filter_map(|line| {
            let time_nanos = axis.of_same_boot(line.time_nanos);
            match line.message {
                HookMessage::Event(event) => Some(TimedEvent {
                    time_nanos,
                    event: without_secrets(event),
                }),
                // The samples of memory stop with the recorder, too.
                HookMessage::TorchMemory { .. } => None,
            }
        })
        .collect()
}

/// The recorder hides them in what it copies.
fn without_secrets(mut event: Event) -> Event {
    if let Event::Exception(exception) = &mut event {
        exception.message = redact_message(&exception.message);
        for cause in &mut exception.causes {
            *cause = redact_message(cause);
        }
    }
    event
}

/// Adds the events that are not there yet.
pub(crate) fn add_left_over(events: &mut Vec<TimedEvent>, left: Vec<TimedEvent>) {
    // What is hidden in a message may differ.
    let key = |timed: &TimedEvent| match &timed.event {
        Event::Exception(exception) => Some((timed.time_nanos, exception.pid)),
        Event::GpuAllocationFailed(failure) => Some((timed.time_nanos, failure.pid)),
        _ => None,
    };
    let copied: HashSet<_> = events.iter().filter_map(key).collect();
    let missing: Vec<TimedEvent> = left
        .into_iter()
        .filter(|event| key(event).is_some_and(|key| !copied.contains(&key)))
        .collect();
    if !missing.is_empty() {
        events.extend(missing);
        events.sort_by_key(|event| event.time_nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::TypedRow;

    const LINE: &str = r#"{"event":"exception","type_name":"ValueError","message":"no","causes":[],"frames":[{"file":"a.py","line":3,"function":"f"}],"raised_at":{"file":"a.py","line":3,"function":"f"},"time_nanos":42,"pid":7}"#;

    #[test]
    fn an_exception_is_read() {
        let line = parse_hook_line(LINE.as_bytes()).unwrap();
        let HookMessage::Event(Event::Exception(exception)) = line.message else {
            panic!("{line:?}");
        };
        assert_eq!((line.time_nanos, exception.pid), (42, 7));
        assert_eq!(exception.frames[0].function, "f");
    }

    #[test]
    fn other_events_and_other_bytes_are_refused() {
        let ended = r#"{"event":"command-ended","exit_code":0,"time_nanos":1}"#;
        let torn = &LINE[..LINE.len() - 3];
        let negative = LINE.replace("42", "-42");
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = LINE.replace("\"no\"", &format!("{:?}", "n".repeat(LONGEST_LINE)));
        for line in ["", "{}", "\u{0}", ended, torn, &negative, &deep, &long] {
            assert_eq!(parse_hook_line(line.as_bytes()), None, "{line:.60}");
        }
        assert_eq!(parse_hook_line(b"\xff\xfe"), None);
    }

    fn parse_event_of(line: &str) -> Event {
        match parse_hook_line(line.as_bytes()).unwrap().message {
            HookMessage::Event(event) => event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failed_allocation_and_figures_of_the_allocator_are_read() {
        let failed = r#"{"event":"gpu-allocation-failed","device":0,"requested_bytes":16777216,"frames":[],"time_nanos":5,"pid":7}"#;
        let Event::GpuAllocationFailed(failure) = parse_event_of(failed) else {
            panic!("{failed}");
        };
        assert_eq!((failure.pid, failure.requested_bytes), (7, Some(16 << 20)));
        let figures = r#"{"torch_memory":{"allocated_bytes":5,"later_figure":1},"device":1,"time_nanos":5,"pid":7}"#;
        let line = parse_hook_line(figures.as_bytes()).unwrap();
        let expected = TorchMemoryRow {
            allocated_bytes: 5.0,
            ..TorchMemoryRow::ABSENT
        };
        let HookMessage::TorchMemory { pid, device, row } = line.message else {
            panic!("{line:?}");
        };
        assert_eq!((pid, device), (7, 1));
        assert_eq!(
            row.values().map(f64::to_bits),
            expected.values().map(f64::to_bits)
        );
        let wrong = figures.replace("5,", "-5,");
        assert_eq!(parse_hook_line(wrong.as_bytes()), None);
    }

    #[test]
    fn texts_are_cut() {
        let long = LINE.replace("\"no\"", &format!("{:?}", "n".repeat(20_000)));
        let line = parse_hook_line(long.as_bytes()).unwrap();
        let HookMessage::Event(Event::Exception(exception)) = line.message else {
            panic!("{line:?}");
        };
        assert!(exception.message.len() < 5000);
    }

    #[test]
    fn an_event_that_the_recorder_has_copied_counts_once() {
        let told = |time_nanos| TimedEvent {
            time_nanos,
            event: parse_event_of(LINE),
        };
        let mut events = vec![told(5)];
        add_left_over(&mut events, vec![told(5), told(3)]);
        assert_eq!(events, vec![told(3), told(5)]);
    }
}
