//! What a recording holds as events: alerts, marks, attachments, and what could not be seen.

use std::collections::BTreeMap;

use nilo_sample::units::to_secs;
use nilo_sample::{Alert, Event, Recording};
use schemars::JsonSchema;
use serde::Serialize;

/// Alerts that did not arrive.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct UndeliveredAlerts {
    /// How many.
    pub alerts: u64,
    /// Why.
    pub reason: String,
}

/// A mark set by the user.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct MarkSummary {
    /// When.
    pub secs: f64,
    /// What.
    pub text: String,
}

/// A file attached to the run, as it was when it was attached.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct AttachmentSummary {
    /// Its name in the folder `attachments`.
    pub name: String,
    /// Its length.
    pub size_bytes: u64,
    /// What it is, such as `image/png`.
    pub media_type: String,
    /// When it was attached.
    pub secs: f64,
}

pub(super) fn alerts(recording: &Recording) -> Vec<Alert> {
    let alerts = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Alert(alert) => Some(alert.as_ref().clone()),
            _ => None,
        });
    alerts.collect()
}

pub(super) fn alerts_not_delivered(recording: &Recording) -> Vec<UndeliveredAlerts> {
    let mut by_reason: Vec<UndeliveredAlerts> = Vec::new();
    for timed in &recording.events {
        let Event::AlertsNotDelivered { alerts, reason } = &timed.event else {
            continue;
        };
        match by_reason.iter_mut().find(|known| known.reason == *reason) {
            Some(known) => known.alerts += alerts,
            None => by_reason.push(UndeliveredAlerts {
                alerts: *alerts,
                reason: reason.clone(),
            }),
        }
    }
    by_reason
}

pub(super) fn marks(recording: &Recording) -> Vec<MarkSummary> {
    let marks = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Mark { text } => Some(MarkSummary {
                secs: to_secs(timed.time_nanos),
                text: text.clone(),
            }),
            _ => None,
        });
    marks.collect()
}

/// The attachments by name; where two events tell of one name, the last counts.
pub(super) fn attachments(recording: &Recording) -> Vec<AttachmentSummary> {
    let mut found = BTreeMap::new();
    for timed in &recording.events {
        let Event::Attachment {
            name,
            bytes,
            media_type,
            ..
        } = &timed.event
        else {
            continue;
        };
        let summary = AttachmentSummary {
            name: name.clone(),
            size_bytes: *bytes,
            media_type: media_type.clone(),
            secs: to_secs(timed.time_nanos),
        };
        found.insert(name.clone(), summary);
    }
    found.into_values().collect()
}

pub(super) fn blind_spots(recording: &Recording) -> Vec<String> {
    let texts = recording
        .events
        .iter()
        .filter_map(|timed| match &timed.event {
            Event::Blind { text } => Some(text.clone()),
            _ => None,
        });
    texts.collect()
}
