//! Whether the processes of a job write nothing for a moment, so that something may be written between their bytes.
//!
//! Programs that write one character or escape sequence in pieces do not pause between the pieces.
//! They may be held up there, though, and that must not count as a pause:
//! - a process that waits for the processor is seen to, by what the scheduler counts;
//! - a virtual processor that its host has stopped is not seen in the guest: its processes seem to sleep.
//!   Of a job that has just written many times a second, a pause has to be long.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use nilo_source::{ProcessorTurns, Roots, processor_turns, write_calls};

/// A pause of a job that writes now and then.
const SHORT_PAUSE: Duration = Duration::from_millis(30);
/// A pause of a job that writes all the time.
const LONG_PAUSE: Duration = Duration::from_millis(120);
/// From this many writes a second on, a job writes all the time; progress bars draw 10 to 20 times a second.
const MANY_WRITES_A_SECOND: f64 = 50.0;
/// For so long a pause is waited for.
const PATIENCE: Duration = Duration::from_millis(600);
/// Asking more processes than this costs more than a title is worth.
const MOST_PROCESSES: usize = 256;

/// Finds pauses, and remembers how often the job has written.
#[derive(Debug, Default)]
pub(super) struct OutputPauses {
    last: Option<Look>,
}

impl OutputPauses {
    /// Waits until none of the processes has written for a moment at whose end `also` holds; says whether that came soon.
    pub(super) fn wait_for_one(&mut self, pids: &[u32], also: impl Fn() -> bool) -> bool {
        if pids.len() > MOST_PROCESSES {
            return false;
        }
        let Some(mut before) = Look::at(pids) else {
            return false;
        };
        let pause = pause_after(self.last.as_ref(), &before);
        let attempts = PATIENCE.as_millis() / pause.as_millis();
        let mut found = false;
        for _ in 0..attempts {
            thread::sleep(pause);
            let Some(now) = Look::at(pids) else { break };
            found = has_paused(&before.writers, &now.writers, pause) && also();
            before = now;
            if found {
                break;
            }
        }
        self.last = Some(before);
        found
    }
}

/// What a process that may write was seen to have done so far.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Writer {
    write_calls: u64,
    /// Not known where the kernel does not count it.
    turns: Option<ProcessorTurns>,
}

/// All of them at one moment.
#[derive(Debug)]
struct Look {
    at: Instant,
    writers: HashMap<u32, Writer>,
}

impl Look {
    /// `None` where one cannot be asked, who may be writing.
    fn at(pids: &[u32]) -> Option<Look> {
        let roots = Roots::default();
        let writer = |pid: &u32| {
            let writer = Writer {
                write_calls: write_calls(&roots, *pid)?,
                turns: processor_turns(&roots, *pid),
            };
            Some((*pid, writer))
        };
        Some(Look {
            at: Instant::now(),
            writers: pids.iter().map(writer).collect::<Option<_>>()?,
        })
    }
}

/// How long a pause must be; long before anything is known.
fn pause_after(last: Option<&Look>, now: &Look) -> Duration {
    let Some(last) = last else { return LONG_PAUSE };
    let written: u64 = (now.writers.iter())
        .filter_map(|(pid, writer)| Some((writer, last.writers.get(pid)?)))
        .map(|(writer, before)| writer.write_calls.saturating_sub(before.write_calls))
        .sum();
    let seconds = now.at.duration_since(last.at).as_secs_f64();
    if written as f64 >= MANY_WRITES_A_SECOND * seconds {
        LONG_PAUSE
    } else {
        SHORT_PAUSE
    }
}

/// Whether none has written, and none may have been held up on its way to the next byte.
fn has_paused(before: &HashMap<u32, Writer>, now: &HashMap<u32, Writer>, pause: Duration) -> bool {
    now.iter().all(|(pid, now)| {
        before.get(pid).is_some_and(|before| {
            let turns = before.turns.zip(now.turns);
            before.write_calls == now.write_calls
                && !turns.is_some_and(|(before, now)| was_held_up(before, now, pause))
        })
    })
}

/// Whether a process waited for the processor for a part of the pause, or still does.
fn was_held_up(before: ProcessorTurns, now: ProcessorTurns, pause: Duration) -> bool {
    let pause = pause.as_nanos() as u64;
    let ran = now.run_nanos.saturating_sub(before.run_nanos);
    let waited = now.waited_nanos.saturating_sub(before.waited_nanos);
    waited > pause / 3 || now.is_runnable && ran < pause / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: u64 = 1_000_000;

    fn writer(write_calls: u64, turns: Option<(u64, u64, bool)>) -> HashMap<u32, Writer> {
        let turns = turns.map(|(run, waited, is_runnable)| ProcessorTurns {
            run_nanos: run * MILLIS,
            waited_nanos: waited * MILLIS,
            is_runnable,
        });
        HashMap::from([(7, Writer { write_calls, turns })])
    }

    #[test]
    fn a_process_that_waits_for_the_processor_has_not_paused() {
        let before = writer(5, Some((100, 50, false)));
        let paused = |turns| has_paused(&before, &writer(5, Some(turns)), SHORT_PAUSE);
        assert!(paused((100, 50, false)), "it sleeps");
        assert!(paused((129, 50, true)), "it computes");
        assert!(!paused((100, 50, true)), "it waits");
        assert!(!paused((101, 75, false)), "it waited, then slept");
    }

    #[test]
    fn a_process_that_has_written_has_not_paused() {
        let unknown = writer(5, None);
        assert!(has_paused(&unknown, &unknown, SHORT_PAUSE));
        assert!(!has_paused(&unknown, &writer(6, None), SHORT_PAUSE));
        assert!(!has_paused(&HashMap::new(), &unknown, SHORT_PAUSE), "new");
    }

    #[test]
    fn a_job_that_writes_all_the_time_has_to_pause_for_longer() {
        let start = Instant::now();
        let look = |after_secs, calls| Look {
            at: start + Duration::from_secs(after_secs),
            writers: writer(calls, None),
        };
        assert_eq!(pause_after(None, &look(0, 5)), LONG_PAUSE);
        let after = |calls| pause_after(Some(&look(0, 5)), &look(2, calls));
        assert_eq!(after(5 + 40), SHORT_PAUSE, "a progress bar");
        assert_eq!(after(5 + 100), LONG_PAUSE);
    }

    #[test]
    fn a_process_that_cannot_be_asked_may_be_writing() {
        assert!(OutputPauses::default().wait_for_one(&[], || true));
        assert!(!OutputPauses::default().wait_for_one(&[], || false));
        assert!(!OutputPauses::default().wait_for_one(&[u32::MAX], || true));
    }
}
