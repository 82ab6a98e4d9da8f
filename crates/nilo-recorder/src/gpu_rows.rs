//! The tables of the GPUs: what each holds, how much of it is the job's, how busy it is, and what its sensors say.
//!
//! Recorded are the GPUs that the job's processes hold memory on, from the first time on.
//! Until they do, it is all that the job can see: those of `CUDA_VISIBLE_DEVICES`, or every one when the variable is not set or its meaning is not clear.
//! Where the user names GPUs, it is those.
//! A row is written when something changed, or after ten seconds without a change; one without values says that a GPU fell silent, or that it is not one of the job's after all.
//!
//! Nothing here waits for the driver: a tick takes the reading that the one before asked for.

use std::time::Duration;

use nilo_runfile::{RowSink, TableId};
use nilo_sample::rows::GpuRow;
use nilo_sample::table::or_absent;
use nilo_sample::{ABSENT, Event, TableSpec, TypedRow};
use nilo_source::gpu::{
    GpuDevice, GpuOwners, GpuReader, GpuReading, GpuShare, GpuStage, GpuThrottling, GpuView,
    NoGpus, cuda_view_of,
};
use nilo_source::{Roots, TrackedProcess};

/// Readings are asked for at most this often: memory of a GPU moves in steps of training, and each call takes the driver 8 µs.
const READ_NANOS: u64 = 200_000_000;
/// A tick that comes this much of the time too early counts as in time.
const EARLY_SHARE: u64 = 4;
/// How long the end of a recording waits for a reading that is under way.
const LAST_WAIT: Duration = Duration::from_millis(100);
/// How long a look at GPUs alone waits for its first reading and for its last: it has nothing else to tell.
const LOOK_WAIT: Duration = Duration::from_secs(2);
/// A share that stays unknown for this long is said to be so; a context takes a moment to be listed.
const UNKNOWN_NANOS: u64 = 5_000_000_000;

/// A level that stands still is written again after this long: a forecast has to see that it does.
const SILENCE_NANOS: u64 = 10_000_000_000;

struct DeviceRows {
    table: Option<TableId>,
    last_row: GpuRow,
    written_nanos: u64,
    visible: bool,
    held_by_job: bool,
    failure_said: bool,
    sensor_failure_said: bool,
    share: GpuShare,
    /// How many were recorded.
    readings: u64,
}

/// The GPUs of the machine, as far as they concern the job.
pub(crate) struct GpuRows {
    reader: Option<GpuReader>,
    roots: Roots,
    first_pid: u32,
    /// The reader may have been at work before us, for others.
    started_nanos: u64,
    view: GpuView,
    owners: GpuOwners,
    rows: Vec<DeviceRows>,
    /// The job's processes when the last reading was asked for and those of this tick, ascending.
    job: Vec<u32>,
    before: Vec<u32>,
    next_read_nanos: u64,
    silence_said: bool,
    unknown_since_nanos: Option<u64>,
    unknown_said: bool,
    /// The indices that the user named.
    chosen: Option<Vec<u32>>,
    /// There is no job whose share could be told.
    of_machine: bool,
    read_nanos: u64,
}

impl GpuRows {
    /// Begins to open the driver, if there is one; `first_pid` is whose environment says what the job can see.
    pub(crate) fn new(roots: &Roots, now_nanos: u64, first_pid: u32) -> GpuRows {
        let mut rows = GpuRows::none(roots, now_nanos, first_pid);
        rows.reader = GpuReader::of_this_process();
        rows
    }

    /// Reads none.
    pub(crate) fn none(roots: &Roots, now_nanos: u64, first_pid: u32) -> GpuRows {
        GpuRows {
            reader: None,
            roots: roots.clone(),
            first_pid,
            started_nanos: now_nanos,
            view: GpuView::default(),
            owners: GpuOwners::new(roots),
            rows: Vec::new(),
            job: Vec::new(),
            before: Vec::new(),
            next_read_nanos: 0,
            silence_said: false,
            unknown_since_nanos: None,
            unknown_said: false,
            chosen: None,
            of_machine: false,
            read_nanos: READ_NANOS,
        }
    }

    pub(crate) fn choose(&mut self, indices: Option<Vec<u32>>) {
        self.chosen = indices;
    }

    /// Asks for a reading this often.
    pub(crate) fn read_every(&mut self, nanos: u64) {
        self.read_nanos = nanos;
    }

    /// Waits for the first reading where GPUs are all that is looked at, so that the time which was asked for counts from there.
    pub(crate) fn watch_host_only(&mut self) {
        self.of_machine = true;
        if let Some(reader) = self.reader.as_ref().filter(|_| self.chosen.is_some()) {
            reader.request();
            reader.wait(LOOK_WAIT);
        }
    }

    /// How many readings of each GPU were taken, by its index.
    pub(crate) fn readings(&self) -> impl Iterator<Item = (u32, u64)> {
        let places = self.view.devices.iter().zip(&self.rows);
        places.map(|(device, rows)| (device.index, rows.readings))
    }

