//! How a run ran out of memory, in the words of `nilo oom`.

use nilo_advice::OutOfMemoryFacts;

use crate::assessment::RanOut;
use crate::gpu_oom::GpuOomKind;

/// Nothing of a run that did not.
pub(super) fn facts(ran_out: Option<&RanOut>) -> OutOfMemoryFacts {
    let mut out_of_memory = OutOfMemoryFacts::default();
    let Some(ran_out) = ran_out else {
        return out_of_memory;
    };
    // The growth is a sentence of its own.
    let without_growth = RanOut {
        growth: None,
        ..ran_out.clone()
    };
    let bytes = |value: Option<u64>| value.map(|bytes| bytes as f64);
    out_of_memory.happened = Some(without_growth.to_string());
    out_of_memory.on_gpu = Some(ran_out.resource.is_gpu());
    out_of_memory.peak_bytes = bytes(ran_out.peak_bytes);
    out_of_memory.limit_bytes = bytes(ran_out.limit_bytes);
    out_of_memory.refused_by = ran_out.refused_by.as_ref().map(ToString::to_string);
    out_of_memory.growth = ran_out.growth_in_words();
    let cause = ran_out.gpu_cause.as_ref();
    // Of a step that is too large the rules know more: its batch.
    let told = cause.filter(|cause| cause.kind != GpuOomKind::FirstStep);
    if let Some((first, others)) = told.and_then(|cause| cause.advice.split_first()) {
        out_of_memory.gpu_advice = Some(first.clone());
        out_of_memory.gpu_further_advice = Some(others.join("; "));
    }
    out_of_memory
}
