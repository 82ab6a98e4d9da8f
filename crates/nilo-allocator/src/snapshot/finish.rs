//! The last step: what the top level names becomes the snapshot, everything else is dropped.

use super::builder::{DictCell, ListCell, RowTable, SnapshotBuilder};
use super::settings::RecordedSettings;
use super::{DeviceTrace, GpuSnapshot, keys};
use crate::pickle::{PickleKind, PickleValue};

/// More than any machine has; a file that names more is damaged.
const MOST_DEVICES: usize = 1024;

impl SnapshotBuilder {
    pub(crate) fn finish(mut self, top: PickleValue) -> Result<GpuSnapshot, String> {
        let mut snapshot = GpuSnapshot::default();
        match top.kind() {
            // The oldest writers store the list of segments alone.
            PickleKind::List(_) => self.take_segments(top, &mut snapshot)?,
            PickleKind::Dict(dict) => {
                let DictCell::Other(pairs) = self.dicts[dict as usize] else {
                    return Err("it has neither segments nor device traces".to_owned());
                };
                self.take_parts(&self.others[pairs as usize].clone(), &mut snapshot)?;
            }
            _ => return Err("it is neither a dict nor a list".to_owned()),
        }
        snapshot.blocks = self.blocks;
        snapshot.events = self.events;
        snapshot.stacks = self.stacks;
        snapshot.texts = self.texts;
        snapshot.streams = self.streams;
        snapshot.pools = self.pools;
        Ok(snapshot)
    }

    fn take_parts(
        &mut self,
        pairs: &[PickleValue],
        snapshot: &mut GpuSnapshot,
    ) -> Result<(), String> {
        let mut has_parts = false;
        for pair in pairs.chunks_exact(2) {
            match pair[0].kind() {
                PickleKind::Text(keys::SEGMENTS) => {
                    self.take_segments(pair[1], snapshot)?;
                    has_parts = true;
                }
                PickleKind::Text(keys::DEVICE_TRACES) => {
                    self.take_traces(pair[1], snapshot)?;
                    has_parts = true;
                }
                PickleKind::Text(keys::ALLOCATOR_SETTINGS) => {
                    snapshot.settings = self.settings(pair[1])
                }
                PickleKind::Text(keys::EXTERNAL_ANNOTATIONS) => {
                    if let Ok(Some(list)) =
                        self.row_list(keys::EXTERNAL_ANNOTATIONS, pair[1], RowTable::Stages)
                    {
                        let rows = self.row_ranges[list as usize].rows.clone();
                        snapshot.stages =
                            self.stages[rows.start as usize..rows.end as usize].to_vec();
                    }
                }
                _ => {}
            }
        }
        if has_parts {
            Ok(())
        } else {
            Err("it has neither segments nor device traces".to_owned())
        }
    }

    /// Hands a range of rows to its only owner.
    fn take_rows(&mut self, list: u32) -> Result<std::ops::Range<usize>, String> {
        let range = &mut self.row_ranges[list as usize];
        if std::mem::replace(&mut range.taken, true) {
            return Err("two owners share one list".to_owned());
        }
        Ok(range.rows.start as usize..range.rows.end as usize)
    }

    fn take_segments(
        &mut self,
        value: PickleValue,
        snapshot: &mut GpuSnapshot,
    ) -> Result<(), String> {
        let Some(list) = self.row_list(keys::SEGMENTS, value, RowTable::Segments)? else {
            return Ok(());
        };
        let rows = self.take_rows(list)?;
        for row in rows {
            let mut segment = self.segments[row].clone();
            if let Some(list) = self.segment_lists[row] {
                segment.blocks = self.take_rows(list)?;
            }
            let mut address = segment.address;
            for block in &mut self.blocks[segment.blocks.clone()] {
                // Files before 2.1 do not say where blocks lie.
                if block.address == 0 {
                    block.address = address;
                }
                address = block.address.saturating_add(block.size);
            }
            snapshot.segments.push(segment);
        }
        Ok(())
    }

    fn take_traces(
        &mut self,
        value: PickleValue,
        snapshot: &mut GpuSnapshot,
    ) -> Result<(), String> {
        let wrong = || "\"device_traces\" is not a list of lists of events".to_owned();
        let PickleKind::List(list) = value.kind() else {
            return Err(wrong());
        };
        let devices = match self.lists[list as usize] {
            ListCell::Empty => return Ok(()),
            ListCell::Other(id) => self.others[id as usize].clone(),
            _ => return Err(wrong()),
        };
        if devices.len() > MOST_DEVICES {
            return Err(format!("it has traces of {} devices", devices.len()));
        }
        for (device, trace) in devices.into_iter().enumerate() {
            if let Some(list) = self.row_list(keys::DEVICE_TRACES, trace, RowTable::Events)? {
                let rows = self.take_rows(list)?;
                snapshot.traces.push(DeviceTrace { device, rows });
            }
        }
        Ok(())
    }

    fn other_dict(&self, value: PickleValue) -> &[PickleValue] {
        let PickleKind::Dict(dict) = value.kind() else {
            return &[];
        };
        match self.dicts[dict as usize] {
            DictCell::Other(id) => &self.others[id as usize],
            _ => &[],
        }
    }

    /// Settings of an unexpected type are left at their defaults: they explain, they decide nothing.
    fn settings(&self, value: PickleValue) -> RecordedSettings {
        let mut settings = RecordedSettings::default();
        for pair in self.other_dict(value).chunks_exact(2) {
            let PickleKind::Text(key) = pair[0].kind() else {
                continue;
            };
            match (key, pair[1].kind()) {
                (keys::PYTORCH_CUDA_ALLOC_CONF, PickleKind::Text(text)) => {
                    settings.configuration = self.texts.get(text).into_owned()
                }
                (keys::MAX_SPLIT_SIZE, PickleKind::Int(bytes)) => {
                    settings.max_split_bytes = u64::try_from(bytes).ok()
                }
                (keys::GARBAGE_COLLECTION_THRESHOLD, PickleKind::Float(id)) => {
                    settings.garbage_collection_threshold =
                        f64::from_bits(self.numbers[id as usize]);
                }
                (keys::EXPANDABLE_SEGMENTS, PickleKind::Bool(on)) => {
                    settings.expandable_segments = on
                }
                (keys::ROUNDUP_POWER2_DIVISIONS, PickleKind::Dict(_)) => {
                    settings.roundup_power2_divisions = self.divisions(pair[1])
                }
                _ => {}
            }
        }
        settings
    }

    /// Divisions by size class; the keys are the classes in MiB: "1", "2", "4" and so on.
    fn divisions(&self, value: PickleValue) -> Vec<u64> {
        let mut classes = vec![0; 16];
        for pair in self.other_dict(value).chunks_exact(2) {
            let (PickleKind::Text(class), PickleKind::Int(divisions)) =
                (pair[0].kind(), pair[1].kind())
            else {
                continue;
            };
            let mebibytes: Option<u64> = self.texts.get(class).parse().ok();
            if let Some(class) = mebibytes.and_then(u64::checked_ilog2)
                && let Some(slot) = classes.get_mut(class as usize)
            {
                *slot = u64::try_from(divisions).unwrap_or(0);
            }
        }
        if classes.iter().all(|divisions| *divisions == 0) {
            Vec::new()
        } else {
            classes
        }
    }
}
