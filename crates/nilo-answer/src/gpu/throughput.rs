//! What a GPU was measured to do, as a Python program with PyTorch or CuPy tells it, beside what its maker says.

use nilo_model::gpus::GpuKind;
use nilo_sample::printable::printable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measured rates of a GPU.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GpuThroughput {
    /// What computed: `torch` or `cupy`.
    pub library: String,
    /// Its version.
    pub library_version: String,
    /// The GPU by the name that the library has for it.
    pub device_name: String,
    /// How fast its memory is.
    pub copy: Option<CopyRate>,
    /// Products of square matrices, by type.
    pub matrix: Vec<MatrixRate>,
    /// The most that the measurement allocated.
    pub peak_allocated_bytes: u64,
}

/// A copy from one place of the GPU's memory to another.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CopyRate {
    /// Bytes that were read and written in a second, the median of several copies.
    pub bytes_per_sec: f64,
    /// The bandwidth that its maker says.
    pub nominal_bytes_per_sec: Option<f64>,
    /// The first in percent of the second.
    pub of_nominal_percent: Option<f64>,
}

/// Products of matrices of a type.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct MatrixRate {
    /// fp32, tf32, bf16 or fp16.
    pub dtype: &'static str,
    /// Multiplications and additions in a second, the median of several products.
    pub flops_per_sec: f64,
    /// The rate that its maker says, which the catalogue has for 16 bits.
    pub nominal_flops_per_sec: Option<f64>,
    /// The first in percent of the second.
    pub of_nominal_percent: Option<f64>,
}

/// Why there is no measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThroughputError {
    /// Nothing that computes on a GPU can be imported.
    #[error("{python} has neither torch nor CuPy")]
    NoLibrary {
        /// The Python that was asked.
        python: String,
    },
    /// The library has no GPU.
    #[error("{library} {version} sees no GPU")]
    NoGpu {
        /// torch or cupy.
        library: String,
        /// Its version.
        version: String,
    },
    /// The library could not do it.
    #[error("{library} failed: {message}")]
    Failed {
        /// torch or cupy.
        library: String,
        /// In its words.
        message: String,
    },
    /// What was printed is no result.
    #[error("the benchmark in {python} printed something other than its result")]
    NotAResult {
        /// The Python that was asked.
        python: String,
    },
}

