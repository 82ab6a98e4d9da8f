//! What `nilo fit` answers: how much GPU memory a model takes, where it goes, which GPUs it fits, and what would make it fit.

pub mod answer;
pub mod check;
mod choices;
pub mod choices_input;
pub mod growth;
pub mod model_table;
pub mod names;
pub mod part_names;
pub mod source;
pub mod truth;
pub mod way_words;

pub use answer::{FitAnswer, FitRequest};
pub use choices::{FitChoices, WorkChoice};
pub use source::{FitModel, FitModelError};
