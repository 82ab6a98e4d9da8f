//! What everybody says who reads a run whose files are damaged.

use nilo_analysis::damage;
use nilo_sample::Recording;

/// `1 run is damaged, and its figures may be incomplete: nilo verify RUN`
pub fn damage_warning(run: &str) -> String {
    format!("1 run is damaged, and its figures may be incomplete: nilo verify {run}")
}

/// The same of a recording; nothing where nothing is wrong with its files.
pub fn damage_warning_of(recording: &Recording) -> Option<String> {
    let is_damaged = !damage(recording).is_empty();
    is_damaged.then(|| damage_warning(recording.description.id.as_str()))
}