/// What the program prints.
#[derive(Debug, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case", deny_unknown_fields)]
enum PrintedResult {
    Measured {
        library: String,
        version: String,
        device_name: String,
        copy_bytes_per_sec: Option<f64>,
        flops_per_sec: PrintedRates,
        peak_allocated_bytes: u64,
    },
    NoLibrary {},
    NoGpu {
        library: String,
        version: String,
    },
    Failed {
        library: String,
        message: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PrintedRates {
    fp32: Option<f64>,
    tf32: Option<f64>,
    bf16: Option<f64>,
    fp16: Option<f64>,
}

/// Names and messages of a foreign program are cut behind this.
const LONGEST_TEXT: usize = 200;
/// A thousand times what any GPU does; what is above was not measured.
const HIGHEST_RATE: f64 = 1e19;

impl GpuThroughput {
    /// What the program printed, beside the nominal figures of a kind of GPU.
    pub fn parse(
        printed: &[u8],
        python: &str,
        nominal: Option<&GpuKind>,
    ) -> Result<Self, ThroughputError> {
        let strange = || ThroughputError::NotAResult {
            python: python.to_owned(),
        };
        match serde_json::from_slice(printed).map_err(|_| strange())? {
            PrintedResult::Measured {
                library,
                version,
                device_name,
                copy_bytes_per_sec,
                flops_per_sec,
                peak_allocated_bytes,
            } => {
                let rates = flops_per_sec.by_name();
                let told = rates.iter().filter_map(|(_, rate)| *rate);
                let is_rate = |rate: f64| rate.is_finite() && rate > 0.0 && rate < HIGHEST_RATE;
                if !told.chain(copy_bytes_per_sec).all(is_rate) {
                    return Err(strange());
                }
                Ok(Self {
                    library: short(&library),
                    library_version: short(&version),
                    device_name: short(&device_name),
                    copy: copy_bytes_per_sec.map(|rate| CopyRate::of(rate, nominal)),
                    matrix: rates
                        .into_iter()
                        .filter_map(|(dtype, rate)| Some(MatrixRate::of(dtype, rate?, nominal)))
                        .collect(),
                    peak_allocated_bytes,
                })
            }
            PrintedResult::NoLibrary {} => Err(ThroughputError::NoLibrary {
                python: python.to_owned(),
            }),
            PrintedResult::NoGpu { library, version } => Err(ThroughputError::NoGpu {
                library: short(&library),
                version: short(&version),
            }),
            PrintedResult::Failed { library, message } => Err(ThroughputError::Failed {
                library: short(&library),
                message: short(&message),
            }),
        }
    }
}

impl PrintedRates {
    fn by_name(&self) -> [(&'static str, Option<f64>); 4] {
        [
            ("fp32", self.fp32),
            ("tf32", self.tf32),
            ("bf16", self.bf16),
            ("fp16", self.fp16),
        ]
    }
}

impl CopyRate {
    fn of(bytes_per_sec: f64, nominal: Option<&GpuKind>) -> Self {
        let nominal = nominal.and_then(|kind| kind.bandwidth_bytes_per_sec);
        Self {
            bytes_per_sec,
            nominal_bytes_per_sec: nominal,
            of_nominal_percent: nominal.map(|nominal| percent(bytes_per_sec, nominal)),
        }
    }
}

impl MatrixRate {
    fn of(dtype: &'static str, flops_per_sec: f64, nominal: Option<&GpuKind>) -> Self {
        let has_nominal = matches!(dtype, "bf16" | "fp16");
        let nominal = nominal
            .filter(|_| has_nominal)
            .and_then(|kind| kind.dense_flops);
        Self {
            dtype,
            flops_per_sec,
            nominal_flops_per_sec: nominal,
            of_nominal_percent: nominal.map(|nominal| percent(flops_per_sec, nominal)),
        }
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    (1000.0 * part / whole).round() / 10.0
}

fn short(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    printable(&line.chars().take(LONGEST_TEXT).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_model::gpus::find_gpu;

    fn parse(printed: &str) -> Result<GpuThroughput, ThroughputError> {
        GpuThroughput::parse(printed.as_bytes(), "python3", find_gpu("T4").ok().as_ref())
    }

    fn measured(copy: &str) -> String {
        format!(
            r#"{{"status": "measured", "library": "torch", "version": "2.11", "device_name": "Tesla T4", "copy_bytes_per_sec": {copy},
            "flops_per_sec": {{"fp32": 4e12, "tf32": null, "bf16": null, "fp16": 26e12}}, "peak_allocated_bytes": 1000}}"#
        )
    }

    #[test]
    fn rates_are_told_beside_what_the_maker_says() {
        let found = parse(&measured("240e9")).unwrap();
        assert_eq!(found.copy.unwrap().of_nominal_percent, Some(75.0));
        let shares: Vec<_> = found
            .matrix
            .iter()
            .map(|rate| (rate.dtype, rate.of_nominal_percent))
            .collect();
        assert_eq!(shares, [("fp32", None), ("fp16", Some(40.0))]);
    }

    #[test]
    fn what_is_not_measured_is_absent_and_not_zero() {
        assert_eq!(parse(&measured("null")).unwrap().copy, None);
    }

    #[test]
    fn anything_but_one_result_is_refused() {
        let strange = Err(ThroughputError::NotAResult {
            python: "python3".to_owned(),
        });
        let whole = measured("240e9");
        let twice = format!("{whole}{whole}");
        let with_more = whole.replace("\"library\"", "\"more\": 1, \"library\"");
        for printed in [
            "",
            "{",
            "[]",
            "null",
            "{\"status\": \"well\"}",
            &measured("-1"),
            &measured("0"),
            &measured("1e300"),
            &measured("\"fast\""),
            &twice,
            &with_more,
        ] {
            assert_eq!(parse(printed), strange, "{printed}");
        }
    }

    #[test]
    fn refusals_are_one_line_that_can_be_printed() {
        let failed = parse(
            r#"{"status": "failed", "library": "torch", "message": "out of\u001b memory\nsecond line"}"#,
        );
        assert_eq!(
            failed.unwrap_err().to_string(),
            "torch failed: out of  memory"
        );
        let absent = parse(r#"{"status": "no-library"}"#).unwrap_err();
        assert_eq!(absent.to_string(), "python3 has neither torch nor CuPy");
        let none =
            parse(r#"{"status": "no-gpu", "library": "torch", "version": "2.11"}"#).unwrap_err();
        assert_eq!(none.to_string(), "torch 2.11 sees no GPU");
    }
}
