//! An exception that nobody caught, as the program itself saw it.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest type name that is kept, in characters.
pub const LONGEST_TYPE: usize = 200;
/// The longest message that is kept; longer ones lose their middle.
pub const LONGEST_MESSAGE: usize = 4000;
/// The longest file name or function name that is kept.
pub const LONGEST_NAME: usize = 500;
/// Exceptions that led to this one: so many are kept.
pub const MOST_CAUSES: usize = 8;
/// Lines of the traceback: so many of the last ones are kept.
pub const MOST_FRAMES: usize = 12;

/// What Python prints above the lines of a traceback.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// An unhandled exception.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct UnhandledException {
    /// The process it was raised in.
    pub pid: u32,
    /// The thread, where it is not the main one: only the main thread ends the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The number of the notebook cell (`In[3]`) that raised it: the kernel goes on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u64>,
    /// Its type with the module, such as `torch.OutOfMemoryError`; builtins without.
    pub type_name: String,
    /// What it says.
    pub message: String,
    /// Where it was raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised_at: Option<CodePlace>,
    /// The innermost line of the user's own code on the way there, where that is another place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_code: Option<CodePlace>,
    /// The last lines of the traceback, the innermost last; nothing where only the two above are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<CodePlace>,
    /// The exceptions that it was raised from or while handling, the latest first, each as `Type: message`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

/// A line of code.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct CodePlace {
    /// The file as the interpreter names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function; `<module>` outside of any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
}

impl UnhandledException {
    /// Whether it is a GPU allocation that failed, or was raised because one had.
    pub fn is_gpu_out_of_memory(&self) -> bool {
        self.told_out_of_memory(says_gpu_out_of_memory).is_some()
    }

    /// Whether the system refused memory, or it was raised because the system had.
    pub fn is_host_out_of_memory(&self) -> bool {
        self.told_out_of_memory(says_host_out_of_memory).is_some()
    }

    /// The exception that says which allocation failed: this one, or the one behind it.
    #[must_use]
    pub fn failed_allocation(&self) -> UnhandledException {
        let told = self
            .told_out_of_memory(says_gpu_out_of_memory)
            .or_else(|| self.told_out_of_memory(says_host_out_of_memory));
        let (type_name, message) = told.unwrap_or((&self.type_name, &self.message));
        UnhandledException {
            type_name: type_name.to_owned(),
            message: message.to_owned(),
            ..self.clone()
        }
    }

    /// Type and message of the exception that says so: this one, or else the latest that it was raised from or while handling.
    fn told_out_of_memory(&self, says: fn(&str, &str) -> bool) -> Option<(&str, &str)> {
        let own = (self.type_name.as_str(), self.message.as_str());
        let causes = self.causes.iter();
        let causes = causes.map(|cause| cause.split_once(": ").unwrap_or((cause, "")));
        std::iter::once(own)
            .chain(causes)
            .find(|(type_name, message)| says(type_name, message))
    }

    /// Whether it only says that another process failed, as launchers do: what that raised tells more.
    pub fn is_of_failed_child(&self) -> bool {
        let name = self.type_name.rsplit('.').next().unwrap_or_default();
        matches!(
            name,
            "ChildFailedError"
                | "CalledProcessError"
                | "ProcessRaisedException"
                | "ProcessExitedException"
                | "BrokenProcessPool"
        )
    }

    /// What it says, for a line. Where it quotes the traceback of another process, as the loaders of PyTorch do, that is what it says before, and what was raised there.
    pub fn short_message(&self) -> Cow<'_, str> {
        let Some((before, _)) = self.message.split_once(TRACEBACK) else {
            return Cow::Borrowed(&self.message);
        };
        let (_, innermost) = self.message.rsplit_once(TRACEBACK).unwrap_or_default();
        // Frames are indented.
        let is_text = |line: &&str| !line.is_empty() && !line.starts_with(char::is_whitespace);
        let Some(raised) = innermost.lines().find(is_text) else {
            return Cow::Borrowed(&self.message);
        };
        match before.trim_end_matches("Original ").trim() {
            "" => Cow::Borrowed(raised),
            before => Cow::Owned(format!("{before} {raised}")),
        }
    }

    /// The line to look at first: the user's own.
    pub fn place(&self) -> Option<&CodePlace> {
        self.user_code.as_ref().or(self.raised_at.as_ref())
    }

    /// Cuts what is too long, so that an exception with a gigabyte in its message costs nothing.
    pub fn bounded(mut self) -> UnhandledException {
        let cut = |text: &mut String, most| *text = shortened(text, most);
        cut(&mut self.type_name, LONGEST_TYPE);
        cut(&mut self.message, LONGEST_MESSAGE);
        if let Some(thread) = &mut self.thread {
            cut(thread, LONGEST_NAME);
        }
        let outer = self.frames.len().saturating_sub(MOST_FRAMES);
        self.frames.drain(..outer);
        let places = [&mut self.raised_at, &mut self.user_code]
            .into_iter()
            .flatten();
        for place in places.chain(&mut self.frames) {
            cut(&mut place.file, LONGEST_NAME);
            cut(&mut place.function, LONGEST_NAME);
        }
        self.causes.truncate(MOST_CAUSES);
        for cause in &mut self.causes {
            cut(cause, LONGEST_NAME);
        }
        self
    }
}

/// The type's name has changed over the versions of PyTorch; other libraries raise a plain error with such a message.
fn says_gpu_out_of_memory(type_name: &str, message: &str) -> bool {
    let said = [
        "CUDA out of memory",
        "HIP out of memory",
        "CUDA error: out of memory",
        "RESOURCE_EXHAUSTED: Out of memory",
    ];
    type_name.ends_with("OutOfMemoryError") || said.iter().any(|text| message.contains(text))
}

