//! Why a configuration cannot be used.

use super::KNOWN_TYPES;

/// A configuration that does not describe a model, or not one whose memory is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is not JSON.
    #[error("the configuration is not JSON: {reason}")]
    NotJson {
        /// What the parser says.
        reason: String,
    },
    /// It is JSON, but not an object.
    #[error("the configuration is not a JSON object")]
    NotAnObject,
    /// It does not say what it is.
    #[error("the configuration has no \"model_type\"")]
    NoModelType,
    /// Nobody has written down how much memory such a model takes.
    #[error("the architecture {model_type:?} is not known; known are {}", KNOWN_TYPES.join(", "))]
    UnknownArchitecture {
        /// What it says.
        model_type: String,
    },
    /// A number that the family needs is missing.
    #[error("the configuration has no {field:?}")]
    Missing {
        /// Its name.
        field: &'static str,
    },
    /// A value is of the wrong kind or cannot be.
    #[error("{field:?} must be {expected}, not {found}")]
    Wrong {
        /// Its name.
        field: &'static str,
        /// What it can be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// Two values do not go together.
    #[error("{reason}")]
    Contradiction {
        /// Which ones.
        reason: String,
    },
    /// A variant of a known family whose memory is not known.
    #[error("models of the type {model_type:?} with {variant} are not known")]
    UnknownVariant {
        /// The family.
        model_type: String,
        /// What is different.
        variant: &'static str,
    },
}
