//! Which processes compute on an AMD GPU and what they hold of its memory, as the kernel's compute driver (KFD) tells.
//!
//! The alternative, `fdinfo` of every open file of every process, needs their owner's rights and a look at thousands of files.
//!
//! KFD numbers GPUs by an id of its own: a node of its topology has it beside the place on the bus.

use std::path::{Path, PathBuf};

use crate::descriptors::read_kernel_file;
use crate::gpu::{GpuProcess, GpuReading};
use crate::kernel_text::{labelled, number};

const KFD: &str = "class/kfd/kfd";

/// Where the processes of one GPU are listed.
pub(super) struct ComputeProcesses {
    folder: PathBuf,
    /// `vram_ID` of this GPU; `None` where the compute driver does not know it.
    file: Option<String>,
}

impl ComputeProcesses {
    /// Of the GPU at this place of the bus, such as `0000:c1:00.0`.
    pub(super) fn of_gpu(sysfs: &Path, address: &str) -> ComputeProcesses {
        let kfd = sysfs.join(KFD);
        let nodes = std::fs::read_dir(kfd.join("topology/nodes"));
        let mut nodes = nodes.into_iter().flatten().flatten();
        let id = nodes.find_map(|node| {
            let properties = read_kernel_file(node.path().join("properties")).ok()?;
            let place = bus_place(address)?;
            let is_it = labelled(&properties, b"location_id ")? == place.location
                && labelled(&properties, b"domain ").unwrap_or(0) == place.domain;
            let id = is_it.then(|| read_kernel_file(node.path().join("gpu_id")).ok())??;
            number(&id).filter(|id| *id > 0)
        });
        ComputeProcesses {
            folder: kfd.join("proc"),
            file: id.map(|id| format!("vram_{id}")),
        }
    }

    /// Puts the list into a reading.
    pub(super) fn list(&self, reading: &mut GpuReading) {
        let folders = self
            .file
            .as_ref()
            .and_then(|_| std::fs::read_dir(&self.folder).ok());
        let (Some(file), Some(folders)) = (&self.file, folders) else {
            reading.processes = None;
            return;
        };
        let processes = reading.processes.get_or_insert_default();
        processes.clear();
        processes.extend(folders.flatten().filter_map(|folder| {
            let pid = folder.file_name().to_str()?.parse().ok()?;
            let bytes = read_kernel_file(folder.path().join(file)).ok();
            let bytes = bytes.and_then(|text| number(&text));
            // A process on another GPU has a file here too, with nothing in it.
            (bytes != Some(0)).then_some(GpuProcess { pid, bytes })
        }));
    }
}

struct BusPlace {
    domain: u64,
    /// Bus and device as KFD writes them: eight bits of bus, five of device, three of function.
    location: u64,
}

fn bus_place(address: &str) -> Option<BusPlace> {
    let mut parts = address.split([':', '.']);
    let mut next = || u64::from_str_radix(parts.next()?, 16).ok();
    let (domain, bus, device, function) = (next()?, next()?, next()?, next()?);
    Some(BusPlace {
        domain,
        location: bus << 8 | device << 3 | function,
    })
}
