//! Moments, frames and counts of a snapshot in words. Names in a file may hold anything, so all of them are made printable.

use nilo_answer::snapshot::call_stack::{AllocationFrame, AllocationStack};
use nilo_answer::snapshot::trace_place::TraceMoment;

use crate::text::number::format_secs;
use crate::text::one_line::one_line;

/// A frame: file, line and function.
const FRAME_CHARS: usize = 100;

/// Said where an allocation has no stack.
const NO_STACK: &str = "(no stack: backward threads, or before the trace began)";

/// `at event 1,200, 0.35 s after the first`, or that it was so from the start.
pub(crate) fn when_in_words(moment: &TraceMoment) -> String {
    if moment.event == 0 {
        return "before the first event".to_owned();
    }
    if moment.at_start {
        return "when the range begins".to_owned();
    }
    format!("at {}", event_in_words(moment))
}

/// `event 1,200, 0.35 s after the first, in Optimizer.step`.
pub(crate) fn event_in_words(moment: &TraceMoment) -> String {
    let mut words = format!("event {}", grouped(moment.event));
    if let Some(secs) = moment.secs {
        words += &format!(", {} after the first", format_secs(Some(secs)));
    }
    if let Some(stage) = &moment.stage {
        words += &format!(", in {}", one_line(stage, FRAME_CHARS));
    }
    words
}

/// The frame of the user's code, who called it, and the first frame of the own code: `inner < outer < train.py:57 main`.
pub(crate) fn stack_in_words(stack: &AllocationStack) -> String {
    let Some(frame) = stack.main_frame() else {
        return NO_STACK.to_owned();
    };
    let mut words = frame_in_words(frame);
    // The same function of a library is called from many places.
    let caller = stack.caller();
    let own = stack.own_frame.as_ref().filter(|own| Some(*own) != caller);
    for outer in caller.into_iter().chain(own) {
        words += &format!(" < {}", frame_in_words(outer));
    }
    words
}

/// `train.py:39 make_holes`.
pub(crate) fn frame_in_words(frame: &AllocationFrame) -> String {
    let line = frame.line.map_or(String::new(), |line| format!(":{line}"));
    // What is installed is known by its package.
    let packages = ["site-packages/", "dist-packages/"];
    let cut = |folder: &str| Some(&frame.file[frame.file.rfind(folder)? + folder.len()..]);
    let file = packages.iter().find_map(|folder| cut(folder));
    let file = file.unwrap_or(&frame.file);
    one_line(&format!("{file}{line} {}", frame.function), FRAME_CHARS)
}

/// A count with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut words = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            words.push(',');
        }
        words.push(digit);
    }
    words
}

/// `1,200 events over 0.35 s`, as far as they have times; of one event there is no duration.
pub(crate) fn events_in_words(events: u64, duration_secs: Option<f64>) -> String {
    let number = counted(events, "event");
    match duration_secs.filter(|_| events > 1) {
        None => number,
        Some(0.0) => format!("{number} within a microsecond"),
        secs => format!("{number} over {}", format_secs(secs)),
    }
}

/// A count with its noun.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(48_641), "48,641");
        assert_eq!(grouped(1_000_000), "1,000,000");
        assert_eq!(counted(1, "block"), "1 block");
    }

    #[test]
    fn one_event_has_no_duration() {
        assert_eq!(events_in_words(1, Some(0.0)), "1 event");
        assert_eq!(
            events_in_words(3, Some(0.0)),
            "3 events within a microsecond"
        );
        assert_eq!(
            events_in_words(1200, Some(0.35)),
            "1,200 events over 350 ms"
        );
        assert_eq!(events_in_words(1200, None), "1,200 events");
    }

    #[test]
    fn a_level_that_held_from_the_start_names_no_event() {
        let moment = |event, at_start, secs| {
            when_in_words(&TraceMoment {
                event,
                at_start,
                secs,
                stage: None,
            })
        };
        assert_eq!(moment(0, true, None), "before the first event");
        assert_eq!(moment(48_640, true, Some(1.29)), "when the range begins");
        assert_eq!(moment(7, false, None), "at event 7");
        assert_eq!(
            moment(1200, false, Some(0.35)),
            "at event 1,200, 350 ms after the first"
        );
    }
}
