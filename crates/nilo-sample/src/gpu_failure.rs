//! An allocation on a GPU that failed: what was asked for, what was held, and where in the program.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exception::{CodePlace, LONGEST_NAME, MOST_FRAMES, UnhandledException, shortened};
use crate::gpu_holder::GpuHolder;
use crate::units::{byte_unit, format_bytes};

/// A failed allocation, by PyTorch's account. What is not known is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct GpuAllocationFailure {
    /// The process that asked.
    pub pid: u32,
    /// The device's index in that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// What it asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_bytes: Option<u64>,
    /// Memory in tensors of this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_bytes: Option<u64>,
    /// Memory that its allocator held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// Of that, free pieces of blocks that are partly in use: they cannot be given back, and may be too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inactive_split_bytes: Option<u64>,
    /// What the process may allocate (`set_per_process_memory_fraction`), where that is less than the device has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_bytes: Option<u64>,
    /// Free on the device, whoever used the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_free_bytes: Option<u64>,
    /// Memory of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_total_bytes: Option<u64>,
    /// How often the allocator had given back what it kept and tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alloc_retries: Option<u64>,
    /// How many allocations had failed, with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ooms: Option<u64>,
    /// The training step, where the program counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
    /// The part of the step, by the functions that were called: `forward`, `backward` or `optimizer.step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The innermost line of the user's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<CodePlace>,
    /// The last lines of the call stack, the innermost last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<CodePlace>,
    /// The attachment of the run that has what the allocator held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Memory of this process on the device, PyTorch's and all other (the CUDA context, libraries), by the driver's account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_bytes: Option<u64>,
    /// Memory of other processes on the device, by the driver's account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_processes_bytes: Option<u64>,
    /// Whether the code that asked keeps graphs for a backward pass (`torch.is_grad_enabled()`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grad_enabled: Option<bool>,
    /// Whether the largest module was in training mode (`model.train()`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_training: Option<bool>,
    /// Of how many forward passes a variable keeps the graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_passes: Option<u64>,
    /// Which variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_holder: Option<String>,
    /// The variables that lead to most of the memory, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<GpuHolder>,
}

/// What stands before the memory of the program itself in PyTorch's message.
const OWN_MEMORY: &str = "this process has ";

/// So many holders are kept.
const MOST_HOLDERS: usize = 8;

impl GpuAllocationFailure {
    /// What an exception tells of it: PyTorch's message has figures.
    pub fn of_exception(exception: &UnhandledException) -> GpuAllocationFailure {
        let told = exception.failed_allocation();
        let text = told.message.as_str();
        let device = after(text, "GPU ").and_then(leading_number);
        GpuAllocationFailure {
            pid: exception.pid,
            device,
            requested_bytes: after(text, "Tried to allocate ").and_then(leading_bytes),
            allocated_bytes: after(text, "Of the allocated memory ")
                .and_then(leading_bytes)
                .or_else(|| trailing_bytes(text, " already allocated")),
            reserved_bytes: trailing_bytes(text, " reserved in total by PyTorch"),
            allowed_bytes: trailing_bytes(text, " allowed; "),
            device_free_bytes: trailing_bytes(text, " is free")
                .or_else(|| trailing_bytes(text, " free;")),
            device_total_bytes: after(text, "total capacity of ")
                .and_then(leading_bytes)
                .or_else(|| trailing_bytes(text, " total capacity;")),
            process_bytes: after(text, OWN_MEMORY).and_then(leading_bytes),
            other_processes_bytes: other_processes(text),
            phase: phase_of(&exception.frames),
            place: exception.place().cloned(),
            frames: exception.frames.clone(),
            ..GpuAllocationFailure::default()
        }
    }

    /// This one, which the allocator told, with what the exception that followed tells besides.
    #[must_use]
    pub fn with_exception(self, exception: &UnhandledException) -> GpuAllocationFailure {
        let raised = GpuAllocationFailure::of_exception(exception);
        GpuAllocationFailure {
            device: self.device.or(raised.device),
            requested_bytes: self.requested_bytes.or(raised.requested_bytes),
            allocated_bytes: self.allocated_bytes.or(raised.allocated_bytes),
            reserved_bytes: self.reserved_bytes.or(raised.reserved_bytes),
            allowed_bytes: self.allowed_bytes.or(raised.allowed_bytes),
            device_free_bytes: self.device_free_bytes.or(raised.device_free_bytes),
            device_total_bytes: self.device_total_bytes.or(raised.device_total_bytes),
            process_bytes: self.process_bytes.or(raised.process_bytes),
            other_processes_bytes: self.other_processes_bytes.or(raised.other_processes_bytes),
            phase: self
                .phase
                .or_else(|| phase_of(&self.frames))
                .or(raised.phase),
            place: raised.place.or(self.place),
            frames: match self.frames.is_empty() {
                true => raised.frames,
                false => self.frames,
            },
            ..self
        }
    }

