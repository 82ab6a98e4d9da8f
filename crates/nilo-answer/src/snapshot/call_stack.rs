//! Call stacks as a reader wants them: the frame of the user's code first, torch's own files skipped.

use nilo_allocator::GpuSnapshot;
use nilo_allocator::usage::StackUsage;
use schemars::JsonSchema;
use serde::Serialize;

/// One function in a call stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
pub struct AllocationFrame {
    /// The file, as recorded.
    pub file: String,
    /// The line; `null` where it is unknown.
    pub line: Option<u32>,
    /// The function.
    pub function: String,
}

/// Where something was allocated.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
pub struct AllocationStack {
    /// The innermost frame that is neither torch's own nor C++; `null` where there is none.
    pub user_frame: Option<AllocationFrame>,
    /// The innermost frame outside of installed packages, where it is another one.
    pub own_frame: Option<AllocationFrame>,
    /// All frames, innermost first; empty where no stack was recorded (backward runs in threads without Python frames).
    pub frames: Vec<AllocationFrame>,
}

impl AllocationStack {
    /// The stack of a number.
    pub fn of(snapshot: &GpuSnapshot, stack: u32) -> Self {
        let text = |id| snapshot.texts.get(id).into_owned();
        let frames: Vec<AllocationFrame> = snapshot
            .stacks
            .stack(stack)
            .map(|frame| AllocationFrame {
                file: text(frame.filename),
                line: (frame.line > 0).then_some(frame.line),
                function: text(frame.name),
            })
            .collect();
        let mut python = frames.iter().filter(|frame| is_python(&frame.file));
        let user_frame = python.clone().find(|frame| !is_torch(&frame.file)).cloned();
        let own_frame = python.find(|frame| !is_installed(&frame.file) && !is_torch(&frame.file));
        Self {
            own_frame: own_frame
                .filter(|own| Some(*own) != user_frame.as_ref())
                .cloned(),
            user_frame,
            frames,
        }
    }

    /// Who called the user's frame: the next one that is not torch's.
    pub fn caller(&self) -> Option<&AllocationFrame> {
        let user = self.user_frame.as_ref()?;
        let mut outward = self.frames.iter().skip_while(|frame| *frame != user);
        outward.next();
        outward.find(|frame| is_python(&frame.file) && !is_torch(&frame.file))
    }

    /// The frame to name where only one is: the user's, otherwise the innermost.
    pub fn main_frame(&self) -> Option<&AllocationFrame> {
        self.user_frame.as_ref().or_else(|| self.frames.first())
    }
}

/// What one call stack holds.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct HeldByStack {
    /// The bytes of its blocks.
    pub bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Its part of all allocated bytes.
    pub share_ratio: f64,
    /// Where they were allocated.
    #[serde(flatten)]
    pub stack: AllocationStack,
}

/// The stacks that hold most; `usage` is in that order.
pub(crate) fn largest_holders(
    snapshot: &GpuSnapshot,
    usage: &[StackUsage],
    most: usize,
) -> Vec<HeldByStack> {
    let total: u64 = usage.iter().map(|usage| usage.bytes).sum();
    let holder = |usage: &StackUsage| HeldByStack {
        bytes: usage.bytes,
        blocks: usage.blocks as u64,
        share_ratio: usage.bytes as f64 / total.max(1) as f64,
        stack: AllocationStack::of(snapshot, usage.stack),
    };
    usage.iter().take(most).map(holder).collect()
}

/// Whose code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrameOrigin {
    /// The user's.
    Own,
    /// An installed package's.
    Installed,
    /// torch's.
    Torch,
    /// C++, or unknown.
    Native,
}

/// Whose code a file is.
pub(crate) fn frame_origin(file: &str) -> FrameOrigin {
    if !is_python(file) {
        FrameOrigin::Native
    } else if is_torch(file) {
        FrameOrigin::Torch
    } else if is_installed(file) {
        FrameOrigin::Installed
    } else {
        FrameOrigin::Own
    }
}

/// Frames of C++ have names of source files, of libraries, or none.
fn is_python(file: &str) -> bool {
    file.ends_with(".py") || (file.starts_with('<') && !file.starts_with("<frozen"))
}

/// Parts of torch that call each other; a folder of the user's may be named torch too.
const TORCH_PARTS: [&str; 11] = [
    "_",
    "amp/",
    "autograd/",
    "cuda/",
    "distributed/",
    "fx/",
    "jit/",
    "nn/",
    "optim/",
    "utils/",
    "csrc/",
];

fn is_torch(file: &str) -> bool {
    let parts = ["torch/", "torchgen/", "functorch/"];
    if let Some(inside) = inside_packages(file) {
        return parts.iter().any(|part| inside.starts_with(part));
    }
    let inside = match file.rfind("/torch/") {
        Some(at) => &file[at + "/torch/".len()..],
        None => match file.strip_prefix("torch/") {
            Some(inside) => inside,
            None => return false,
        },
    };
    TORCH_PARTS.iter().any(|part| inside.starts_with(part))
}

fn is_installed(file: &str) -> bool {
    inside_packages(file).is_some() || file.contains("/lib/python3")
}

/// The path below the folder that packages are installed in.
fn inside_packages(file: &str) -> Option<&str> {
    let folders = ["site-packages/", "dist-packages/"];
    folders
        .iter()
        .find_map(|folder| Some(&file[file.rfind(folder)? + folder.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torchs_own_files_are_told_from_the_users() {
        for torch in [
            "/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py",
            "site-packages/torch/optim/adam.py",
            "/home/me/pytorch/torch/_tensor.py",
            "torch/nn/functional.py",
        ] {
            assert!(is_torch(torch), "{torch}");
        }
        for other in [
            "train.py",
            "/home/me/torch/train.py",
            "site-packages/transformers/activations.py",
            "site-packages/torchvision/ops/misc.py",
        ] {
            assert!(!is_torch(other), "{other}");
        }
    }

    #[test]
    fn frames_of_cpp_are_not_the_users() {
        for cpp in ["??", "", "CUDACachingAllocator.cpp", "/x/libtorch_cuda.so"] {
            assert!(!is_python(cpp), "{cpp}");
        }
        assert!(is_python("train.py") && is_python("<ipython-input-3-abc>"));
    }
}
