//! Busy loops that take all of every core, so that the recorder is held up wherever it can be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// One loop for each core, until it is dropped.
pub(crate) struct BusyCores {
    stop: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl BusyCores {
    /// Starts them.
    pub(crate) fn start() -> BusyCores {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let stop = Arc::new(AtomicBool::new(false));
        let busy = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        let loops = (0..cores).map(busy).collect();
        BusyCores { stop, loops }
    }
}

impl Drop for BusyCores {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for handle in self.loops.drain(..) {
            handle.join().ok();
        }
    }
}
