//! GPUs by their driver's account, for a program that watches itself.

use std::sync::Mutex;
use std::time::Duration;

use nilo_runfile::monotonic_nanos;
use nilo_source::Roots;
use nilo_source::gpu::{
    CudaView, GpuOwners, GpuReader, GpuReading, GpuShare, GpuStage, GpuView, ProcessSubtree,
    cuda_view,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Opening the driver may have to wake its GPUs.
const LONGEST_OPENING: Duration = Duration::from_secs(10);
/// The driver answers in microseconds, or not for a long time.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Who belongs to this program is looked up this often where it takes a look at every process.
const FAMILY_NANOS: u64 = 1_000_000_000;

/// What is kept between two looks.
struct GpuSampler {
    pid: u32,
    reader: GpuReader,
    view: GpuView,
    owners: GpuOwners,
    family: ProcessSubtree,
    members: Vec<u32>,
    next_members_nanos: u64,
}

/// A forked child finds the parent's, or finds it locked for good: either way it makes its own.
static LOOKER: Mutex<Option<GpuSampler>> = Mutex::new(None);

impl GpuSampler {
    fn new(reader: GpuReader) -> GpuSampler {
        let pid = std::process::id();
        GpuSampler {
            pid,
            reader,
            view: GpuView::default(),
            owners: GpuOwners::new(&Roots::default()),
            family: ProcessSubtree::of(&Roots::default(), pid),
            members: Vec::new(),
            next_members_nanos: 0,
        }
    }

    /// Asks and waits for the answer; without one there is nothing to see. Gives the share of each GPU that this program holds.
    fn look(&mut self) -> Vec<Option<u64>> {
        self.reader.look(&mut self.view);
        if self.view.stage == GpuStage::Opening {
            self.reader.wait(LONGEST_OPENING);
        }
        self.reader.request();
        self.reader.wait(LONGEST_WAIT);
        if !self.reader.look(&mut self.view) {
            // What the driver said before is no reading of now.
            self.view.readings.clear();
        }
        let now_nanos = monotonic_nanos();
        let readings = self.view.readings.iter().flatten();
        if self.owners.in_first_namespace() {
            let processes = readings.clone().flat_map(|reading| &reading.processes);
            let named = processes.flatten().map(|process| process.pid);
            self.members = self.family.members_among(named);
        } else if now_nanos >= self.next_members_nanos {
            self.next_members_nanos = now_nanos + FAMILY_NANOS;
            self.members = self.family.members();
        }
        self.owners.update(readings, &self.members, now_nanos);
        let share = |reading: &Result<GpuReading, String>| {
            let share = self.owners.share(reading.as_ref().ok()?, &self.members);
            match share {
                GpuShare::Bytes(bytes) => Some(bytes),
                GpuShare::Untold | GpuShare::Unplaced => None,
            }
        };
        self.view.readings.iter().map(share).collect()
    }
}

/// The GPUs that this program can see, in CUDA's order, as NVIDIA's driver counts; an empty list without a driver, or when it does not answer.
///
/// Each is a dictionary of `index` (CUDA's), `driver_index`, `name`, `uuid`, `used_bytes`, `free_bytes`, `total_bytes`, `utilization` (0 to 1)
/// and `own_bytes` (held by this process and its descendants); None where the driver does not tell.
#[pyfunction]
pub(crate) fn gpu_readings(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    let Some(reader) = GpuReader::of_this_process() else {
        return Ok(list);
    };
    // Read here: Python may set it, and does so under its lock.
    let variable = |name: &'static str| std::env::var(name).ok();
    let environment = ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"].map(|n| (n, variable(n)));
    let (looker, own_bytes) = py.detach(|| {
        let kept = LOOKER.try_lock().ok().and_then(|mut kept| kept.take());
        let kept = kept.filter(|looker| looker.pid == std::process::id());
        let mut looker = kept.unwrap_or_else(|| GpuSampler::new(reader));
        let own_bytes = looker.look();
        (looker, own_bytes)
    });
    let view = cuda_view(&looker.view.devices, |name| {
        let known = environment.iter().find(|(known, _)| *known == name);
        known.and_then(|(_, value)| value.clone())
    });
    fill(py, &list, &looker.view, &view, &own_bytes)?;
    if let Ok(mut kept) = LOOKER.try_lock() {
        *kept = Some(looker);
    }
    Ok(list)
}

fn fill(
    py: Python<'_>,
    list: &Bound<'_, PyList>,
    newest: &GpuView,
    visible: &CudaView,
    own_bytes: &[Option<u64>],
) -> PyResult<()> {
    for (index, &place) in visible.places.iter().enumerate() {
        let (Some(device), Some(Ok(reading))) =
            (newest.devices.get(place), newest.readings.get(place))
        else {
            continue;
        };
        let utilization = reading
            .utilization_percent
            .map(|percent| f64::from(percent) / 100.0);
        let gpu = PyDict::new(py);
        gpu.set_item("index", index)?;
        gpu.set_item("driver_index", device.index)?;
        gpu.set_item("name", &device.name)?;
        gpu.set_item("uuid", &device.uuid)?;
        gpu.set_item("used_bytes", reading.used_bytes)?;
        gpu.set_item("free_bytes", reading.free_bytes)?;
        gpu.set_item("total_bytes", reading.total_bytes)?;
        gpu.set_item("utilization", utilization)?;
        gpu.set_item("own_bytes", own_bytes.get(place).copied().flatten())?;
        list.append(gpu)?;
    }
    Ok(())
}
