//! What the recorder knows right now, for the line on the screen and the CSV log.

/// The latest reading.
#[derive(Debug, Clone, Default)]
pub struct LiveReading {
    /// Since the run began.
    pub time_nanos: u64,
    /// Memory of the tree, shared pages counted once as far as known.
    pub memory_bytes: u64,
    /// The largest level so far, the kernel's marks included.
    pub peak_bytes: u64,
    /// Percent of one core since the reading before.
    pub cpu_percent: f64,
    /// Processes alive.
    pub processes: usize,
    /// The limit in force.
    pub limit_bytes: Option<u64>,
    /// How often the tree, or the machine where no process is watched, was looked at.
    pub ticks: u64,
    /// How often the host was read: only changes are written, so rows do not tell.
    pub host_readings: u64,
    /// How often each GPU was read, by its index.
    pub gpu_readings: Vec<(u32, u64)>,
}

/// Somebody who looks on; called after each tick, on the sampling thread, so it must be quick.
pub trait Observer {
    /// A tick was recorded.
    fn on_tick(&mut self, live: &LiveReading);

    /// The processes of the tree, after each tick.
    fn on_processes(&mut self, _pids: &mut dyn Iterator<Item = u32>) {}

    /// Something the user should know at once, said once.
    fn on_notice(&mut self, text: &str);

    /// Whether watching may end before its time: asked after each tick of [`crate::watch_processes`].
    fn has_seen_enough(&self) -> bool {
        false
    }
}
