//! Devices as Python programs know them: `host`, and GPUs by CUDA's index. Several resources may be one device.

use std::convert::Infallible;

use nilo_analysis::assessment::{Assessment, Thresholds, assess_verdict};
use nilo_analysis::tracking::{ProgramGpu, Resource, ResourceVerdict};
use pyo3::prelude::*;

/// What somebody asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Device {
    /// The process tree, against its own limit and the machine's memory.
    Host,
    /// A GPU, by CUDA's index.
    Gpu(u32),
}

impl Device {
    /// The device that a resource is part of.
    pub(crate) fn of(resource: &Resource) -> Option<Device> {
        match resource {
            Resource::Job | Resource::Host | Resource::AddressSpace | Resource::DataSize => {
                Some(Device::Host)
            }
            Resource::Gpu { index } => Some(Device::Gpu(*index)),
            Resource::Torch { device, .. } => Some(Device::Gpu(*device)),
            Resource::Cgroup { .. }
            | Resource::Process { .. }
            | Resource::SharedMemory
            | Resource::UnnamedGpu
            | Resource::Track { .. } => None,
        }
    }

    /// The device with a resource of this name.
    pub(crate) fn of_named(resource: &str, verdicts: &[ResourceVerdict]) -> Option<Device> {
        let mut verdicts = verdicts.iter();
        let named = verdicts.find(|verdict| verdict.resource.to_string() == resource)?;
        Device::of(&named.resource)
    }

    pub(crate) fn name(self) -> String {
        match self {
            Device::Host => "host".to_owned(),
            Device::Gpu(index) => index.to_string(),
        }
    }
}

impl<'py> IntoPyObject<'py> for Device {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(match self {
            Device::Host => "host".into_pyobject(py)?.into_any(),
            Device::Gpu(index) => index.into_pyobject(py)?.into_any(),
        })
    }
}

/// A `nilometer.memory.DeviceReading`.
#[derive(Debug, FromPyObject)]
pub(crate) struct DeviceReading {
    device: String,
    allocated: u64,
    free: u64,
    total: u64,
    pub(crate) source: String,
    own: Option<u64>,
    torch_allocated: Option<u64>,
    torch_reserved: Option<u64>,
}

impl DeviceReading {
    fn gpu(&self) -> Option<u32> {
        self.device.parse().ok()
    }

    pub(crate) fn device(&self) -> Device {
        self.gpu().map_or(Device::Host, Device::Gpu)
    }

    /// The GPU that it is of; the host is read elsewhere.
    pub(crate) fn program_gpu(&self) -> Option<ProgramGpu> {
        Some(ProgramGpu {
            index: self.gpu()?,
            used_bytes: self.allocated,
            free_bytes: self.free,
            total_bytes: self.total,
            own_bytes: self.own,
            torch_bytes: self.torch_allocated.zip(self.torch_reserved),
        })
    }
}

/// Of each device what is worst, in the order of devices. Where nothing is worse, the process tree's own limit comes before the machine's, and a GPU before PyTorch's part of it.
pub(crate) fn worst_of_each(
    verdicts: Vec<ResourceVerdict>,
    thresholds: &Thresholds,
) -> Vec<(Device, ResourceVerdict, Assessment)> {
    let assessed = verdicts.into_iter().filter_map(|verdict| {
        let device = Device::of(&verdict.resource)?;
        let assessment = assess_verdict(&verdict, thresholds, None);
        Some((device, verdict, assessment))
    });
    let mut found: Vec<_> = assessed.collect();
    found.sort_by_key(|(device, verdict, assessment)| {
        let is_second = match verdict.resource {
            Resource::Job => 2 * u8::from(verdict.reading.limit().is_none()),
            Resource::Host | Resource::Torch { .. } => 1,
            _ => 0,
        };
        (*device, std::cmp::Reverse(assessment.level), is_second)
    });
    found.dedup_by_key(|(device, ..)| *device);
    found
}
