//! How a run came to be recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run came to be recorded.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunMode {
    /// We started the command.
    Run,
    /// We attached to processes that ran already.
    Watch,
    /// A Python program recorded itself.
    Python,
    /// A training of a tokenizer recorded itself.
    Bpe,
    /// There is no job: the host, our own cgroup and the GPUs, for as long as a live verb looks at them.
    Machine,
    /// Something that a later version knows.
    #[serde(untagged)]
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_words_and_an_unknown_one_stays_as_it_is() {
        let words = ["run", "watch", "python", "bpe", "machine", "of-tomorrow"];
        let modes = [
            RunMode::Run,
            RunMode::Watch,
            RunMode::Python,
            RunMode::Bpe,
            RunMode::Machine,
            RunMode::Other("of-tomorrow".to_owned()),
        ];
        for (word, mode) in words.into_iter().zip(modes) {
            let json = format!("{word:?}");
            assert_eq!(serde_json::to_string(&mode).unwrap(), json);
            assert_eq!(serde_json::from_str::<RunMode>(&json).unwrap(), mode);
        }
    }
}
