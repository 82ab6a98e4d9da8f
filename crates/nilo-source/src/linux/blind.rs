//! What could not be seen and why, each said once.

use std::collections::HashSet;

/// Remembers refusals; many processes of one owner make one sentence.
#[derive(Debug, Default)]
pub(crate) struct BlindSpots {
    said: Vec<String>,
    owners: HashSet<Option<u32>>,
    others: HashSet<&'static str>,
}

impl BlindSpots {
    /// `smaps_rollup`, `io` or `fd` of this process were refused.
    pub(crate) fn refused(&mut self, pid: u32, name: &str, uid: Option<u32>) {
        if self.owners.insert(uid) {
            let owner = match uid {
                Some(uid) => format!("belongs to user {uid}"),
                None => "belongs to another user".to_owned(),
            };
            self.said.push(format!(
                "PSS, I/O counters and open files of PID {pid} ({name}) may not be read: it {owner}; its memory counts as RSS"
            ));
        }
    }

    /// Anything else, once for each `key`.
    pub(crate) fn say_once(&mut self, key: &'static str, sentence: impl FnOnce() -> String) {
        if self.others.insert(key) {
            self.said.push(sentence());
        }
    }

    pub(crate) fn said(&self) -> &[String] {
        &self.said
    }
}
