//! An exception that nobody caught, as the program itself saw it.

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
    /// Whether it is a GPU allocation that failed. The type's name has changed over the versions of PyTorch; other libraries raise a plain error with such a message.
    pub fn is_gpu_out_of_memory(&self) -> bool {
        let named = self.type_name.ends_with("OutOfMemoryError") && self.type_name != "MemoryError";
        let said = [
            "CUDA out of memory",
            "HIP out of memory",
            "CUDA error: out of memory",
            "RESOURCE_EXHAUSTED: Out of memory",
        ];
        named || said.iter().any(|text| self.message.contains(text))
    }

    /// Whether the system refused memory: Python's own error, or NumPy's.
    pub fn is_host_out_of_memory(&self) -> bool {
        let name = self.type_name.rsplit('.').next().unwrap_or_default();
        matches!(
            name,
            "MemoryError" | "_ArrayMemoryError" | "ArrayMemoryError"
        )
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
        for place in [&mut self.raised_at, &mut self.user_code]
            .into_iter()
            .flatten()
        {
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

/// The text, or its beginning and its end where it is longer than `most` characters.
fn shortened(text: &str, most: usize) -> String {
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
        assert!(!exception("app.OutOfMemoryErrorLog", "").is_host_out_of_memory());
        assert!(!exception("RuntimeError", "shapes do not match").is_gpu_out_of_memory());
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
}
