//! What the page says in the words of the other answers.

use nilo_answer::snapshot::page::content::{DevicePage, SnapshotPage};
use nilo_answer::snapshot::why::ExplainedOom;
use nilo_sample::printable::printable;
use serde::Serialize;

use crate::text::snapshot::places::stack_in_words;
use crate::text::snapshot::summary::settings_in_words;
use crate::text::snapshot::why::{oom_sentences, oom_title, pinned_note};

#[derive(Serialize)]
pub(crate) struct PageWords {
    settings: String,
    devices: Vec<DeviceWords>,
}

#[derive(Serialize)]
struct DeviceWords {
    /// Where each stack of the summary allocated.
    places: Vec<String>,
    ooms: Vec<OomWords>,
}

#[derive(Serialize)]
struct OomWords {
    title: String,
    sentences: Vec<String>,
    advice: Vec<String>,
    holders: Vec<String>,
    pinned_by: Vec<String>,
    pinned_note: Option<String>,
}

impl PageWords {
    pub(crate) fn of(page: &SnapshotPage) -> Self {
        Self {
            settings: format!("Settings: {}", settings_in_words(&page.settings)),
            devices: page.devices.iter().map(DeviceWords::of).collect(),
        }
    }
}

impl DeviceWords {
    fn of(device: &DevicePage) -> Self {
        let stacks = device.summary.stacks.iter();
        Self {
            places: stacks.map(|held| stack_in_words(&held.stack)).collect(),
            ooms: device.ooms.iter().map(OomWords::of).collect(),
        }
    }
}

impl OomWords {
    fn of(oom: &ExplainedOom) -> Self {
        let holders = oom.holders.iter();
        let pinned_by = oom.pinned_by.iter();
        Self {
            title: oom_title(oom),
            sentences: oom_sentences(oom),
            advice: oom.advice.iter().map(|advice| printable(advice)).collect(),
            holders: holders.map(|held| stack_in_words(&held.stack)).collect(),
            pinned_by: pinned_by.map(|kept| stack_in_words(&kept.stack)).collect(),
            pinned_note: pinned_note(oom),
        }
    }
}