/// Python's own error, NumPy's, PyTorch's on the CPU, and a system call that was refused memory.
fn says_host_out_of_memory(type_name: &str, message: &str) -> bool {
    let name = type_name.rsplit('.').next().unwrap_or_default();
    let named = ["MemoryError", "_ArrayMemoryError", "ArrayMemoryError"].contains(&name);
    let said = [
        "DefaultCPUAllocator: can't allocate memory",
        "DefaultCPUAllocator: not enough memory",
    ];
    let refused = name == "OSError" && message.starts_with("[Errno 12]");
    named || refused || said.iter().any(|text| message.contains(text))
}

/// The text, or its beginning and its end where it is longer than `most` characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let end = most / 4;
    let beginning = most - end - 1;
    let start: String = text.chars().take(beginning).collect();
    let rest: String = text.chars().skip(length - end).collect();
    format!("{start}…{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exception(type_name: &str, message: &str) -> UnhandledException {
        UnhandledException {
            type_name: type_name.to_owned(),
            message: message.to_owned(),
            ..UnhandledException::default()
        }
    }

    #[test]
    fn gpu_allocations_that_failed_are_recognised() {
        let message = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity";
        for type_name in [
            "torch.OutOfMemoryError",
            "torch.cuda.OutOfMemoryError",
            "RuntimeError",
        ] {
            assert!(exception(type_name, message).is_gpu_out_of_memory());
        }
        for type_name in ["MemoryError", "numpy._core._exceptions._ArrayMemoryError"] {
            let refused = exception(type_name, "Unable to allocate 1.00 TiB");
            assert!(refused.is_host_out_of_memory() && !refused.is_gpu_out_of_memory());
        }
        for (type_name, message) in [
            (
                "RuntimeError",
                "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 70368744177664 bytes. Error code 12 (Cannot allocate memory)",
            ),
            ("OSError", "[Errno 12] Cannot allocate memory"),
        ] {
            assert!(exception(type_name, message).is_host_out_of_memory());
        }
        assert!(!exception("OSError", "[Errno 2] No such file").is_host_out_of_memory());
        assert!(!exception("app.OutOfMemoryErrorLog", "").is_host_out_of_memory());
        assert!(!exception("RuntimeError", "shapes do not match").is_gpu_out_of_memory());
    }

    #[test]
    fn of_a_quoted_traceback_what_was_raised_there_is_told() {
        let short = |message: &str| {
            exception("ValueError", message)
                .short_message()
                .into_owned()
        };
        let traceback = "Traceback (most recent call last):\n  File \"train.py\", line 8, in item\n    raise ValueError\n    ^^^^^\nValueError: bad sample 3\nin two lines\n";
        let of_loader =
            format!("Caught ValueError in DataLoader worker process 1.\nOriginal {traceback}");
        assert_eq!(
            short(&of_loader),
            "Caught ValueError in DataLoader worker process 1. ValueError: bad sample 3"
        );
        let of_rank = format!(
            "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n{traceback}"
        );
        assert_eq!(
            short(&of_rank),
            "-- Process 1 terminated with the following error: ValueError: bad sample 3"
        );
        assert_eq!(short(traceback), "ValueError: bad sample 3");
        for whole in [
            "",
            "shapes do not match\nat all",
            "Traceback (most recent call last):\n  cut",
        ] {
            assert_eq!(short(whole), whole);
        }
    }

    #[test]
    fn an_exception_raised_because_an_allocation_failed_tells_of_that() {
        let mut wrapped = exception("RuntimeError", "training failed");
        assert!(!wrapped.is_gpu_out_of_memory() && !wrapped.is_host_out_of_memory());
        assert_eq!(wrapped.failed_allocation(), wrapped);
        wrapped.causes = vec![
            "app.StepError: step 3".to_owned(),
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.00 MiB.".to_owned(),
        ];
        assert!(wrapped.is_gpu_out_of_memory() && !wrapped.is_host_out_of_memory());
        let behind = wrapped.failed_allocation();
        assert_eq!(behind.type_name, "torch.OutOfMemoryError");
        assert!(behind.message.starts_with("CUDA out of memory. Tried"));
        wrapped.causes = vec!["MemoryError".to_owned()];
        assert!(wrapped.is_host_out_of_memory());
        assert_eq!(wrapped.failed_allocation().type_name, "MemoryError");
    }

    #[test]
    fn it_is_stored_as_an_event_and_read_with_the_least_of_keys() {
        use crate::Event;
        let event = Event::Exception(Box::new(exception("ValueError", "no such batch")));
        let json = serde_json::to_string(&event).unwrap();
        let expected =
            r#"{"event":"exception","pid":0,"type_name":"ValueError","message":"no such batch"}"#;
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_str::<Event>(expected).unwrap(), event);
    }

    #[test]
    fn long_messages_keep_beginning_and_end() {
        let long = "a".repeat(1_000_000) + "the end";
        let bounded = exception("E", &long).bounded();
        assert_eq!(bounded.message.chars().count(), LONGEST_MESSAGE);
        assert!(bounded.message.starts_with("aaa") && bounded.message.ends_with("the end"));
        let short = exception("E", "short").bounded();
        assert_eq!(short.message, "short");
    }

    #[test]
    fn of_a_long_traceback_the_innermost_lines_are_kept() {
        let line = |line| CodePlace {
            file: "a".repeat(10_000),
            line,
            function: "f".to_owned(),
        };
        let mut deep = exception("RecursionError", "");
        deep.frames = (0..1000).map(line).collect();
        let frames = deep.bounded().frames;
        assert_eq!(frames.len(), MOST_FRAMES);
        assert_eq!(frames.last().map(|place| place.line), Some(999));
        assert_eq!(frames[0].file.chars().count(), LONGEST_NAME);
    }
}
