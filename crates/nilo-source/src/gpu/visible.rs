//! Which GPUs a program sees and how it numbers them: `CUDA_VISIBLE_DEVICES`, as CUDA reads it; AMD's GPUs by `hip_view.rs`.
//!
//! The variable holds indices, or UUIDs that may be cut short, and everything behind the first entry that is neither is ignored.
//! Indices are CUDA's own, fastest GPU first, unless `CUDA_DEVICE_ORDER` says `PCI_BUS_ID`, which is the driver's order.
//! GPUs of one kind keep the driver's order either way; among GPUs of several kinds an index does not tell which one is meant.

use std::path::Path;

use crate::descriptors::read_kernel_file;
use crate::gpu::hip_view::{CUDA_VISIBLE, HIP_VISIBLE, ROCR_VISIBLE, hip_places};
use crate::gpu::{GpuDevice, GpuMaker};

/// Every variable that says what a program sees.
pub const VISIBILITY_VARIABLES: [&str; 4] = [VISIBLE, ORDER, ROCR_VISIBLE, HIP_VISIBLE];

const VISIBLE: &str = CUDA_VISIBLE;
const ORDER: &str = "CUDA_DEVICE_ORDER";
const DRIVERS_ORDER: &str = "PCI_BUS_ID";

/// The GPUs that a program sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaView {
    /// Their places in the driver's list, in CUDA's order: the first is CUDA's device 0.
    pub places: Vec<usize>,
    /// False when it could not be told which GPUs are meant: then it is all of them in the driver's order.
    pub is_certain: bool,
}

impl CudaView {
    fn all(devices: &[GpuDevice], is_certain: bool) -> CudaView {
        CudaView {
            places: (0..devices.len()).collect(),
            is_certain,
        }
    }
}

