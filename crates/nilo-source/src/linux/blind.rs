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
            let why = match uid {
                // Its user alone does not decide: it has more capabilities, forbids it, or is of another container.
                Some(uid) if uid == own_uid() => {
                    "the kernel refuses it, although the process belongs to the same user"
                        .to_owned()
                }
                Some(uid) => format!("it belongs to user {uid}"),
                None => "it belongs to another user".to_owned(),
            };
            self.said.push(format!(
                "PSS, I/O counters and open files of PID {pid} ({name}) may not be read: {why}; its memory counts as RSS"
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

fn own_uid() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Root in a container may not look into a process of the host's, for example.
    #[test]
    fn a_refusal_of_a_process_of_our_own_is_not_blamed_on_its_user() {
        let mut blind = BlindSpots::default();
        blind.refused(1, "init", Some(own_uid()));
        blind.refused(2, "other", Some(own_uid() + 1));
        let said = blind.said();
        assert!(!said[0].contains("belongs to user"), "{said:?}");
        assert!(said[0].contains("belongs to the same user"), "{said:?}");
        let other = format!("it belongs to user {}", own_uid() + 1);
        assert!(said[1].contains(&other), "{said:?}");
    }
}
