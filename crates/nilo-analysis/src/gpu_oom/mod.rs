//! Why an allocation on a GPU failed: one cause, chosen from what the failure, PyTorch's figures over time and the growth say.

mod kind;
mod settled_peak;

use nilo_forecast::{Growth, GrowthKind};
use nilo_sample::units::format_bytes;
use nilo_sample::words::duration_in_words;
use nilo_sample::{GpuAllocationFailure, GpuHolder, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use settled_peak::{SettledPeak, settled_peak};

pub use kind::GpuOomKind;

/// Others that hold this share of the device are the cause, whatever this program did.
const MOSTLY_OTHERS: f64 = 0.25;
/// What is less than this share of the limit explains nothing.
const WORTH_NAMING: f64 = 0.05;
/// A container of so many tensors that has this share of what is allocated has been filled by the program.
const COLLECTED_TENSORS: u64 = 8;
const COLLECTED_SHARE: f64 = 0.3;
/// One forward pass is a step, a second one may be that of the step before.
const KEPT_PASSES: u64 = 3;
/// A model whose weights, gradients and optimizer have this share of what is allocated leaves no room for steps.
const MOSTLY_STATE: f64 = 0.8;
/// A step that needs this much more than all before it is a spike.
const SPIKE: f64 = 1.05;

/// Why it failed.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct GpuOomCause {
    /// In one word.
    pub kind: GpuOomKind,
    /// In one sentence without a full stop.
    pub text: String,
    /// What to do about it, the first thing first.
    pub advice: Vec<String>,
}

/// The cause, where one can be told.
pub(crate) fn gpu_oom_cause(
    recording: &Recording,
    failure: &GpuAllocationFailure,
    growth: Option<&Growth>,
) -> Option<GpuOomCause> {
    let seen = FailureEvidence {
        failure,
        growth,
        settled: settled_peak(recording, failure),
    };
    seen.too_large()
        .or_else(|| seen.others(MOSTLY_OTHERS))
        .or_else(|| seen.fragmentation())
        .or_else(|| seen.graphs())
        .or_else(|| seen.kv_cache())
        .or_else(|| seen.leak())
        .or_else(|| seen.outside_pytorch())
        .or_else(|| seen.others(WORTH_NAMING))
        .or_else(|| seen.allowed_fraction())
        .or_else(|| seen.spike())
        .or_else(|| seen.first_step())
}

struct FailureEvidence<'a> {
    failure: &'a GpuAllocationFailure,
    growth: Option<&'a Growth>,
    settled: Option<SettledPeak>,
}

