//! What `nilo snapshot whatif` answers: the peaks of the same requests under other settings of the allocator.

use nilo_allocator::GpuSnapshot;
use nilo_allocator::model::AllocatorSettings;
use nilo_allocator::replay::{
    LimitEstimate, estimate_limit, replay_faithfully, replay_under, waiting_frees,
};
use nilo_allocator::usage::TraceStart;
use schemars::JsonSchema;
use serde::Serialize;

use super::limit_problem::LimitProblem;
use super::settings_text::SettingsChange;
use super::tried_settings::{LimitRange, serves};

/// The value of [`SnapshotWhatIfAnswer::schema`].
pub const SNAPSHOT_WHATIF_SCHEMA: &str = "nilo.snapshot-whatif/1";

/// Settings that are worth a try; PyTorch's documentation names each of them against fragmentation.
const SPLIT_SIZES_MB: [u64; 3] = [64, 128, 512];
const DIVISIONS: [u64; 2] = [4, 8];
const COLLECTION_THRESHOLD: f64 = 0.8;

/// A replay under the recorded settings, and under others.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct SnapshotWhatIfAnswer {
    /// `nilo.snapshot-whatif/1`.
    #[schemars(extend("const" = SNAPSHOT_WHATIF_SCHEMA))]
    pub schema: &'static str,
    /// The file.
    pub file: String,
    /// The GPU's ordinal.
    pub device: usize,
    /// The events that were replayed.
    pub events: u64,
    /// Whether the trace begins after the first allocation: what was alive then is laid out anew where segments work differently.
    pub begins_late: bool,
    /// Frees that waited for another stream while the program went on allocating. How long such a free takes depends on the GPU: it may differ from run to run, and with it what is reserved.
    pub waiting_frees: u64,
    /// Whether the replay makes exactly the recorded calls to the driver and ends in the recorded segments.
    pub replay_is_exact: bool,
    /// The most bytes that the replay may reserve; `null` is no limit.
    pub limit_bytes: Option<u64>,
    /// How the limit is known.
    pub limit_source: ReplayLimitSource,
    /// Where the trace does not tell the limit: what that lies between. The replay has the lower one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_range: Option<LimitRange>,
    /// Why the given limit leaves no room for the program, whatever the settings, or why the trace cannot tell; `null` where neither is so.
    pub limit_problem: Option<LimitProblem>,
    /// The recorded settings.
    pub replayed: ReplayedSettings,
    /// The settings that were asked for; the best of those compared where none were.
    pub whatif: ReplayedSettings,
    /// All that were compared, best first: fewest failed allocations, then least reserved.
    pub compared: Vec<ReplayedSettings>,
}

/// How a limit is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayLimitSource {
    /// It was given.
    Given,
    /// A failed allocation in the trace tells it.
    FailedAllocation,
    /// It is not: the replay may reserve any amount.
    Unknown,
}

/// What a replay came to.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ReplayedSettings {
    /// The value of `PYTORCH_CUDA_ALLOC_CONF`; empty is PyTorch's defaults.
    pub configuration: String,
    /// The most bytes in blocks that the program had.
    pub peak_allocated_bytes: u64,
    /// The most bytes in segments.
    pub peak_reserved_bytes: u64,
    /// The bytes in segments at the end.
    pub final_reserved_bytes: u64,
    /// Allocations that needed all cached segments released first.
    pub retries: u64,
    /// The numbers of recorded failed allocations that would have been served.
    pub avoided_oom_events: Vec<u64>,
    /// The numbers of recorded failed allocations that would have failed as well.
    pub remaining_oom_events: Vec<u64>,
    /// Those of the remaining ones that would have been served within the highest limit that agrees with the trace; none where the limit is known, and of the recorded settings.
    pub depends_on_limit_oom_events: Vec<u64>,
    /// Recorded allocations that would have failed.
    pub new_ooms: u64,
}

impl ReplayedSettings {
    /// Failed allocations.
    pub fn ooms(&self) -> u64 {
        self.remaining_oom_events.len() as u64 + self.new_ooms
    }

    fn of(replay: &DeviceReplay<'_>, configuration: String, settings: &AllocatorSettings) -> Self {
        Self::within(replay, configuration, &replay.limited(settings))
    }

    /// With the limits of these settings.
    fn within(
        replay: &DeviceReplay<'_>,
        configuration: String,
        settings: &AllocatorSettings,
    ) -> Self {
        let outcome = replay_under(replay.snapshot, replay.device, settings);
        let first = replay.snapshot.trace(replay.device).start;
        let numbers = |rows: Vec<usize>| rows.iter().map(|row| (row - first + 1) as u64).collect();
        Self {
            configuration,
            peak_allocated_bytes: outcome.peak_allocated_bytes,
            peak_reserved_bytes: outcome.peak_reserved_bytes,
            final_reserved_bytes: outcome.final_reserved_bytes,
            retries: outcome.retries,
            avoided_oom_events: numbers(outcome.avoided_ooms),
            remaining_oom_events: numbers(outcome.remaining_ooms),
            depends_on_limit_oom_events: Vec::new(),
            new_ooms: outcome.new_ooms.len() as u64,
        }
    }
}

/// The trace of a device, to be replayed within a limit.
pub(crate) struct DeviceReplay<'a> {
    snapshot: &'a GpuSnapshot,
    device: usize,
    /// As recorded, without a limit.
    recorded: AllocatorSettings,
    given_limit: Option<u64>,
    estimated_limit: LimitEstimate,
}

