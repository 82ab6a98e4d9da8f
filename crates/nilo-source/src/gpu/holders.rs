//! Which processes hold memory on which GPU at one moment, as `nilo ps --gpu` lists them.
//!
//! Outside of containers the driver's PIDs are ours. Inside one, a PID is believed to be that of a process in sight only where that process holds a GPU open:
//! a single look has none of the evidence that `owners.rs` collects over time, so nothing is matched by counting.

use crate::gpu::{GpuDevice, GpuOwners, GpuReading, GpuShare};
use crate::roots::Roots;

/// What one process holds on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuMemoryHolder {
    /// The driver's index of the GPU.
    pub gpu: u32,
    /// The process by our number; `None` where the driver's number does not tell which process it is.
    pub pid: Option<u32>,
    /// What it holds, where the driver tells.
    pub bytes: Option<u64>,
}

/// Who holds what, and what cannot be known of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuMemoryHolders {
    /// Everything that the driver names.
    pub holders: Vec<GpuMemoryHolder>,
    /// Processes that have CUDA or ROCm open while the driver does not tell who is on its GPUs: they may hold memory on any of them.
    pub unlisted: Vec<u32>,
    /// Why something is missing: [`GpuShare::Untold`] or [`GpuShare::Unplaced`].
    pub unknown: Option<GpuShare>,
}

impl GpuMemoryHolders {
    /// Sorts out a reading of all GPUs. `pids` are the processes in sight, in ascending order.
    pub fn find(
        roots: &Roots,
        devices: &[GpuDevice],
        readings: &[Result<GpuReading, String>],
        pids: &[u32],
    ) -> GpuMemoryHolders {
        let owners = GpuOwners::new(roots);
        let mut found = GpuMemoryHolders::default();
        let mut is_untold = false;
        let mut is_unplaced = false;
        for (device, reading) in devices.iter().zip(readings) {
            let Ok(reading) = reading else { continue };
            let Some(processes) = &reading.processes else {
                is_untold = true;
                continue;
            };
            for process in processes {
                let pid = owners.process_of(process.pid, pids);
                is_unplaced |= pid.is_none();
                is_untold |= process.bytes.is_none();
                found.holders.push(GpuMemoryHolder {
                    gpu: device.index,
                    pid,
                    bytes: process.bytes,
                });
            }
        }
        let has_silent_gpu = readings
            .iter()
            .any(|reading| matches!(reading, Ok(reading) if reading.processes.is_none()));
        let is_withheld = !owners.in_first_namespace() && found.holders.is_empty();
        if has_silent_gpu || is_withheld || is_unplaced {
            let named = found.holders.iter().filter_map(|holder| holder.pid);
            found.unlisted = owners.unlisted(pids, named.collect());
            is_untold |= is_withheld && !found.unlisted.is_empty();
        }
        found.unknown = match (is_unplaced, is_untold) {
            (true, _) => Some(GpuShare::Unplaced),
            (false, true) => Some(GpuShare::Untold),
            (false, false) => None,
        };
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::GpuProcess;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const CUDA: &[&str] = &["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm"];

    fn machine(namespace: &str) -> (TempDir, Roots) {
        let folder = tempfile::tempdir().unwrap();
        let namespaces = folder.path().join("self/ns");
        std::fs::create_dir_all(&namespaces).unwrap();
        symlink(namespace, namespaces.join("pid")).unwrap();
        let roots = Roots {
            proc: folder.path().to_owned(),
            ..Roots::default()
        };
        (folder, roots)
    }

    fn process(proc: &TempDir, pid: u32, parent: u32, files: &[&str]) {
        let folder = proc.path().join(pid.to_string());
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        for (number, file) in files.iter().enumerate() {
            symlink(file, folder.join("fd").join(number.to_string())).unwrap();
        }
        let zeros = "0 ".repeat(48);
        let stat = format!("{pid} (python) S {parent} {zeros}");
        std::fs::write(folder.join("stat"), stat).unwrap();
        std::fs::write(folder.join("cmdline"), "python\0train.py\0").unwrap();
    }

    fn gpus(count: u32) -> Vec<GpuDevice> {
        let device = |index| GpuDevice {
            index,
            ..GpuDevice::default()
        };
        (0..count).map(device).collect()
    }

    fn naming(processes: &[(u32, Option<u64>)]) -> Result<GpuReading, String> {
        let processes = processes.iter().map(|(pid, bytes)| GpuProcess {
            pid: *pid,
            bytes: *bytes,
        });
        Ok(GpuReading {
            processes: Some(processes.collect()),
            ..GpuReading::default()
        })
    }

    fn holder(gpu: u32, pid: Option<u32>, bytes: Option<u64>) -> GpuMemoryHolder {
        GpuMemoryHolder { gpu, pid, bytes }
    }

    #[test]
    fn outside_of_containers_every_process_is_who_the_driver_says() {
        let (_folder, roots) = machine(crate::pid_namespace::FIRST_NAMESPACE);
        let readings = [
            naming(&[(10, Some(5)), (99, Some(7))]),
            naming(&[(10, None)]),
            Err("lost".to_owned()),
        ];
        let found = GpuMemoryHolders::find(&roots, &gpus(3), &readings, &[10, 11]);
        assert_eq!(
            found.holders,
            [
                holder(0, Some(10), Some(5)),
                // Out of our sight, but its number is good.
                holder(0, Some(99), Some(7)),
                holder(1, Some(10), None),
            ]
        );
        assert_eq!(found.unknown, Some(GpuShare::Untold));
        assert!(found.unlisted.is_empty());
    }

    #[test]
    fn in_a_container_a_number_without_an_open_gpu_proves_nothing() {
        let (folder, roots) = machine("pid:[4026532180]");
        process(&folder, 10, 1, CUDA);
        process(&folder, 11, 1, &["/dev/null"]);
        process(&folder, 12, 1, CUDA);
        // A loader's worker has its parent's files.
        process(&folder, 13, 12, CUDA);
        let readings = [naming(&[(10, Some(5)), (11, Some(7)), (0, Some(9))])];
        let found = GpuMemoryHolders::find(&roots, &gpus(1), &readings, &[10, 11, 12, 13]);
        assert_eq!(
            found.holders,
            [
                holder(0, Some(10), Some(5)),
                holder(0, None, Some(7)),
                holder(0, None, Some(9)),
            ]
        );
        assert_eq!(found.unlisted, [12]);
        assert_eq!(found.unknown, Some(GpuShare::Unplaced));
    }

    #[test]
    fn in_a_container_whose_driver_names_nobody_programs_with_cuda_open_are_listed() {
        let (folder, roots) = machine("pid:[4026532180]");
        process(&folder, 10, 1, CUDA);
        process(&folder, 11, 1, &["/dev/nvidiactl"]);
        let found = GpuMemoryHolders::find(&roots, &gpus(1), &[naming(&[])], &[10, 11]);
        assert_eq!((found.holders.len(), found.unlisted), (0, vec![10]));
        assert_eq!(found.unknown, Some(GpuShare::Untold));
        let found = GpuMemoryHolders::find(&roots, &gpus(1), &[naming(&[])], &[11]);
        assert_eq!(found, GpuMemoryHolders::default());
    }
}
