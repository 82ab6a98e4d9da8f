//! GPUs by their driver's account, for a program that watches itself.

use std::sync::Mutex;
use std::time::Duration;

use nilo_runfile::monotonic_nanos;
use nilo_source::Roots;
use nilo_source::gpu::{
    CudaView, GpuOwners, GpuReader, GpuReading, GpuSensors, GpuShare, GpuStage, GpuView,
    ProcessSubtree, VISIBILITY_VARIABLES, cuda_view,
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
    next_search_nanos: u64,
    /// Whether this program was seen to compute on a GPU whose shares are not known.
    computes: bool,
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
            next_search_nanos: 0,
            computes: false,
        }
    }

    /// Asks and waits for the answer; without one there is nothing to see. Gives the share of each GPU that this program holds.
    fn look(&mut self) -> Vec<GpuShare> {
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
        let share = |reading: &Result<GpuReading, String>| match reading {
            Ok(reading) => self.owners.share(reading, &self.members),
            Err(_) => GpuShare::Untold,
        };
        let shares: Vec<GpuShare> = self.view.readings.iter().map(share).collect();
        let is_unknown = |share: &GpuShare| share.unknown_because().is_some();
        // Open files are searched seldom, and only to tell a program that computes from one beside others that do.
        if shares.iter().any(is_unknown) && now_nanos >= self.next_search_nanos {
            self.next_search_nanos = now_nanos + FAMILY_NANOS;
            self.computes = self.owners.computes(&self.members);
        }
        shares
    }
}

/// The GPUs that this program can see, in CUDA's order (AMD's in HIP's, after them), as their driver counts; an empty list without a driver, or when it does not answer.
///
/// Each is a dictionary of `index` (CUDA's), `driver_index`, `name`, `uuid`, `used_bytes`, `free_bytes`, `total_bytes`, `utilization` (0 to 1)
/// `own_bytes` (held by this process and its descendants), `own_unknown` (why that is not known although the program computes on a GPU), and of its sensors `power_watts`, `power_limit_watts`, `temperature_celsius`,
/// `sm_clock_mhz`, `memory_clock_mhz`, `throttled_by` (a list of "power", "heat", "hardware"), `uncorrected_ecc_errors`, `nvlink_sent_bytes` and `nvlink_received_bytes` (counted since the driver was loaded); None where the driver does not tell.
#[pyfunction]
pub(crate) fn gpu_readings(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    let Some(reader) = GpuReader::of_this_process() else {
        return Ok(list);
    };
    // Read here: Python may set it, and does so under its lock.
    let variable = |name: &'static str| std::env::var(name).ok();
    let environment = VISIBILITY_VARIABLES.map(|name| (name, variable(name)));
    let (looker, shares) = py.detach(|| {
        let kept = LOOKER.try_lock().ok().and_then(|mut kept| kept.take());
        let kept = kept.filter(|looker| looker.pid == std::process::id());
        let mut looker = kept.unwrap_or_else(|| GpuSampler::new(reader));
        let shares = looker.look();
        (looker, shares)
    });
    let view = cuda_view(&looker.view.devices, |name| {
        let known = environment.iter().find(|(known, _)| *known == name);
        known.and_then(|(_, value)| value.clone())
    });
    fill(py, &list, &looker, &view, &shares)?;
    if let Ok(mut kept) = LOOKER.try_lock() {
        *kept = Some(looker);
    }
    Ok(list)
}

fn fill(
    py: Python<'_>,
    list: &Bound<'_, PyList>,
    looker: &GpuSampler,
    visible: &CudaView,
    shares: &[GpuShare],
) -> PyResult<()> {
    let newest = &looker.view;
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
        let share = shares.get(place).copied().unwrap_or(GpuShare::Untold);
        let own_bytes = match share {
            GpuShare::Bytes(bytes) => Some(bytes),
            GpuShare::Untold | GpuShare::Unplaced => None,
        };
        let own_unknown = share.unknown_because().filter(|_| looker.computes);
        gpu.set_item("own_bytes", own_bytes)?;
        gpu.set_item("own_unknown", own_unknown)?;
        fill_sensors(&gpu, &reading.sensors)?;
        list.append(gpu)?;
    }
    Ok(())
}

fn fill_sensors(gpu: &Bound<'_, PyDict>, sensors: &GpuSensors) -> PyResult<()> {
    let watts = |milliwatts: Option<u64>| milliwatts.map(|milliwatts| milliwatts as f64 / 1e3);
    gpu.set_item("power_watts", watts(sensors.power_milliwatts))?;
    gpu.set_item("power_limit_watts", watts(sensors.power_limit_milliwatts))?;
    gpu.set_item("temperature_celsius", sensors.temperature_celsius)?;
    gpu.set_item("sm_clock_mhz", sensors.sm_clock_mhz)?;
    gpu.set_item("memory_clock_mhz", sensors.memory_clock_mhz)?;
    let reasons = sensors
        .throttling
        .map(|why| why.reasons().collect::<Vec<_>>());
    gpu.set_item("throttled_by", reasons)?;
    gpu.set_item("uncorrected_ecc_errors", sensors.uncorrected_ecc_errors)?;
    let traffic = sensors.nvlink;
    gpu.set_item("nvlink_sent_bytes", traffic.map(|both| both.sent_bytes))?;
    let received = traffic.map(|both| both.received_bytes);
    gpu.set_item("nvlink_received_bytes", received)
}
