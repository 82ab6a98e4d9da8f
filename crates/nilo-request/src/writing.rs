//! A request as schedulers read it.

use nilo_sample::units::{GIB, MIB};
use schemars::JsonSchema;
use serde::Serialize;

use crate::duration::TimeRequest;
use crate::facts::{Completeness, RunFacts};
use crate::rounding::{round_up_bytes, share_bytes};

/// Options of `sbatch`. Of the three for memory one is given: Slurm refuses two.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SlurmRequest {
    /// For `--mem`, which is for each node: `24G`.
    pub mem: String,
    /// For `--mem-per-cpu`, where the number of CPUs is known.
    pub mem_per_cpu: Option<String>,
    /// For `--mem-per-gpu`, where there are GPUs.
    pub mem_per_gpu: Option<String>,
    /// For `--time`.
    pub time: Option<String>,
}

impl SlurmRequest {
    pub(crate) fn new(
        bytes: u64,
        cpus: Option<u32>,
        gpus: Option<u32>,
        time: Option<&TimeRequest>,
    ) -> SlurmRequest {
        let share = |parts: Option<u32>| {
            let parts = parts.filter(|parts| *parts > 0)?;
            Some(in_units(share_bytes(bytes, parts), ""))
        };
        SlurmRequest {
            mem: in_units(bytes, ""),
            mem_per_cpu: share(cpus),
            mem_per_gpu: share(gpus),
            time: time.map(|time| time.slurm.clone()),
        }
    }
}

/// Memory of a container.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct KubernetesRequest {
    /// For `resources.requests.memory`, by which pods are placed: below this memory stays 95 % of the time; the limit, where a run was killed for memory.
    pub requests: String,
    /// For `resources.limits.memory`, at which the kernel kills.
    pub limits: String,
}

impl KubernetesRequest {
    pub(crate) fn new(bytes: u64, runs: &[RunFacts]) -> KubernetesRequest {
        // The level of a run that was killed for memory was cut off by its limit: it says nothing of what is usual.
        let is_cut_off = |run: &RunFacts| run.completeness == Completeness::OomKilled;
        let usual = runs.iter().filter_map(|run| run.usual_bytes).max();
        let usual = usual.filter(|_| !runs.iter().any(is_cut_off));
        let requests = usual.map_or(bytes, |usual| round_up_bytes(usual as f64).min(bytes));
        KubernetesRequest {
            requests: in_units(requests, "i"),
            limits: in_units(bytes, "i"),
        }
    }
}

/// `24G` or `640M`, with the ending by which Kubernetes tells binary units.
fn in_units(bytes: u64, ending: &str) -> String {
    match bytes % GIB {
        0 => format!("{}G{ending}", bytes / GIB),
        _ => format!("{}M{ending}", bytes.div_ceil(MIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::run;

    #[test]
    fn sizes_are_whole_in_the_largest_unit() {
        let slurm = SlurmRequest::new(24 * GIB, Some(8), Some(3), None);
        assert_eq!(slurm.mem, "24G");
        assert_eq!(slurm.mem_per_cpu.as_deref(), Some("3G"));
        assert_eq!(slurm.mem_per_gpu.as_deref(), Some("8G"));
        let slurm = SlurmRequest::new(640 * MIB, Some(3), Some(0), None);
        assert_eq!(slurm.mem, "640M");
        assert_eq!(slurm.mem_per_cpu.as_deref(), Some("214M"));
        assert_eq!(slurm.mem_per_gpu, None);
    }

    #[test]
    fn a_pod_is_placed_by_its_usual_level_and_killed_at_the_limit() {
        let usual = RunFacts {
            usual_bytes: Some(9 * GIB + 1),
            ..run("a", 16)
        };
        let found = KubernetesRequest::new(20 * GIB, &[usual, run("a", 16)]);
        assert_eq!(
            (found.requests.as_str(), found.limits.as_str()),
            ("10Gi", "20Gi")
        );
        let found = KubernetesRequest::new(20 * GIB, &[run("a", 16)]);
        assert_eq!(found.requests, "20Gi");
        let killed = RunFacts {
            usual_bytes: Some(9 * GIB),
            completeness: Completeness::OomKilled,
            ..run("a", 16)
        };
        let found = KubernetesRequest::new(20 * GIB, &[killed]);
        assert_eq!(found.requests, "20Gi");
    }
}
