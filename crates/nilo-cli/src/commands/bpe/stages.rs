//! How long each stage took, on the clock and of the processor.

use std::time::Instant;

use nilo_answer::bpe_train::StageTime;
use nilo_sample::units::NANOS_PER_SEC;
use rustix::time::{ClockId, clock_gettime};

/// The stages so far.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) done: Vec<StageTime>,
    began: Instant,
    cpu_secs: f64,
    first: Instant,
}

impl Stages {
    pub(super) fn begin() -> Stages {
        let now = Instant::now();
        Stages {
            done: Vec::new(),
            began: now,
            cpu_secs: cpu_secs(),
            first: now,
        }
    }

    /// The stage that began with the one before it ends here.
    pub(super) fn end(&mut self, stage: &'static str) {
        let (now, cpu_secs) = (Instant::now(), cpu_secs());
        self.done.push(StageTime {
            stage,
            wall_secs: now.duration_since(self.began).as_secs_f64(),
            cpu_secs: cpu_secs - self.cpu_secs,
        });
        (self.began, self.cpu_secs) = (now, cpu_secs);
    }

    /// Of all stages that have ended.
    pub(super) fn wall_secs(&self) -> f64 {
        self.began.duration_since(self.first).as_secs_f64()
    }

    /// A table: `counting   1.23 s   2.41 s of CPU (196 %)`.
    pub(super) fn table(&self) -> String {
        let line = |stage: &StageTime| {
            let share = 100.0 * stage.cpu_secs / stage.wall_secs.max(1e-9);
            format!(
                "{:<10} {:>9.2} s {:>9.2} s of CPU ({share:.0} %)\n",
                stage.stage, stage.wall_secs, stage.cpu_secs
            )
        };
        self.done.iter().map(line).collect()
    }
}

fn cpu_secs() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / NANOS_PER_SEC as f64
}