    /// CPU time that reading has taken, on its own thread.
    pub(crate) fn cpu_nanos(&self) -> u64 {
        self.view.cpu_nanos
    }

    /// Takes the newest reading and asks for the next.
    pub(crate) fn tick(
        &mut self,
        writer: &mut dyn RowSink,
        now_nanos: u64,
        processes: &[TrackedProcess],
        last: bool,
    ) {
        let Some(reader) = self.reader.clone() else {
            return;
        };
        if last {
            if !processes.is_empty() || self.of_machine {
                reader.request();
            }
            reader.wait(if self.of_machine {
                LOOK_WAIT
            } else {
                LAST_WAIT
            });
        }
        let is_new = reader.look(&mut self.view);
        if is_new && self.view.read_at_nanos >= self.started_nanos {
            // A process that ended since the reading was asked for is in it all the same.
            self.job.clear();
            self.job.extend_from_slice(&self.before);
            self.job
                .extend(processes.iter().map(|process| process.id.pid));
            self.job.sort_unstable();
            self.job.dedup();
            self.take(writer, now_nanos);
        } else if self.view.is_overdue(now_nanos) {
            self.fall_silent(writer, now_nanos);
        }
        if let GpuStage::Absent(reason) = &self.view.stage {
            if let NoGpus::Broken { .. } = reason {
                let text = format!("GPU memory: {reason}");
                writer.event(now_nanos, &Event::Blind { text });
            }
            self.reader = None;
        } else if now_nanos >= self.next_read_nanos && !last {
            self.next_read_nanos = now_nanos + self.read_nanos - self.read_nanos / EARLY_SHARE;
            self.before.clear();
            self.before
                .extend(processes.iter().map(|process| process.id.pid));
            reader.request();
        }
    }

    fn take(&mut self, writer: &mut dyn RowSink, now_nanos: u64) {
        if self.rows.is_empty() && !self.meet() {
            return;
        }
        let readings = self.view.readings.iter().flatten();
        self.owners.update(readings, &self.job, now_nanos);
        for (rows, reading) in self.rows.iter_mut().zip(&self.view.readings) {
            if self.of_machine {
                rows.share = GpuShare::Untold;
            } else if let Ok(reading) = reading {
                rows.share = self.owners.share(reading, &self.job);
                rows.held_by_job |= matches!(rows.share, GpuShare::Bytes(bytes) if bytes > 0);
            }
        }
        let is_settled = self.rows.iter().any(|rows| rows.held_by_job);
        let at_nanos = self.view.read_at_nanos;
        let mut unknown = None;
        let places = self.rows.iter_mut().zip(self.view.devices.iter());
        for ((rows, device), reading) in places.zip(&self.view.readings) {
            let is_recorded = match &self.chosen {
                Some(indices) => indices.contains(&device.index),
                None => rows.held_by_job || (rows.visible && !is_settled),
            };
            match reading {
                Ok(reading) if is_recorded => {
                    rows.readings += 1;
                    let row = row_of(reading, rows.share);
                    write(writer, rows, device, at_nanos, row);
                    say_sensor_failure(writer, rows, device, at_nanos, reading);
                    if !self.of_machine && !matches!(rows.share, GpuShare::Bytes(_)) {
                        unknown = Some(rows.share);
                    }
                }
                Err(reason) if is_recorded => {
                    say_failure(writer, rows, device, at_nanos, reason);
                    leave(writer, rows, at_nanos);
                }
                _ => leave(writer, rows, at_nanos),
            }
        }
        self.say_unknown(writer, at_nanos, unknown);
    }

    /// The GPUs are known: which of them can the job see? False when that cannot be told yet.
    fn meet(&mut self) -> bool {
        let devices = &self.view.devices;
        let Some(visible) = cuda_view_of(&self.roots.proc, self.first_pid, devices) else {
            return false;
        };
        let rows = (0..devices.len()).map(|place| DeviceRows {
            table: None,
            last_row: GpuRow::ABSENT,
            written_nanos: 0,
            visible: visible.places.contains(&place),
            held_by_job: false,
            failure_said: false,
            sensor_failure_said: false,
            share: GpuShare::Bytes(0),
            readings: 0,
        });
        self.rows = rows.collect();
        true
    }

    fn fall_silent(&mut self, writer: &mut dyn RowSink, now_nanos: u64) {
        if !self.silence_said {
            self.silence_said = true;
            let text = "the GPU driver is not responding; GPUs are not recorded until it does";
            let text = text.to_owned();
            writer.event(now_nanos, &Event::Blind { text });
        }
        for rows in &mut self.rows {
            leave(writer, rows, now_nanos);
        }
    }

