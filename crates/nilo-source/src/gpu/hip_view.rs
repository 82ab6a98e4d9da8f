//! Which AMD GPUs a program sees: `ROCR_VISIBLE_DEVICES`, and of those `HIP_VISIBLE_DEVICES` or else `CUDA_VISIBLE_DEVICES`, as ROCm reads them.

use crate::gpu::GpuDevice;

/// The list for the runtime below HIP; indices in the second are counted within what it leaves.
pub(super) const ROCR_VISIBLE: &str = "ROCR_VISIBLE_DEVICES";
pub(super) const HIP_VISIBLE: &str = "HIP_VISIBLE_DEVICES";
pub(super) const CUDA_VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Places among `devices`, all of them AMD's, in HIP's order.
pub(super) fn hip_places(
    devices: &[GpuDevice],
    variable: impl Fn(&'static str) -> Option<String>,
) -> Vec<usize> {
    let every = (0..devices.len()).collect();
    let of_runtime = choose(devices, every, variable(ROCR_VISIBLE));
    let list = variable(HIP_VISIBLE).or_else(|| variable(CUDA_VISIBLE));
    choose(devices, of_runtime, list)
}

fn choose(devices: &[GpuDevice], from: Vec<usize>, list: Option<String>) -> Vec<usize> {
    let Some(list) = list else {
        return from;
    };
    let mut chosen = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let place = match entry.parse::<usize>() {
            Ok(index) => from.get(index).copied(),
            Err(_) if entry.starts_with("GPU-") => from
                .iter()
                .copied()
                .find(|place| devices[*place].uuid.eq_ignore_ascii_case(entry)),
            Err(_) => None,
        };
        match place {
            Some(place) if !chosen.contains(&place) => chosen.push(place),
            Some(_) => {}
            // Whatever follows the first entry that means nothing is ignored.
            None => break,
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rocr: Option<&str>, hip: Option<&str>, cuda: Option<&str>) -> Vec<usize> {
        let device = |index: u32| GpuDevice {
            index,
            uuid: format!("GPU-{index}a"),
            ..GpuDevice::default()
        };
        let devices: Vec<GpuDevice> = (0..4).map(device).collect();
        hip_places(&devices, |name| {
            let value = match name {
                ROCR_VISIBLE => rocr,
                HIP_VISIBLE => hip,
                _ => cuda,
            };
            value.map(str::to_owned)
        })
    }

    #[test]
    fn lists_are_applied_one_after_the_other() {
        assert_eq!(seen(None, None, None), [0, 1, 2, 3]);
        assert_eq!(seen(None, Some("2,0"), Some("1")), [2, 0]);
        assert_eq!(seen(None, None, Some("1")), [1]);
        assert_eq!(seen(Some("3,1"), Some("1"), None), [1]);
        assert_eq!(seen(Some("GPU-2A,0"), None, None), [2, 0]);
        assert_eq!(seen(None, Some(""), None), [0; 0]);
        assert_eq!(seen(None, Some("1,-1,2"), None), [1]);
        assert_eq!(seen(Some("0"), Some("7"), None), [0; 0]);
        assert_eq!(seen(None, Some("1,1"), None), [1]);
    }
}