    /// What the process could allocate at most.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.allowed_bytes.or(self.device_total_bytes)
    }

    /// Cuts what is too long.
    #[must_use]
    pub fn bounded(mut self) -> GpuAllocationFailure {
        let outer = self.frames.len().saturating_sub(MOST_FRAMES);
        self.frames.drain(..outer);
        for place in self.frames.iter_mut().chain(&mut self.place) {
            place.file = shortened(&place.file, LONGEST_NAME);
            place.function = shortened(&place.function, LONGEST_NAME);
        }
        let texts = [&mut self.phase, &mut self.snapshot, &mut self.graph_holder];
        for text in texts.into_iter().flatten() {
            *text = shortened(text, LONGEST_NAME);
        }
        self.holders.truncate(MOST_HOLDERS);
        self.holders = self.holders.into_iter().map(GpuHolder::bounded).collect();
        self
    }
}

impl fmt::Display for GpuAllocationFailure {
    /// `tried to allocate 16.00 MiB on cuda:0 with 16.76 of 16.78 GiB allowed allocated, in train.py:31 (optimizer.step) at step 457`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.requested_bytes {
            Some(bytes) => write!(f, "tried to allocate {}", format_bytes(bytes as f64))?,
            None => write!(f, "an allocation failed")?,
        }
        match self.device {
            Some(device) => write!(f, " on cuda:{device}")?,
            None => write!(f, " on the GPU")?,
        }
        if let (Some(allocated), Some(limit)) = (self.allocated_bytes, self.limit_bytes()) {
            let allowed = match self.allowed_bytes {
                Some(_) => " allowed",
                None => "",
            };
            write!(f, " with {}{allowed} allocated", of_both(allocated, limit))?;
        }
        if let Some(place) = &self.place {
            let file = place.file.rsplit('/').next().unwrap_or_default();
            write!(f, ", in {file}:{}", place.line)?;
            let function = Some(&place.function).filter(|name| !name.is_empty());
            if let Some(what) = self.phase.as_ref().or(function) {
                write!(f, " ({what})")?;
            }
        }
        match self.step {
            Some(step) => write!(f, " at step {step}"),
            None => Ok(()),
        }
    }
}

/// `16.76 of 16.78 GiB`, or both with their units where these differ.
fn of_both(part: u64, whole: u64) -> String {
    let (unit, size) = byte_unit(whole as f64);
    let text = format_bytes(whole as f64);
    match byte_unit(part as f64).0 == unit && size > 1 {
        true => format!("{:.2} of {text}", part as f64 / size as f64),
        false => format!("{} of {text}", format_bytes(part as f64)),
    }
}

/// The part of a training step that a call stack is in, by PyTorch's own functions; the innermost one counts.
fn phase_of(frames: &[CodePlace]) -> Option<String> {
    let name = |place: &CodePlace| {
        let is_in = |part: &str| place.file.contains(part);
        match place.function.as_str() {
            "step" if is_in("/optim/") => Some("optimizer.step"),
            "backward" if is_in("/torch/") => Some("backward"),
            "_call_impl" | "_wrapped_call_impl" if is_in("/torch/nn/modules/") => Some("forward"),
            _ => None,
        }
    };
    frames.iter().rev().find_map(name).map(str::to_owned)
}

/// `Process 4711 has 60.00 GiB memory in use.`, once for each other process. Where a container hides numbers from the program, it does not know its own among them.
fn other_processes(text: &str) -> Option<u64> {
    after(text, OWN_MEMORY)?;
    let mut total: Option<u64> = None;
    for part in text.split("Process ").skip(1) {
        let bytes = part
            .split_once(" has ")
            .filter(|(pid, _)| pid.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|(_, rest)| leading_bytes(rest));
        total = match (total, bytes) {
            (Some(total), Some(bytes)) => Some(total.saturating_add(bytes)),
            (total, bytes) => total.or(bytes),
        };
    }
    total
}

/// The text behind the first `marker`.
fn after<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    text.split_once(marker).map(|(_, rest)| rest)
}

