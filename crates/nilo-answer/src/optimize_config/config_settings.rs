//! Every setting, what it may be, and its default: those of `MemoryOptimizationConfig` and `TrainingMemoryConfig`.

use serde_json::{Value, json};

pub(super) const MEMORY: &str = "memory";
pub(super) const TRAINING: &str = "training";

/// The garbage collector's thresholds are C integers, and nothing else is counted higher.
const LARGEST_COUNT: u64 = i32::MAX as u64;

/// What a setting may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Allowed {
    /// A number above zero, up to this.
    Number(f64),
    /// Seconds between two looks, from the first to the second.
    Seconds(f64, f64),
    /// A number above 0 and up to 1.
    Ratio,
    /// A whole number from this on.
    Count(u64),
    /// As above, or null.
    OptionalCount(u64),
    /// A number above zero, or null.
    OptionalNumber,
    Flag,
}

/// Every setting with its part, what it may be, and its default.
pub(super) fn settings() -> Vec<(&'static str, &'static str, Allowed, Value)> {
    use Allowed::{Count, Flag, Number, OptionalCount, OptionalNumber, Ratio, Seconds};
    vec![
        (MEMORY, "max_memory_usage_gb", Number(1e9), json!(8.0)),
        (MEMORY, "memory_warning_threshold", Ratio, json!(0.75)),
        (MEMORY, "memory_critical_threshold", Ratio, json!(0.9)),
        (MEMORY, "gpu_warning_threshold", Ratio, json!(0.8)),
        (MEMORY, "gpu_critical_threshold", Ratio, json!(0.95)),
        (MEMORY, "gc_threshold_0", Count(1), json!(700)),
        (MEMORY, "gc_threshold_1", Count(1), json!(10)),
        (MEMORY, "gc_threshold_2", Count(1), json!(10)),
        (MEMORY, "auto_gc_interval", Number(1e9), json!(60.0)),
        (MEMORY, "buffer_size_limit_mb", Number(1e12), json!(1024)),
        (MEMORY, "enable_buffer_compression", Flag, json!(true)),
        (
            MEMORY,
            "monitoring_interval",
            Seconds(0.01, 3600.0),
            json!(5.0),
        ),
        (MEMORY, "enable_memory_profiling", Flag, json!(true)),
        (MEMORY, "enable_object_counting", Flag, json!(true)),
        (MEMORY, "profile_top_n", Count(1), json!(10)),
        (TRAINING, "initial_batch_size", Count(1), json!(32)),
        (TRAINING, "max_batch_size", Count(1), json!(512)),
        (TRAINING, "min_batch_size", Count(1), json!(8)),
        (TRAINING, "memory_threshold", Ratio, json!(0.85)),
        (TRAINING, "enable_mixed_precision", Flag, json!(true)),
        (TRAINING, "enable_gradient_checkpointing", Flag, json!(true)),
        (TRAINING, "checkpoint_segments", Count(1), json!(4)),
        (TRAINING, "num_workers", Count(0), json!(4)),
        (TRAINING, "pin_memory", Flag, json!(true)),
        (TRAINING, "persistent_workers", Flag, json!(true)),
        (
            TRAINING,
            "effective_batch_size",
            OptionalCount(1),
            Value::Null,
        ),
        (TRAINING, "max_grad_norm", OptionalNumber, Value::Null),
        (TRAINING, "shuffle", Flag, json!(true)),
    ]
}

impl Allowed {
    pub(super) fn takes(self, value: &Value) -> bool {
        let number = value.as_f64();
        match self {
            Allowed::Number(most) => number.is_some_and(|number| number > 0.0 && number <= most),
            Allowed::Ratio => number.is_some_and(|number| number > 0.0 && number <= 1.0),
            Allowed::Seconds(least, most) => {
                number.is_some_and(|number| number >= least && number <= most)
            }
            // Written 8.0 it is the same number.
            Allowed::Count(least) => number.is_some_and(|number| {
                number.fract() == 0.0 && number >= least as f64 && number <= LARGEST_COUNT as f64
            }),
            Allowed::OptionalCount(least) => value.is_null() || Allowed::Count(least).takes(value),
            Allowed::OptionalNumber => value.is_null() || Allowed::Number(f64::MAX).takes(value),
            Allowed::Flag => value.is_boolean(),
        }
    }

    pub(super) fn in_words(self) -> String {
        match self {
            Allowed::Number(most) => format!("a number above 0 and at most {most}"),
            Allowed::Seconds(least, most) => format!("a number from {least} to {most}"),
            Allowed::Ratio => "a number above 0 and at most 1".to_owned(),
            Allowed::Count(least) => format!("a whole number from {least} to {LARGEST_COUNT}"),
            Allowed::OptionalCount(least) => {
                format!("a whole number from {least} to {LARGEST_COUNT}, or null")
            }
            Allowed::OptionalNumber => "a number above 0, or null".to_owned(),
            Allowed::Flag => "true or false".to_owned(),
        }
    }
}