    fn say_unknown(&mut self, writer: &mut dyn RowSink, now_nanos: u64, unknown: Option<GpuShare>) {
        let Some(share) = unknown else {
            self.unknown_since_nanos = None;
            return;
        };
        let since = *self.unknown_since_nanos.get_or_insert(now_nanos);
        if self.unknown_said || now_nanos.saturating_sub(since) < UNKNOWN_NANOS {
            return;
        }
        self.unknown_said = true;
        let why = share.unknown_because().unwrap_or_default();
        let text = format!("the job's share of GPU memory is unknown: {why}");
        writer.event(now_nanos, &Event::Blind { text });
    }
}

impl Drop for GpuRows {
    /// The process may end right after: better not while the driver is being asked.
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.wait(if self.of_machine {
                LOOK_WAIT
            } else {
                LAST_WAIT
            });
        }
    }
}

fn say_failure(
    writer: &mut dyn RowSink,
    rows: &mut DeviceRows,
    device: &GpuDevice,
    at_nanos: u64,
    reason: &str,
) {
    if !std::mem::replace(&mut rows.failure_said, true) {
        let GpuDevice { index, name, .. } = device;
        let text = format!(
            "GPU {index} ({name}) cannot be read: {reason}; it is not recorded until it can be"
        );
        writer.event(at_nanos, &Event::Blind { text });
    }
}

fn say_sensor_failure(
    writer: &mut dyn RowSink,
    rows: &mut DeviceRows,
    device: &GpuDevice,
    at_nanos: u64,
    reading: &GpuReading,
) {
    if let Some(reason) = &reading.sensor_failure
        && !std::mem::replace(&mut rows.sensor_failure_said, true)
    {
        let GpuDevice { index, name, .. } = device;
        let text = format!("a sensor of GPU {index} ({name}) cannot be read: {reason}");
        writer.event(at_nanos, &Event::Blind { text });
    }
}

fn row_of(reading: &GpuReading, share: GpuShare) -> GpuRow {
    let job_bytes = match share {
        GpuShare::Bytes(bytes) => Some(bytes),
        GpuShare::Untold | GpuShare::Unplaced => None,
    };
    let sensors = &reading.sensors;
    let throttled = |is_so: fn(GpuThrottling) -> bool| {
        or_absent(sensors.throttling.map(|why| u64::from(is_so(why))))
    };
    GpuRow {
        used_bytes: or_absent(reading.used_bytes),
        total_bytes: or_absent(reading.total_bytes),
        job_bytes: or_absent(job_bytes),
        utilization: reading
            .utilization_percent
            .map_or(ABSENT, |percent| f64::from(percent) / 100.0),
        power_watts: watts(sensors.power_milliwatts),
        power_limit_watts: watts(sensors.power_limit_milliwatts),
        temperature_celsius: or_absent(sensors.temperature_celsius.map(u64::from)),
        sm_clock_mhz: or_absent(sensors.sm_clock_mhz.map(u64::from)),
        memory_clock_mhz: or_absent(sensors.memory_clock_mhz.map(u64::from)),
        throttled_by_power: throttled(|throttling| throttling.by_power),
        throttled_by_heat: throttled(|throttling| throttling.by_heat),
        throttled_by_hardware: throttled(|throttling| throttling.by_hardware),
        uncorrected_ecc_errors: or_absent(sensors.uncorrected_ecc_errors),
        nvlink_sent_bytes: or_absent(sensors.nvlink.map(|traffic| traffic.sent_bytes)),
        nvlink_received_bytes: or_absent(sensors.nvlink.map(|traffic| traffic.received_bytes)),
    }
}

/// Whole watts: sensors are off by several, and a GPU at rest would have a row a second for its milliwatts.
fn watts(milliwatts: Option<u64>) -> f64 {
    milliwatts.map_or(ABSENT, |milliwatts| (milliwatts as f64 / 1e3).round())
}

fn write(
    writer: &mut dyn RowSink,
    rows: &mut DeviceRows,
    device: &GpuDevice,
    at_nanos: u64,
    row: GpuRow,
) {
    let table = *rows.table.get_or_insert_with(|| {
        writer.event(
            at_nanos,
            &Event::GpuFound {
                index: device.index,
                name: device.name.clone(),
                uuid: device.uuid.clone(),
                total_bytes: device.total_bytes,
                reserved_bytes: device.reserved_bytes,
                part_of: device.part_of,
            },
        );
        writer.define(&TableSpec::gpu(device.index))
    });
    let is_silent = at_nanos.saturating_sub(rows.written_nanos) >= SILENCE_NANOS;
    if is_silent || row != rows.last_row {
        writer.append(table, at_nanos, None, &row.values());
        rows.last_row = row;
        rows.written_nanos = at_nanos;
    }
}

/// From here on the last row does not hold any more.
fn leave(writer: &mut dyn RowSink, rows: &mut DeviceRows, at_nanos: u64) {
    if let Some(table) = rows.table
        && rows.last_row != GpuRow::ABSENT
    {
        writer.append(table, at_nanos, None, &GpuRow::ABSENT.values());
        rows.last_row = GpuRow::ABSENT;
    }
}

#[cfg(test)]
#[path = "gpu_rows_tests.rs"]
mod tests;
