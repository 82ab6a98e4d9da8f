//! What everybody says who reads a run whose files are damaged.

/// `1 run is damaged, and its figures may be incomplete: nilo verify RUN`, with the command that tells more.
pub fn damage_warning(command: &str) -> String {
    format!("1 run is damaged, and its figures may be incomplete: {command}")
}
