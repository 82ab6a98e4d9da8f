//! Why a configuration cannot be used, and what to do about it.

use thiserror::Error;

/// Why a configuration cannot be used.
#[derive(Debug, Error, PartialEq)]
pub enum OptimizeConfigError {
    /// No JSON.
    #[error("the configuration is not JSON: {reason}")]
    NotJson {
        /// What is wrong with it.
        reason: String,
    },
    /// One setting with two values.
    #[error("the setting {key:?} is given twice")]
    GivenTwice {
        /// Its name.
        key: String,
    },
    /// JSON, but no object where one has to be.
    #[error("{what} is {found}, not a JSON object of settings")]
    NotAnObject {
        /// The file, or one of its parts.
        what: String,
        /// What it is instead.
        found: &'static str,
    },
    /// A setting that there is not.
    #[error("unknown setting {key:?}")]
    UnknownSetting {
        /// Its name.
        key: String,
        /// A setting with a similar name.
        similar: Option<&'static str>,
    },
    /// A setting in the wrong place.
    #[error("the setting {key:?} is in the wrong place")]
    Misplaced {
        /// Its name.
        key: String,
        /// Where it belongs.
        part: &'static str,
    },
    /// A value that the setting cannot have.
    #[error("{key} is {value}; it must be {allowed}")]
    BadValue {
        /// The setting.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        allowed: String,
    },
    /// Two settings that contradict each other.
    #[error("{lower} ({lower_value}) is {relation} {upper} ({upper_value})")]
    Contradiction {
        /// The one that has to be smaller.
        lower: &'static str,
        /// Its value.
        lower_value: String,
        /// What must not be: `not below`, `more than`, or `more than half of`.
        relation: &'static str,
        /// The one that has to be larger.
        upper: &'static str,
        /// Its value.
        upper_value: String,
    },
}

impl OptimizeConfigError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            OptimizeConfigError::UnknownSetting {
                similar: Some(similar),
                ..
            } => {
                format!("did you mean {similar:?}? `nilo optimize --template` prints all settings")
            }
            OptimizeConfigError::GivenTwice { .. } => "remove one of the two".to_owned(),
            OptimizeConfigError::Misplaced { part, .. } => format!("put it under {part:?}"),
            OptimizeConfigError::Contradiction { lower, upper, .. } => {
                format!(
                    "lower {lower}, or raise {upper}; what the file does not say has its default"
                )
            }
            _ => "`nilo optimize --template` prints a configuration with every setting".to_owned(),
        }
    }
}
