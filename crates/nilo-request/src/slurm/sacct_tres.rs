//! Cells of `sacct` that list trackable resources: `cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=32G`,
//! `cpu=00:56:24,fs/disk=5273,gres/gpumem=38888M,gres/gpuutil=100,mem=256K`.

use crate::slurm::sacct_cell::parse_size;

/// How many GPUs were given, of all types together.
pub(crate) fn gpu_count(tres: &str) -> Option<u32> {
    if let Some(all) = value(tres, "gres/gpu") {
        return all.parse().ok();
    }
    let mut of_types = entries(tres).filter(|(name, _)| name.starts_with("gres/gpu:"));
    of_types.try_fold(None, |sum: Option<u32>, (_, count)| {
        let count: u32 = count.parse().ok()?;
        Some(Some(sum.unwrap_or(0).saturating_add(count)))
    })?
}

/// GPU memory. Slurm writes zero where the GPU or its driver tells nothing, which is no measurement.
pub(crate) fn gpu_memory_bytes(tres: &str) -> Option<u64> {
    let (bytes, _) = parse_size(value(tres, "gres/gpumem")?, 1)?;
    (bytes > 0).then_some(bytes)
}

/// GPU utilization in percent, added up over the GPUs of a task.
pub(crate) fn gpu_utilization_percent(tres: &str) -> Option<u32> {
    let percent: f64 = value(tres, "gres/gpuutil")?.parse().ok()?;
    (percent > 0.0 && percent <= 1e6).then_some(percent.round() as u32)
}

fn value<'a>(tres: &'a str, name: &str) -> Option<&'a str> {
    let mut entries = entries(tres);
    entries.find_map(|(known, value)| (known == name).then_some(value))
}

fn entries(tres: &str) -> impl Iterator<Item = (&str, &str)> {
    tres.split(',')
        .filter_map(|entry| entry.trim().split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_counted_once() {
        let both = "billing=10,cpu=10,gres/gpu=2,gres/gpu:a100=2,mem=100G,node=1";
        assert_eq!(gpu_count(both), Some(2));
        assert_eq!(gpu_count("cpu=1,gres/gpu:a100=2,gres/gpu:v100=1"), Some(3));
        assert_eq!(gpu_count("cpu=1,gres/gpumem=8G,mem=1G"), None);
        assert_eq!(gpu_count("gres/gpu=many"), None);
        assert_eq!(gpu_count(""), None);
    }

    #[test]
    fn usage_is_read_with_and_without_units() {
        let usage = "cpu=00:56:24,energy=0,fs/disk=350130624578,gres/gpumem=38888M,gres/gpuutil=100,mem=10372780K,pages=3465,vmem=10194376K";
        assert_eq!(gpu_memory_bytes(usage), Some(38_888 << 20));
        assert_eq!(gpu_utilization_percent(usage), Some(100));
        assert_eq!(
            gpu_memory_bytes("gres/gpumem=40777023488"),
            Some(40_777_023_488)
        );
    }

    #[test]
    fn zero_and_nonsense_are_no_measurement() {
        for usage in [
            "",
            "cpu=00:00:00,gres/gpumem=0,gres/gpuutil=0,mem=256K",
            "gres/gpumem=inf,gres/gpuutil=inf",
            "gres/gpumem=,gres/gpuutil=-5",
            "gres/gpumem",
            ",,=,",
        ] {
            assert_eq!(gpu_memory_bytes(usage), None, "{usage}");
            assert_eq!(gpu_utilization_percent(usage), None, "{usage}");
        }
    }
}
