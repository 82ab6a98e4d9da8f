//! The GPUs of this machine, the one that is meant, and the memory in use on it.

use std::cmp::Reverse;

use nilo_answer::gpu::devices::{GpuMemoryNow, GpuMemoryUser, ListedGpu};
use nilo_source::gpu::{
    CudaView, GpuDevice, GpuMemoryHolders, GpuReading, GpuView, VISIBILITY_VARIABLES, cuda_view,
};
use nilo_source::{Roots, list_processes};

use crate::failure::Failure;
use crate::live::read_gpus;

/// The GPUs, and which of them is meant.
pub(super) struct MachineLook {
    view: GpuView,
    place: usize,
    visible: CudaView,
}

impl MachineLook {
    /// Asks the drivers; a sentence where there is no GPU and none was asked for by its index.
    pub(super) fn open(asked: Option<u32>) -> Result<Result<MachineLook, String>, Failure> {
        let view = match (read_gpus(), asked) {
            (Ok(view), _) => view,
            (Err(reason), None) => return Ok(Err(reason)),
            (Err(reason), Some(_)) => {
                return Err(Failure::new(reason).hint(
                    "leave out --device, or name a GPU that is not in this machine with --gpu",
                ));
            }
        };
        let visible = cuda_view(&view.devices, |name| std::env::var(name).ok());
        let first = visible.places.first().copied().unwrap_or(0);
        let place = match asked {
            None => first,
            Some(index) => match view.devices.iter().position(|gpu| gpu.index == index) {
                Some(place) => place,
                None => return Err(no_such_device(index, &view.devices)),
            },
        };
        Ok(Ok(MachineLook {
            view,
            place,
            visible,
        }))
    }

    /// The GPU that is meant.
    pub(super) fn device(&self) -> &GpuDevice {
        &self.view.devices[self.place]
    }

    /// Its number among the GPUs of its maker.
    pub(super) fn place_of_maker(&self) -> usize {
        let maker = self.device().maker;
        let before = self.view.devices[..self.place].iter();
        before.filter(|gpu| gpu.maker == maker).count()
    }

    /// A sentence where the environment hides the GPU from programs: in a shared machine it is somebody else's.
    pub(super) fn hidden(&self) -> Option<String> {
        let is_hidden = self.visible.is_certain && !self.visible.places.contains(&self.place);
        let is_set = |name: &&&str| std::env::var_os(name).is_some();
        let variable = VISIBILITY_VARIABLES.iter().find(is_set);
        let index = self.device().index;
        variable
            .filter(|_| is_hidden)
            .map(|variable| format!("{variable} hides GPU {index} from programs"))
    }

    pub(super) fn listed(&self) -> Vec<ListedGpu> {
        self.view.devices.iter().map(listed).collect()
    }

    pub(super) fn listed_device(&self) -> ListedGpu {
        listed(self.device())
    }

    /// Memory in use on the GPU that is meant, and what is not known of it.
    pub(super) fn memory(&self) -> (Result<GpuMemoryNow, String>, Vec<String>) {
        let reading = match self.view.readings.get(self.place) {
            Some(Ok(reading)) => reading,
            Some(Err(reason)) => return (Err(reason.clone()), Vec::new()),
            None => return (Err("the driver has not answered".to_owned()), Vec::new()),
        };
        let (processes, notes) = self.processes(reading);
        let now = GpuMemoryNow {
            total_bytes: reading.total_bytes,
            used_bytes: reading.used_bytes,
            free_bytes: reading.free_bytes,
            utilization_percent: reading.utilization_percent,
            processes,
        };
        (Ok(now), notes)
    }

    fn processes(&self, reading: &GpuReading) -> (Option<Vec<GpuMemoryUser>>, Vec<String>) {
        if reading.processes.is_none() {
            return (None, Vec::new());
        }
        let roots = Roots::default();
        let listing = list_processes(&roots);
        let mut pids: Vec<u32> = listing.iter().map(|process| process.id.pid).collect();
        pids.sort_unstable();
        let (devices, readings) = (&self.view.devices, &self.view.readings);
        let found = GpuMemoryHolders::find(&roots, devices, readings, &pids);
        let index = self.device().index;
        let command = |pid: u32| {
            let process = listing.iter().find(|process| process.id.pid == pid)?;
            Some(process.info.command.clone())
        };
        let of_device = found.holders.iter().filter(|holder| holder.gpu == index);
        let mut users: Vec<GpuMemoryUser> = of_device
            .map(|holder| GpuMemoryUser {
                pid: holder.pid,
                command: holder.pid.and_then(command),
                used_bytes: holder.bytes,
            })
            .collect();
        users.sort_by_key(|user| Reverse(user.used_bytes));
        let why = found.unknown.and_then(|share| share.unknown_because());
        let note = why.map(|why| format!("GPU memory of some processes is unknown: {why}"));
        (Some(users), note.into_iter().collect())
    }
}

fn no_such_device(index: u32, devices: &[GpuDevice]) -> Failure {
    let names: Vec<String> = devices
        .iter()
        .map(|gpu| format!("{} ({})", gpu.index, gpu.name))
        .collect();
    Failure::new(format!("there is no GPU {index}"))
        .hint(format!("--device takes {}", names.join(", ")))
}

fn listed(device: &GpuDevice) -> ListedGpu {
    let capability = device.compute_capability;
    ListedGpu {
        index: device.index,
        name: device.name.clone(),
        uuid: device.uuid.clone(),
        total_bytes: device.total_bytes,
        reserved_bytes: device.reserved_bytes,
        compute_capability: capability.map(|(major, minor)| format!("{major}.{minor}")),
        driver_version: device.driver_version.clone(),
    }
}
