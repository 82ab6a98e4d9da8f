//! What allocated bytes are: parameters, optimizer state, gradients, activations, as far as call stacks and annotations tell.
//!
//! The innermost frame that says something decides: a forward pass inside of an optimizer's closure makes activations.
//! Backward runs in threads without Python frames, so its allocations have no stack unless C++ frames were recorded; they stay unknown.

use nilo_allocator::GpuSnapshot;
use schemars::JsonSchema;
use serde::Serialize;

/// What allocated bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryCategory {
    /// Parameters and buffers: made by a module's constructor, moved by `Module.to` or loaded into it.
    Parameters,
    /// Made when an optimizer began, or loaded into it.
    OptimizerState,
    /// Temporary tensors of an optimizer's step.
    OptimizerStep,
    /// Accumulated gradients, and the buckets of DistributedDataParallel.
    Gradients,
    /// Other allocations of a backward pass.
    Backward,
    /// Made in a forward pass.
    Activations,
    /// Nothing tells.
    Unknown,
}

/// What decided it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CategoryEvidence {
    /// A frame of the call stack.
    Frames,
    /// No frame did, but the annotation that was open.
    Annotation,
    /// The call stack has no frame that tells.
    OtherFrames,
    /// There is no call stack: a thread without Python frames, such as backward's, or before the trace began.
    NoStack,
}

/// A category, and what decided it.
pub(crate) type DecidedCategory = (MemoryCategory, CategoryEvidence);

/// The category of a call stack by its frames alone.
pub(crate) fn category_of_stack(snapshot: &GpuSnapshot, stack: u32) -> DecidedCategory {
    let mut has_frames = false;
    for frame in snapshot.stacks.stack(stack) {
        has_frames = true;
        let (file, function) = (
            snapshot.texts.get(frame.filename),
            snapshot.texts.get(frame.name),
        );
        if let Some(category) = category_of_frame(&file, &function) {
            return (category, CategoryEvidence::Frames);
        }
    }
    match has_frames {
        true => (MemoryCategory::Unknown, CategoryEvidence::OtherFrames),
        false => (MemoryCategory::Unknown, CategoryEvidence::NoStack),
    }
}

/// The category by the name of the annotation that was open: `Optimizer.step#AdamW.step` is torch's own, others are the user's.
pub(crate) fn category_of_annotation(name: &str) -> Option<MemoryCategory> {
    let name = name.to_ascii_lowercase();
    if name.starts_with("optimizer.step") {
        Some(MemoryCategory::OptimizerStep)
    } else if name.contains("backward") {
        Some(MemoryCategory::Backward)
    } else if name.contains("forward") {
        Some(MemoryCategory::Activations)
    } else {
        None
    }
}

/// Functions of `torch/nn/modules/module.py` that move or fill parameters.
const MODULE_MOVES: [&str; 7] = [
    "_apply",
    "to",
    "cuda",
    "convert",
    "to_empty",
    "load_state_dict",
    "_load_from_state_dict",
];

/// Functions of optimizers that make their state.
const STATE_MAKERS: [&str; 6] = [
    "_init_group",
    "_init_state",
    "init_state",
    "load_state_dict",
    "_process_value_according_to_param_policy",
    "__setstate__",
];

/// Folders and files of optimizers in packages that are often used.
const OPTIMIZERS: [&str; 6] = [
    "torch/optim/",
    "bitsandbytes/optim/",
    "apex/optimizers/",
    "deepspeed/ops/adam/",
    "torch_optimizer/",
    "transformers/optimization.py",
];

fn category_of_frame(file: &str, function: &str) -> Option<MemoryCategory> {
    let is_in = |path: &str| contains_path(file, path);
    if !file.ends_with(".py") && !file.starts_with('<') {
        return category_of_native(function);
    }
    if OPTIMIZERS.iter().any(|path| is_in(path)) {
        // Averaged models and schedulers lie there too.
        let others = ["torch/optim/swa_utils.py", "torch/optim/lr_scheduler.py"];
        return match function {
            _ if others.iter().any(|path| is_in(path)) => None,
            maker if STATE_MAKERS.contains(&maker) => Some(MemoryCategory::OptimizerState),
            _ => Some(MemoryCategory::OptimizerStep),
        };
    }
    let is_autograd = is_in("torch/autograd/")
        && ["_engine_run_backward", "_make_grads", "grad"].contains(&function);
    if is_autograd || function == "backward" {
        return Some(MemoryCategory::Backward);
    }
    let is_module = is_in("torch/nn/modules/module.py");
    let makes_parameters = (is_module && MODULE_MOVES.contains(&function))
        || is_in("torch/nn/parameter.py")
        || function == "reset_parameters"
        || (is_in("torch/nn/modules/") && function == "__init__")
        || function == "set_module_tensor_to_device"
        || (is_in("transformers/modeling_utils.py") && function.contains("load"))
        || is_in("transformers/core_model_loading.py");
    if makes_parameters {
        return Some(MemoryCategory::Parameters);
    }
    let is_forward = function == "forward"
        || is_in("torch/nn/functional.py")
        || (is_module && ["_call_impl", "_wrapped_call_impl"].contains(&function));
    is_forward.then_some(MemoryCategory::Activations)
}

/// Frames of C++, by their functions.
fn category_of_native(function: &str) -> Option<MemoryCategory> {
    let has = |part: &str| function.contains(part);
    if has("AccumulateGrad") || has("c10d::Reducer") {
        Some(MemoryCategory::Gradients)
    } else if has("torch::autograd::Engine") || has("torch::autograd::generated::") {
        Some(MemoryCategory::Backward)
    } else {
        None
    }
}

/// Whether a path has these parts, from the beginning of one on.
fn contains_path(file: &str, parts: &str) -> bool {
    file.match_indices(parts)
        .any(|(at, _)| at == 0 || file.as_bytes()[at - 1] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_tell_what_is_made() {
        use MemoryCategory::*;
        for (file, function, expected) in [
            ("x/torch/optim/adam.py", "_init_group", Some(OptimizerState)),
            (
                "x/torch/optim/adam.py",
                "_multi_tensor_adam",
                Some(OptimizerStep),
            ),
            ("x/torch/optim/swa_utils.py", "__init__", None),
            ("x/torch/nn/modules/module.py", "_apply", Some(Parameters)),
            ("x/torch/nn/modules/linear.py", "__init__", Some(Parameters)),
            (
                "x/torch/nn/modules/module.py",
                "_call_impl",
                Some(Activations),
            ),
            ("model.py", "forward", Some(Activations)),
            ("model.py", "backward", Some(Backward)),
            (
                "x/torch/autograd/graph.py",
                "_engine_run_backward",
                Some(Backward),
            ),
            ("train.py", "main", None),
            ("mytorch/optim/adam.py", "step", None),
            ("??", "torch::autograd::Engine::thread_main", Some(Backward)),
            (
                "accumulate_grad.cpp",
                "torch::autograd::AccumulateGrad::apply",
                Some(Gradients),
            ),
            (
                "VariableType_0.cpp",
                "torch::autograd::VariableType::(anonymous)::mm",
                None,
            ),
        ] {
            assert_eq!(
                category_of_frame(file, function),
                expected,
                "{file} {function}"
            );
        }
    }

    #[test]
    fn annotations_tell_what_frames_do_not() {
        let of = category_of_annotation;
        assert_eq!(
            of("Optimizer.step#AdamW.step"),
            Some(MemoryCategory::OptimizerStep)
        );
        assert_eq!(of("backward pass"), Some(MemoryCategory::Backward));
        assert_eq!(of("ProfilerStep#3"), None);
    }
}