impl<'a> DeviceReplay<'a> {
    pub(crate) fn new(
        snapshot: &'a GpuSnapshot,
        device: usize,
        given_limit: Option<u64>,
    ) -> DeviceReplay<'a> {
        let recorded = AllocatorSettings::from(&snapshot.settings);
        DeviceReplay {
            snapshot,
            device,
            estimated_limit: estimate_limit(snapshot, device, &recorded),
            recorded,
            given_limit,
        }
    }

    fn limited(&self, settings: &AllocatorSettings) -> AllocatorSettings {
        match self.given_limit {
            Some(limit) => AllocatorSettings {
                allowed_bytes: Some(limit),
                device_bytes: None,
                ..settings.clone()
            },
            None => self.estimated_limit.limited(settings),
        }
    }

    /// The recorded settings with each change, in threads of their own; of some it is asked besides what depends on the limit, which takes as long again.
    pub(crate) fn try_all(
        &self,
        changes: &[SettingsChange],
        is_asked: fn(&SettingsChange) -> bool,
    ) -> Vec<ReplayedSettings> {
        let recorded = &self.snapshot.settings.configuration;
        let try_one = |change: &SettingsChange| {
            let settings = change.apply(&self.recorded);
            let configuration = change.configuration(recorded);
            let mut tried = ReplayedSettings::of(self, configuration, &settings);
            if is_asked(change) && tried.ooms() > 0 {
                tried.depends_on_limit_oom_events = self.depends_on_limit(change, &tried);
            }
            tried
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = changes
                .iter()
                .map(|change| scope.spawn(move || try_one(change)))
                .collect();
            let results = threads.into_iter().map(|thread| thread.join());
            results.filter_map(Result::ok).collect()
        })
    }

    /// The failed allocations that a change serves within the highest limit that agrees with the record, and not within the lowest. None where the limit is known.
    fn depends_on_limit(&self, change: &SettingsChange, with_least: &ReplayedSettings) -> Vec<u64> {
        let changed = change.apply(&self.recorded);
        let highest = self.estimated_limit.highest(&changed);
        let Some(settings) = highest.filter(|_| self.limit_range().is_some()) else {
            return Vec::new();
        };
        let with_most = ReplayedSettings::within(self, String::new(), &settings);
        let events = with_most.avoided_oom_events.iter().copied();
        events
            .filter(|event| serves(&with_most, *event) && !serves(with_least, *event))
            .collect()
    }

    /// Between what the limit of the process lies, where it is not given and the record does not tell it.
    pub(crate) fn limit_range(&self) -> Option<LimitRange> {
        if self.given_limit.is_some() {
            return None;
        }
        let below_bytes = self.estimated_limit.below_bytes?;
        let is_unknown = self.estimated_limit.device_bytes.is_none();
        is_unknown.then_some(LimitRange {
            at_least_bytes: self.estimated_limit.at_least_bytes,
            below_bytes,
        })
    }

    /// What could be set to try; nothing that is set already.
    pub(crate) fn worth_a_try(&self) -> Vec<SettingsChange> {
        let none = SettingsChange::default();
        let expandable = SettingsChange {
            expandable_segments: Some(!self.recorded.expandable_segments),
            ..none
        };
        let splits = SPLIT_SIZES_MB.map(|mebibytes| SettingsChange {
            max_split_size_mb: Some(mebibytes),
            ..none
        });
        let divisions = DIVISIONS.map(|divisions| SettingsChange {
            roundup_power2_divisions: Some(divisions),
            ..none
        });
        let collection = SettingsChange {
            garbage_collection_threshold: Some(COLLECTION_THRESHOLD),
            ..none
        };
        let mut changes = vec![expandable];
        changes.extend(splits);
        changes.extend(divisions);
        changes.push(collection);
        changes.retain(|change| {
            let changed = self.limited(&change.apply(&self.recorded));
            // Garbage is collected below a limit of the process alone.
            let collects = changed.allowed_bytes.is_some();
            change.apply(&self.recorded) != self.recorded
                && (change.garbage_collection_threshold.is_none() || collects)
        });
        changes
    }
}

impl SnapshotWhatIfAnswer {
    /// Replays a device under the recorded settings and with a change, or with several to compare where it is empty.
    pub fn of(
        file: String,
        snapshot: &GpuSnapshot,
        device: usize,
        change: &SettingsChange,
        limit: Option<u64>,
    ) -> Self {
        let replay = DeviceReplay::new(snapshot, device, limit);
        let changes = match change.is_empty() {
            true => replay.worth_a_try(),
            false => vec![*change],
        };
        let recorded = snapshot.settings.configuration.clone();
        let replayed = ReplayedSettings::of(&replay, recorded, &replay.recorded);
        let mut compared = replay.try_all(&changes, |_| true);
        compared.sort_by_key(|tried| (tried.ooms(), tried.peak_reserved_bytes));
        let limits = replay.limited(&replay.recorded);
        let limit_bytes = limits.allowed_bytes.or(limits.device_bytes);
        let faithful = replay_faithfully(snapshot, device, &replay.recorded);
        Self {
            schema: SNAPSHOT_WHATIF_SCHEMA,
            file,
            device,
            events: snapshot.trace(device).len() as u64,
            begins_late: !TraceStart::of(snapshot, device).is_empty(),
            waiting_frees: waiting_frees(snapshot, device) as u64,
            replay_is_exact: faithful.is_exact(),
            limit_bytes,
            limit_source: match (limit, limit_bytes) {
                (Some(_), _) => ReplayLimitSource::Given,
                (None, Some(_)) => ReplayLimitSource::FailedAllocation,
                (None, None) => ReplayLimitSource::Unknown,
            },
            limit_range: replay.limit_range(),
            limit_problem: limit
                .and_then(|limit| LimitProblem::of(snapshot, device, &replay.recorded, limit)),
            whatif: compared.first().unwrap_or(&replayed).clone(),
            replayed,
            compared,
        }
    }
}