impl FailureEvidence<'_> {
    fn requested(&self) -> u64 {
        self.failure.requested_bytes.unwrap_or(0)
    }

    fn too_large(&self) -> Option<GpuOomCause> {
        let limit = self.failure.limit_bytes()?;
        let asked = self
            .failure
            .requested_bytes
            .filter(|asked| *asked > limit)?;
        let whose = match self.failure.allowed_bytes {
            Some(_) => "that the process is allowed",
            None => "that the GPU has",
        };
        Some(cause(
            GpuOomKind::TooLargeRequest,
            format!(
                "one allocation of {} is larger than the {} {whose}",
                bytes(asked),
                bytes(limit)
            ),
        ))
    }

    /// What others hold on the device: by the driver's account, or what is used beyond this process's memory.
    fn of_others(&self) -> Option<u64> {
        let failure = self.failure;
        let used = failure
            .device_total_bytes?
            .checked_sub(failure.device_free_bytes?)?;
        match (failure.other_processes_bytes, failure.process_bytes) {
            (Some(others), _) => Some(others),
            (None, Some(own)) => Some(used.saturating_sub(own)),
            (None, None) => None,
        }
    }

    fn others(&self, least_share: f64) -> Option<GpuOomCause> {
        let total = self.failure.device_total_bytes?;
        // Where the program limits itself, others take nothing from it while the device has room.
        if self.has_room_beyond_allowed() {
            return None;
        }
        let (held, whose) = match self.of_others() {
            Some(others) => (others, "other processes hold"),
            // The driver does not say whose it is.
            None => {
                let used = total.checked_sub(self.failure.device_free_bytes?)?;
                let outside = used.saturating_sub(self.failure.reserved_bytes?);
                (outside, "outside this process's PyTorch are")
            }
        };
        let is_enough = held >= self.requested() && held as f64 >= least_share * total as f64;
        is_enough.then(|| {
            cause(
                GpuOomKind::OtherProcesses,
                format!("{whose} {} of the GPU's {}", bytes(held), bytes(total)),
            )
        })
    }

    fn outside_pytorch(&self) -> Option<GpuOomCause> {
        let failure = self.failure;
        let outside = failure
            .process_bytes?
            .checked_sub(failure.reserved_bytes?)?;
        let limit = failure.device_total_bytes? as f64;
        let is_enough = outside >= self.requested() && outside as f64 >= WORTH_NAMING * limit;
        (is_enough && !self.has_room_beyond_allowed()).then(|| {
            cause(
                GpuOomKind::OutsidePytorch,
                format!(
                    "this process holds {} of the GPU outside PyTorch's allocator (CUDA context, NCCL, other libraries)",
                    bytes(outside)
                ),
            )
        })
    }

    fn fragmentation(&self) -> Option<GpuOomCause> {
        let failure = self.failure;
        let free = failure
            .reserved_bytes?
            .checked_sub(failure.allocated_bytes?)?;
        let limit = failure.limit_bytes()? as f64;
        let is_enough = free >= failure.requested_bytes? && free as f64 >= WORTH_NAMING * limit;
        is_enough.then(|| {
            cause(
                GpuOomKind::Fragmentation,
                format!(
                    "fragmentation: {} are reserved and not in use, more than the {} asked for, in pieces that are too small",
                    bytes(free),
                    bytes(self.requested())
                ),
            )
        })
    }

    fn graphs(&self) -> Option<GpuOomCause> {
        let failure = self.failure;
        let keeps = failure.grad_enabled == Some(true);
        let is_evaluation = failure.is_training == Some(false)
            || self.is_in(&["eval", "valid", "test", "predict", "infer"]);
        let passes = failure.graph_passes.unwrap_or(0);
        let held = failure.graph_holder.as_deref().unwrap_or_default();
        let has_many = passes >= KEPT_PASSES && self.settled.is_none();
        if keeps && is_evaluation && (has_many || failure.phase.as_deref() == Some("forward")) {
            let kept = match has_many {
                true => format!(": `{held}` keeps the graphs of {passes} forward passes"),
                false => String::new(),
            };
            return Some(cause(
                GpuOomKind::GraphsInEvaluation,
                format!("the model is evaluated with gradients enabled{kept}"),
            ));
        }
        has_many.then(|| {
            cause(
                GpuOomKind::GraphsKept,
                format!(
                    "`{held}` keeps the graphs of {passes} forward passes, with their activations"
                ),
            )
        })
    }

    fn kv_cache(&self) -> Option<GpuOomCause> {
        let failure = self.failure;
        let is_inference =
            failure.grad_enabled == Some(false) || failure.is_training == Some(false);
        let is_cache = |holder: &&GpuHolder| {
            let name = holder.name.to_lowercase();
            holder.is_other()
                && ["past", "cache", "kv"]
                    .iter()
                    .any(|part| name.contains(part))
        };
        let holder = failure.holders.iter().find(is_cache);
        let is_generating = self.is_in(&["generate", "prefill"]);
        (is_inference && (is_generating || holder.is_some_and(|it| self.is_large(it)))).then(|| {
            let held = holder.map_or(String::new(), |holder| format!(": {holder}"));
            cause(
                GpuOomKind::KvCache,
                format!("the cache of keys and values grows with every generated token{held}"),
            )
        })
    }

    fn leak(&self) -> Option<GpuOomCause> {
        let holders = self.failure.holders.iter();
        let collected = holders
            .filter(|holder| holder.is_other() && holder.tensors >= COLLECTED_TENSORS)
            .find(|holder| self.is_large(holder))
            .filter(|_| self.settled.is_none());
        let growth = self.growth.filter(|growth| growth.kind == GrowthKind::Leak);
        let text = match (collected, growth) {
            (Some(holder), _) => format!("the program keeps more and more tensors: {holder}"),
            (None, Some(_)) => "the program retains more GPU memory with every step".to_owned(),
            (None, None) => return None,
        };
        Some(cause(GpuOomKind::Leak, text))
    }

    fn has_room_beyond_allowed(&self) -> bool {
        let free = self.failure.device_free_bytes;
        self.failure.allowed_bytes.is_some() && free.is_some_and(|free| free >= self.requested())
    }

    fn allowed_fraction(&self) -> Option<GpuOomCause> {
        let (allowed, free) = self
            .failure
            .allowed_bytes
            .zip(self.failure.device_free_bytes)?;
        self.has_room_beyond_allowed().then(|| {
            cause(
                GpuOomKind::AllowedFraction,
                format!(
                    "the program limits itself to {}; the GPU has {} free",
                    bytes(allowed),
                    bytes(free)
                ),
            )
        })
    }

    fn spike(&self) -> Option<GpuOomCause> {
        let settled = self.settled?;
        let needed = self.failure.allocated_bytes? + self.requested();
        (needed as f64 >= SPIKE * settled.bytes).then(|| {
            cause(
                GpuOomKind::Spike,
                format!(
                    "this step needs more than {}, where {} were enough for {} before",
                    bytes(needed),
                    bytes(settled.bytes as u64),
                    duration_in_words(settled.secs)
                ),
            )
        })
    }

    fn first_step(&self) -> Option<GpuOomCause> {
        if self.settled.is_some() {
            return None;
        }
        let state = self.held("parameters") + self.held("gradients") + self.held("optimizer state");
        let allocated = self.failure.allocated_bytes?;
        let is_mostly_state = state > 0 && state as f64 >= MOSTLY_STATE * allocated as f64;
        let (kind, what) = match self.failure.phase.as_deref() {
            Some("optimizer.step") => (
                GpuOomKind::OptimizerState,
                "the state of the optimizer does not fit beside the model",
            ),
            _ if is_mostly_state => (GpuOomKind::Model, "the model alone nearly fills the memory"),
            Some("forward" | "backward") => (
                GpuOomKind::FirstStep,
                "the first steps do not fit: activations need what the model leaves",
            ),
            _ => return None,
        };
        let rest = allocated.saturating_sub(state);
        Some(cause(
            kind,
            format!(
                "{what}: {} in parameters, gradients and optimizer state, {} in everything else",
                bytes(state),
                bytes(rest)
            ),
        ))
    }

    fn held(&self, kind: &str) -> u64 {
        let of_kind = self
            .failure
            .holders
            .iter()
            .filter(|holder| holder.kind == kind);
        of_kind.map(|holder| holder.bytes).sum()
    }

    fn is_large(&self, holder: &GpuHolder) -> bool {
        let allocated = self.failure.allocated_bytes.unwrap_or(u64::MAX);
        holder.bytes as f64 >= COLLECTED_SHARE * allocated as f64
    }

    /// Whether a function is called whose name has one of these words.
    fn is_in(&self, words: &[&str]) -> bool {
        self.failure.frames.iter().any(|place| {
            let name = place.function.to_lowercase();
            let mut parts = name.split('_');
            parts.any(|part| words.iter().any(|word| part.starts_with(word)))
        })
    }
}

fn bytes(value: u64) -> String {
    format_bytes(value as f64)
}

fn cause(kind: GpuOomKind, text: String) -> GpuOomCause {
    let advice = kind.advice().iter().map(|&text| text.to_owned());
    GpuOomCause {
        kind,
        text,
        advice: advice.collect(),
    }
}

#[cfg(test)]
mod tests;