fn leading_number(text: &str) -> Option<u32> {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// `20.00 GiB and more`
fn leading_bytes(text: &str) -> Option<u64> {
    let mut words = text.split([' ', ';', ')', ',']);
    let value: f64 = words.next()?.parse().ok()?;
    let unit = words.next()?.trim_end_matches('.');
    let size = match unit {
        "bytes" | "byte" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = value * size;
    (bytes.is_finite() && (0.0..1e18).contains(&bytes)).then_some(bytes as u64)
}

/// The size that stands before the first `marker`.
fn trailing_bytes(text: &str, marker: &str) -> Option<u64> {
    let (before, _) = text.split_once(marker)?;
    let unit_at = before.rfind(' ')?;
    let value_at = before[..unit_at].rfind([' ', '(']).map_or(0, |at| at + 1);
    leading_bytes(&before[value_at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = (1u64 << 30) as f64;

    fn raised(message: &str) -> UnhandledException {
        let line = |file: &str, line, function: &str| CodePlace {
            file: file.to_owned(),
            line,
            function: function.to_owned(),
        };
        let torch = "/venv/lib/python3.12/site-packages/torch";
        UnhandledException {
            pid: 7,
            type_name: "torch.OutOfMemoryError".to_owned(),
            message: message.to_owned(),
            user_code: Some(line("/home/me/train.py", 31, "main")),
            frames: vec![
                line("/home/me/train.py", 31, "main"),
                line(&format!("{torch}/optim/optimizer.py"), 516, "wrapper"),
                line(&format!("{torch}/optim/adam.py"), 247, "step"),
                line(&format!("{torch}/optim/adam.py"), 500, "_init_group"),
            ],
            ..UnhandledException::default()
        }
    }

    #[test]
    fn the_message_of_pytorch_is_read() {
        let found = GpuAllocationFailure::of_exception(&raised(
            "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which 122.97 GiB is free. \
             16.78 GiB allowed; Process 4711 has 17.28 GiB memory in use. Of the allocated memory 16.76 GiB is allocated by PyTorch, \
             and 5.50 MiB is reserved by PyTorch but unallocated.",
        ));
        assert_eq!(found.requested_bytes, Some(16 << 20));
        assert_eq!(found.device, Some(0));
        assert_eq!(found.allowed_bytes, Some((16.78 * GIB) as u64));
        assert_eq!(found.allocated_bytes, Some((16.76 * GIB) as u64));
        assert_eq!(found.device_free_bytes, Some((122.97 * GIB) as u64));
        assert_eq!(found.device_total_bytes, Some((139.80 * GIB) as u64));
        assert_eq!(
            found.to_string(),
            "tried to allocate 16.00 MiB on cuda:0 with 16.76 of 16.78 GiB allowed allocated, in train.py:31 (optimizer.step)"
        );
    }

    #[test]
    fn other_processes_and_memory_outside_pytorch_are_read() {
        let found = GpuAllocationFailure::of_exception(&raised(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 1.00 GiB is free. \
             Process 4711 has 60.00 GiB memory in use. Process 12 has 512.00 MiB memory in use. \
             Including non-PyTorch memory, this process has 78.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch",
        ));
        assert_eq!(found.other_processes_bytes, Some((60 << 30) + (512 << 20)));
        assert_eq!(found.process_bytes, Some(78 << 30));
        for unknown in [
            "Process x has 1.00 GiB",
            "Process 4711 has 17.28 GiB memory in use.",
        ] {
            let found = GpuAllocationFailure::of_exception(&raised(unknown));
            assert_eq!(
                (found.other_processes_bytes, found.process_bytes),
                (None, None)
            );
        }
    }

    #[test]
    fn the_message_of_earlier_versions_is_read() {
        let found = GpuAllocationFailure::of_exception(&raised(
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 15.90 GiB total capacity; 14.75 GiB already allocated; \
             15.75 MiB free; 15.20 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try",
        ));
        assert_eq!(
            (found.requested_bytes, found.device),
            (Some(20 << 20), Some(1))
        );
        assert_eq!(found.allocated_bytes, Some((14.75 * GIB) as u64));
        assert_eq!(found.reserved_bytes, Some((15.20 * GIB) as u64));
        assert_eq!(found.device_free_bytes, Some((15.75 * 1048576.0) as u64));
        assert_eq!(found.device_total_bytes, Some((15.90 * GIB) as u64));
    }

    #[test]
    fn other_messages_leave_the_figures_open() {
        for message in [
            "",
            "CUDA error: out of memory",
            "Tried to allocate lots",
            "Tried to allocate 1e999 GiB. GPU x allowed;  allowed; ",
        ] {
            let found = GpuAllocationFailure::of_exception(&raised(message));
            assert_eq!((found.requested_bytes, found.allowed_bytes), (None, None));
            assert!(found.to_string().starts_with("an allocation failed"));
        }
    }

    #[test]
    fn what_the_allocator_told_wins_over_the_message() {
        let told = GpuAllocationFailure {
            pid: 7,
            requested_bytes: Some(16_777_216),
            allocated_bytes: Some(100),
            step: Some(457),
            ..GpuAllocationFailure::default()
        };
        let both = told.with_exception(&raised("Tried to allocate 15.99 MiB. GPU 3 has"));
        assert_eq!(both.requested_bytes, Some(16_777_216));
        assert_eq!((both.device, both.step), (Some(3), Some(457)));
        assert!(both.to_string().ends_with("(optimizer.step) at step 457"));
    }
}
