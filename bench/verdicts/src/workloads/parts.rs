//! What a training job holds, part by part; a part is advanced tick by tick and says how much it holds.
//!
//! Nothing here knows of a limit or of a shape of curve: what comes out is the sum of what parts do.

use crate::random::Random;

/// Something that takes memory. Amounts are shares of what the job holds when it has begun.
pub(super) trait MemoryComponent {
    /// Moves on by `secs` and says how much is held.
    fn advance(&mut self, secs: f64, random: &mut Random) -> f64;
}

/// Model and optimizer: pieces that are loaded one after the other.
pub(super) struct Load {
    pub(super) pieces: usize,
    pub(super) every_secs: f64,
    pub(super) clock_secs: f64,
}

impl MemoryComponent for Load {
    fn advance(&mut self, secs: f64, _: &mut Random) -> f64 {
        self.clock_secs += secs;
        let loaded = (self.clock_secs / self.every_secs).floor() + 1.0;
        (loaded / self.pieces as f64).min(1.0)
    }
}

/// Activations: each training step takes another amount, few take a lot more, and a sample falls anywhere into a step.
pub(super) struct Activations {
    pub(super) height: f64,
    /// Deviation of the logarithm of a step's amount.
    pub(super) spread: f64,
    pub(super) begins_secs: f64,
    pub(super) clock_secs: f64,
}

impl MemoryComponent for Activations {
    fn advance(&mut self, secs: f64, random: &mut Random) -> f64 {
        self.clock_secs += secs;
        if self.clock_secs < self.begins_secs {
            return 0.0;
        }
        let step = self.height * (self.spread * random.normal().clamp(-2.5, 2.5)).exp();
        step * random.between(0.0, 1.0).sqrt()
    }
}

/// What is kept: so much a second, at a pace that wanders, in lumps of chance, and not while something pauses it.
pub(super) struct Leak {
    pub(super) a_second: f64,
    pub(super) begins_secs: f64,
    /// How fast the pace wanders.
    pub(super) wandering: f64,
    /// Factor on the pace for each time of the length of the job.
    pub(super) acceleration: f64,
    /// Works and pauses for so many seconds.
    pub(super) pauses: Option<(f64, f64)>,
    pub(super) clock_secs: f64,
    pub(super) pace: f64,
    pub(super) kept: f64,
}

impl MemoryComponent for Leak {
    fn advance(&mut self, secs: f64, random: &mut Random) -> f64 {
        self.clock_secs += secs;
        let since = self.clock_secs - self.begins_secs;
        let paused = self
            .pauses
            .is_some_and(|(works, pauses)| since % (works + pauses) > works);
        if since > 0.0 && !paused {
            let pull = 0.02 * (1.0 - self.pace) * secs;
            let push = self.wandering * secs.sqrt() * random.normal();
            self.pace = (self.pace + pull + push).clamp(0.4, 2.0);
            let lump = random.waiting(1.0);
            let faster = 1.0 + self.acceleration * since;
            self.kept += self.a_second * self.pace * faster * lump * secs;
        }
        self.kept
    }
}

/// Something is kept at the end of each epoch, or a batch is made larger: steps of some height, some time apart.
pub(super) struct StepIncreases {
    pub(super) height: f64,
    /// Deviations of the logarithm of height and time.
    pub(super) uneven: (f64, f64),
    /// Factor from step to step.
    pub(super) growth: f64,
    pub(super) every_secs: f64,
    /// Steps until it ends.
    pub(super) most: usize,
    pub(super) next_secs: f64,
    pub(super) made: usize,
    pub(super) clock_secs: f64,
    pub(super) held: f64,
}

impl MemoryComponent for StepIncreases {
    fn advance(&mut self, secs: f64, random: &mut Random) -> f64 {
        self.clock_secs += secs;
        while self.clock_secs >= self.next_secs && self.made < self.most {
            self.made += 1;
            self.held += self.height * (self.uneven.0 * random.normal()).exp();
            self.height *= self.growth;
            self.next_secs += self.every_secs * (self.uneven.1 * random.normal()).exp();
        }
        self.held
    }
}