/// What the program with this environment sees: NVIDIA's GPUs as CUDA numbers them, and behind them AMD's as HIP does.
pub fn cuda_view(
    devices: &[GpuDevice],
    variable: impl Fn(&'static str) -> Option<String>,
) -> CudaView {
    let count = devices.partition_point(|device| device.maker == GpuMaker::Nvidia);
    let (nvidia, amd) = devices.split_at(count);
    let mut view = nvidia_view(nvidia, &variable);
    let amd_places = hip_places(amd, variable).into_iter();
    view.places.extend(amd_places.map(|place| count + place));
    view
}

fn nvidia_view(
    devices: &[GpuDevice],
    variable: impl Fn(&'static str) -> Option<String>,
) -> CudaView {
    let one_kind = devices.windows(2).all(|pair| pair[0].name == pair[1].name);
    let indices_are_the_drivers =
        one_kind || variable(ORDER).is_some_and(|order| order == DRIVERS_ORDER);
    let Some(list) = variable(VISIBLE) else {
        return CudaView::all(devices, indices_are_the_drivers);
    };
    let is_divided = devices.iter().any(|device| device.part_of.is_some());
    let mut places = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let meant: Vec<usize> = match entry.parse::<u32>() {
            Ok(_) if !indices_are_the_drivers => return CudaView::all(devices, false),
            Ok(index) => places_of(devices, |device| {
                device.part_of.unwrap_or(device.index) == index
            }),
            Err(_) if entry.starts_with("GPU-") || entry.starts_with("MIG-") => {
                places_of(devices, |device| device.uuid.starts_with(entry))
            }
            Err(_) => Vec::new(),
        };
        if meant.is_empty() {
            // The older names of parts, and a whole GPU that is divided, are not in the driver's list.
            if is_divided && entry.contains("GPU-") {
                return CudaView::all(devices, false);
            }
            break;
        }
        places.extend(meant);
    }
    let mut seen = vec![false; devices.len()];
    places.retain(|place| !std::mem::replace(&mut seen[*place], true));
    CudaView {
        places,
        is_certain: true,
    }
}

fn places_of(devices: &[GpuDevice], is_meant: impl Fn(&GpuDevice) -> bool) -> Vec<usize> {
    let places = devices.iter().enumerate();
    let meant = places.filter(|(_, device)| is_meant(device));
    meant.map(|(place, _)| place).collect()
}

/// What a running process sees: of ourselves by our environment as it is, of others by the one they were started with.
/// Nothing while a process is still being started: then its environment is not there yet.
pub fn cuda_view_of(proc: &Path, pid: u32, devices: &[GpuDevice]) -> Option<CudaView> {
    if pid == std::process::id() {
        return Some(cuda_view(devices, |name| std::env::var(name).ok()));
    }
    let process = proc.join(pid.to_string());
    // Arguments and environment appear together; asked in this order, an empty environment behind arguments is one that is meant.
    let has_arguments =
        read_kernel_file(process.join("cmdline")).is_ok_and(|text| !text.is_empty());
    let Ok(environment) = read_kernel_file(process.join("environ")) else {
        return Some(CudaView::all(devices, false));
    };
    if environment.is_empty() && !has_arguments {
        let has_ended = std::fs::read_link(process.join("exe")).is_err();
        return has_ended.then(|| CudaView::all(devices, false));
    }
    Some(cuda_view(devices, |name| {
        let mut entries = environment.split(|byte| *byte == 0);
        let value = entries.find_map(|entry| {
            entry
                .strip_prefix(name.as_bytes())?
                .strip_prefix(b"=".as_slice())
        })?;
        Some(String::from_utf8_lossy(value).into_owned())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gpu(index: u32, name: &str, uuid: &str) -> GpuDevice {
        GpuDevice {
            index,
            name: name.to_owned(),
            uuid: uuid.to_owned(),
            ..GpuDevice::default()
        }
    }

    fn four() -> Vec<GpuDevice> {
        let uuids = ["GPU-aa01", "GPU-aa02", "GPU-bb03", "GPU-cc04"];
        let gpus = uuids.iter().enumerate();
        gpus.map(|(index, uuid)| gpu(index as u32, "H200", uuid))
            .collect()
    }

    fn seen(devices: &[GpuDevice], list: Option<&str>) -> Vec<usize> {
        cuda_view(devices, |name| {
            list.filter(|_| name == VISIBLE).map(str::to_owned)
        })
        .places
    }

    #[test]
    fn without_the_variable_every_gpu_is_seen() {
        assert_eq!(seen(&four(), None), [0, 1, 2, 3]);
    }

    #[test]
    fn the_order_of_the_variable_is_cudas() {
        assert_eq!(seen(&four(), Some("2, 0")), [2, 0]);
        assert_eq!(seen(&four(), Some("GPU-cc,GPU-aa02")), [3, 1]);
    }

    #[test]
    fn nothing_behind_a_wrong_entry_is_seen() {
        assert_eq!(seen(&four(), Some("")), [0usize; 0]);
        assert_eq!(seen(&four(), Some("-1")), [0usize; 0]);
        assert_eq!(seen(&four(), Some("NoDevFiles")), [0usize; 0]);
        assert_eq!(seen(&four(), Some("1,9,2")), [1]);
        assert_eq!(seen(&four(), Some("1,GPU-zz,2")), [1]);
    }

    #[test]
    fn an_index_among_gpus_of_several_kinds_is_uncertain_unless_the_order_is_the_drivers() {
        let devices = [gpu(0, "T400", "GPU-a"), gpu(1, "A100", "GPU-b")];
        let with = |order: Option<&'static str>, list: &'static str| {
            cuda_view(&devices, |name| {
                let value = if name == ORDER { order } else { Some(list) };
                value.map(str::to_owned)
            })
        };
        assert_eq!(with(None, "0"), CudaView::all(&devices, false));
        assert_eq!(with(Some("PCI_BUS_ID"), "1").places, [1]);
        assert_eq!(with(None, "GPU-b").places, [1]);
        assert!(with(None, "GPU-b").is_certain);
    }

    #[test]
    fn parts_of_a_divided_gpu_are_seen_by_name_or_with_the_whole() {
        let mut devices = vec![gpu(1, "A100", "GPU-b")];
        for (index, uuid) in [(2, "MIG-1"), (3, "MIG-2")] {
            let mut part = gpu(index, "A100", uuid);
            part.part_of = Some(0);
            devices.push(part);
        }
        assert_eq!(seen(&devices, Some("MIG-2")), [2]);
        assert_eq!(seen(&devices, Some("0")), [1, 2]);
        assert_eq!(seen(&devices, Some("MIG-GPU-x/1/0")), [0, 1, 2]);
    }

    #[test]
    fn a_process_that_cannot_be_read_sees_everything_for_all_we_know() {
        let folder = tempfile::tempdir().unwrap();
        let view = cuda_view_of(folder.path(), 7, &four());
        assert_eq!(view, Some(CudaView::all(&four(), false)));
        std::fs::create_dir(folder.path().join("7")).unwrap();
        let environment = b"PATH=/bin\0CUDA_VISIBLE_DEVICES=3\0CUDA_VISIBLE_DEVICES_=1\0";
        std::fs::write(folder.path().join("7/environ"), environment).unwrap();
        let view = cuda_view_of(folder.path(), 7, &four()).unwrap();
        assert_eq!(view.places, [3]);
    }

    #[test]
    fn a_process_that_is_being_started_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let process = folder.path().join("7");
        std::fs::create_dir(&process).unwrap();
        std::fs::write(process.join("environ"), b"").unwrap();
        std::fs::write(process.join("cmdline"), b"").unwrap();
        let view = || cuda_view_of(folder.path(), 7, &four());
        assert_eq!(view(), Some(CudaView::all(&four(), false)), "it has ended");
        std::os::unix::fs::symlink("/bin/true", process.join("exe")).unwrap();
        assert_eq!(view(), None);
        std::fs::write(process.join("cmdline"), b"true\0").unwrap();
        assert_eq!(view(), Some(CudaView::all(&four(), true)), "env -i");
    }

    proptest! {
        #[test]
        fn any_text_gives_places_that_exist_and_none_twice(list: String) {
            let mut places = seen(&four(), Some(&list));
            let count = places.len();
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!(places.len(), count);
            prop_assert!(places.iter().all(|place| *place < 4));
        }
    }
}
