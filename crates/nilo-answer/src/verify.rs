//! What `nilo verify` answers: whether the files of runs are whole, and the exit status that follows.

use std::path::Path;

use nilo_runfile::{RunFolder, RunfileError, Verification};
use schemars::JsonSchema;
use serde::Serialize;

/// The value of [`VerifyAnswer::schema`].
pub const VERIFY_SCHEMA: &str = "nilo.verify/1";

/// The state of the files of one or more runs.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct VerifyAnswer {
    /// `nilo.verify/1`.
    #[schemars(extend("const" = VERIFY_SCHEMA))]
    pub schema: &'static str,
    /// Whether every run was checked and none is damaged.
    pub ok: bool,
    /// One entry for each run.
    pub runs: Vec<VerifiedRun>,
    /// The worst outcome.
    #[serde(skip)]
    pub outcome: Integrity,
}

/// One run of a verification.
#[derive(Debug, Clone, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum VerifiedRun {
    /// Its files could be looked at.
    Checked(CheckedRun),
    /// The run could not be opened.
    NotOpened {
        /// Why, in one sentence.
        error: String,
    },
}

/// The state of a run's files.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct CheckedRun {
    /// The run's folder.
    pub path: String,
    /// What the checksums say, file by file.
    pub verification: Verification,
    /// What is not there any more, which no checksum can tell; one sentence each.
    pub missing: Vec<String>,
}

/// What a check came to; the worst of several counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Integrity {
    /// Everything was checked and is as it was written.
    #[default]
    Whole,
    /// Something is damaged or missing.
    Damaged,
    /// Something could not be read.
    NotChecked,
}

impl CheckedRun {
    /// Checks a run.
    pub fn of(folder: &RunFolder) -> Result<CheckedRun, RunfileError> {
        let mut verification = folder.verify()?;
        let recording = folder.load_where(&|_| false)?;
        let damage = nilo_analysis::damage(&recording).into_iter();
        // What loading finds is damage, also where no report of a file has it.
        let is_told = |text: &String| !verification.ok && recording.damage.contains(text);
        let missing: Vec<String> = damage.filter(|text| !is_told(text)).collect();
        verification.ok &= missing.is_empty();
        Ok(CheckedRun {
            path: text_of(folder.path()),
            verification,
            missing,
        })
    }

    /// What the check came to.
    pub fn outcome(&self) -> Integrity {
        let mut files = self.verification.files.iter();
        match self.verification.ok {
            true => Integrity::Whole,
            false if files.any(|file| file.not_checked.is_some()) => Integrity::NotChecked,
            false => Integrity::Damaged,
        }
    }

    /// Rows that the writers had no room for: the files are whole, but the recording is not.
    pub fn dropped_rows(&self) -> u64 {
        let files = self.verification.files.iter();
        files.map(|file| file.dropped_rows).sum()
    }
}

fn text_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Integrity {
    /// What it means that a run could not be opened.
    pub fn of_error(error: &RunfileError) -> Integrity {
        match error.is_unreadable() {
            true => Integrity::NotChecked,
            false => Integrity::Damaged,
        }
    }

    /// 0 for nothing found, 1 for damage, 2 for what could not be checked.
    pub fn exit_status(self) -> u8 {
        match self {
            Integrity::Whole => 0,
            Integrity::Damaged => 1,
            Integrity::NotChecked => 2,
        }
    }
}

impl VerifyAnswer {
    /// The answer for several runs, each with what its check came to.
    pub fn of(checked: impl IntoIterator<Item = (VerifiedRun, Integrity)>) -> VerifyAnswer {
        let (runs, outcomes): (Vec<VerifiedRun>, Vec<Integrity>) = checked.into_iter().unzip();
        let outcome = outcomes.into_iter().max().unwrap_or_default();
        VerifyAnswer {
            schema: VERIFY_SCHEMA,
            ok: outcome == Integrity::Whole,
            runs,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_opened() -> VerifiedRun {
        VerifiedRun::NotOpened {
            error: "broken".to_owned(),
        }
    }

    #[test]
    fn the_worst_run_decides() {
        let of = |outcomes: &[Integrity]| {
            let each = outcomes.iter().map(|outcome| (not_opened(), *outcome));
            let answer = VerifyAnswer::of(each);
            (answer.ok, answer.outcome.exit_status())
        };
        assert_eq!(of(&[]), (true, 0));
        assert_eq!(of(&[Integrity::Whole, Integrity::Whole]), (true, 0));
        assert_eq!(of(&[Integrity::Damaged, Integrity::Whole]), (false, 1));
        let all = [Integrity::Damaged, Integrity::NotChecked, Integrity::Whole];
        assert_eq!(of(&all), (false, 2));
    }
}
