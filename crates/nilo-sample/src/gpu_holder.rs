//! Who held memory of a GPU when an allocation failed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exception::{LONGEST_NAME, shortened};
use crate::units::format_bytes;

/// A variable of the program and the memory that it leads to. What two variables lead to is counted for the outer one.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct GpuHolder {
    /// The variable, such as `self.history`.
    pub name: String,
    /// The function that it belongs to; empty for a variable of the program itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
    /// `parameters`, `gradients`, `optimizer state` or `tensors`.
    pub kind: String,
    /// The memory of its tensors.
    pub bytes: u64,
    /// How many tensors.
    pub tensors: u64,
}

impl GpuHolder {
    /// Whether it is something other than a model and its optimizer.
    pub fn is_other(&self) -> bool {
        self.kind == "tensors"
    }

    pub(crate) fn bounded(self) -> GpuHolder {
        let shortened = |text: String| shortened(&text, LONGEST_NAME);
        GpuHolder {
            name: shortened(self.name),
            function: shortened(self.function),
            kind: shortened(self.kind),
            ..self
        }
    }
}

impl fmt::Display for GpuHolder {
    /// ``3.75 GiB in 120 tensors held by `kept` in train()``, ``1.20 GiB of parameters held by `model` ``
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", format_bytes(self.bytes as f64))?;
        match (self.is_other(), self.tensors) {
            (true, 1) => write!(f, "in a tensor")?,
            (true, count) => write!(f, "in {count} tensors")?,
            (false, _) => write!(f, "of {}", self.kind)?,
        }
        write!(f, " held by `{}`", self.name)?;
        match self.function.is_empty() {
            true => Ok(()),
            false => write!(f, " in {}()", self.function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_told_in_words() {
        let mut holder = GpuHolder {
            name: "kept".to_owned(),
            function: "train".to_owned(),
            kind: "tensors".to_owned(),
            bytes: 15 << 28,
            tensors: 120,
        };
        assert_eq!(
            holder.to_string(),
            "3.75 GiB in 120 tensors held by `kept` in train()"
        );
        holder.tensors = 1;
        assert!(holder.to_string().starts_with("3.75 GiB in a tensor held"));
        holder.kind = "optimizer state".to_owned();
        holder.function.clear();
        assert_eq!(
            holder.to_string(),
            "3.75 GiB of optimizer state held by `kept`"
        );
    }
}