/// Growth that slows down: a cache that fills, distinct words of a text, pages that are copied when they are written.
pub(super) struct Filling {
    pub(super) kind: FillingKind,
    pub(super) size: f64,
    pub(super) time_secs: f64,
    pub(super) clock_secs: f64,
}

/// By which law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FillingKind {
    /// Up to its size, more and more slowly.
    Saturating,
    /// With the square root of the time; `size` after `time_secs`.
    SquareRoot,
    /// With the logarithm of the time; `size` after `time_secs`.
    Logarithmic,
}

impl MemoryComponent for Filling {
    fn advance(&mut self, secs: f64, _: &mut Random) -> f64 {
        self.clock_secs += secs;
        let passed = self.clock_secs / self.time_secs;
        self.size
            * match self.kind {
                FillingKind::Saturating => 1.0 - (-3.0 * passed).exp(),
                FillingKind::SquareRoot => passed.sqrt(),
                FillingKind::Logarithmic => (1.0 + 50.0 * passed).ln() / 51_f64.ln(),
            }
    }
}

/// Garbage that is collected when there is enough of it, most of it.
pub(super) struct Garbage {
    pub(super) a_second: f64,
    pub(super) threshold: f64,
    pub(super) next_threshold: f64,
    pub(super) held: f64,
}

impl MemoryComponent for Garbage {
    fn advance(&mut self, secs: f64, random: &mut Random) -> f64 {
        self.held += self.a_second * secs * random.between(0.5, 1.5);
        if self.held > self.next_threshold {
            self.held *= random.between(0.0, 0.15);
            self.next_threshold = self.threshold * random.between(0.7, 1.3);
        }
        self.held
    }
}

/// Evaluations: every so often more for a while, never twice the same.
pub(super) struct Evaluation {
    pub(super) height: f64,
    pub(super) every_secs: f64,
    pub(super) takes_secs: f64,
    pub(super) next_secs: f64,
    pub(super) clock_secs: f64,
    pub(super) now: f64,
}

impl MemoryComponent for Evaluation {
    fn advance(&mut self, secs: f64, random: &mut Random) -> f64 {
        self.clock_secs += secs;
        if self.clock_secs >= self.next_secs + self.takes_secs {
            self.next_secs += self.every_secs * random.between(0.9, 1.1);
            self.now = self.height * random.between(0.8, 1.1);
        }
        let into = (self.clock_secs - self.next_secs) / self.takes_secs;
        match into {
            0.0..=1.0 => self.now * (4.0 * into).min(1.0),
            _ => 0.0,
        }
    }
}

/// Workers of a data loader: each grows while it lives, and all are replaced with the epoch.
pub(super) struct LoaderWorkers {
    pub(super) height: f64,
    pub(super) epoch_secs: f64,
    pub(super) ends_secs: f64,
    pub(super) clock_secs: f64,
}

impl MemoryComponent for LoaderWorkers {
    fn advance(&mut self, secs: f64, random: &mut Random) -> f64 {
        self.clock_secs += secs;
        if self.clock_secs >= self.ends_secs {
            self.clock_secs = 0.0;
            self.ends_secs = self.epoch_secs * random.between(0.95, 1.05);
        }
        self.height * self.clock_secs / self.epoch_secs
    }
}

/// Fluctuation with rare large values, which returns to nothing.
pub(super) struct Fluctuation {
    pub(super) deviation: f64,
    pub(super) memory_secs: f64,
    pub(super) value: f64,
}

impl MemoryComponent for Fluctuation {
    fn advance(&mut self, secs: f64, random: &mut Random) -> f64 {
        let kept = (-secs / self.memory_secs).exp();
        // Student's distribution with three degrees of freedom: rare values are large.
        let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
        let heavy = random.normal() / (squares / 3.0).sqrt().max(0.2);
        self.value = kept * self.value + (1.0 - kept * kept).sqrt() * heavy;
        self.deviation * self.value.clamp(-8.0, 8.0)
    }
}
