//! A GPU as a program that watches itself knows it: what the driver says, and what its own PyTorch does.

use nilo_forecast::Reading;

use super::Resource;

/// One look at a GPU, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramGpu {
    /// Its index in this program.
    pub index: u32,
    /// Whoever uses it.
    pub used_bytes: u64,
    /// What anybody can have.
    pub free_bytes: u64,
    /// What there is to have.
    pub total_bytes: u64,
    /// Held by this program's processes.
    pub own_bytes: Option<u64>,
    /// What the program's PyTorch has allocated and reserved.
    pub torch_bytes: Option<(u64, u64)>,
}

impl ProgramGpu {
    /// The readings that it gives: of the whole GPU without PyTorch's cache, which PyTorch gives back before it fails, and of PyTorch,
    /// which can come to have what it has and what nobody has.
    pub fn readings(&self, time_nanos: u64, step: Option<i64>) -> Vec<(Resource, Reading)> {
        let index = self.index;
        let cached = |(allocated, reserved): (u64, u64)| reserved.saturating_sub(allocated);
        let without_cache =
            |torch: (u64, u64)| self.used_bytes.saturating_sub(cached(torch)) as f64;
        let whole = Reading {
            time_nanos,
            used_bytes: self.used_bytes as f64,
            held_bytes: self.torch_bytes.map(without_cache),
            limit_bytes: (self.total_bytes > 0).then_some(self.total_bytes as f64),
            own_bytes: self.own_bytes.map(|own| own as f64),
            step,
            ..Reading::default()
        };
        let mut readings = vec![(Resource::Gpu { index }, whole)];
        if let Some((allocated, reserved)) = self.torch_bytes {
            let torch = Resource::Torch {
                writer: format!("python-{}", std::process::id()),
                device: index,
            };
            let own = Reading {
                time_nanos,
                used_bytes: reserved as f64,
                held_bytes: Some(allocated as f64),
                limit_bytes: Some((self.free_bytes + reserved) as f64),
                step,
                ..Reading::default()
            };
            readings.push((torch, own));
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::{ResourceTracker, ResourceVerdict};
    use nilo_forecast::{Cause, RiskLevel};

    const GIB: u64 = 1 << 30;

    /// A GPU of 80 GiB with PyTorch on it, and others beside.
    fn torch(allocated: u64, reserved: u64, others: u64) -> ProgramGpu {
        ProgramGpu {
            used_bytes: reserved + others,
            free_bytes: 80 * GIB - reserved - others,
            total_bytes: 80 * GIB,
            torch_bytes: Some((allocated, reserved)),
            ..ProgramGpu::default()
        }
    }

    /// What is said after a look every second, the worst first.
    fn verdicts(looks: impl Iterator<Item = ProgramGpu>) -> Vec<ResourceVerdict> {
        let mut tracker = ResourceTracker::default();
        for (second, look) in looks.enumerate() {
            for (resource, reading) in look.readings(second as u64 * 1_000_000_000, None) {
                tracker.observe(resource, reading);
            }
        }
        tracker.verdicts(None)
    }

    #[test]
    fn what_is_allocated_and_what_others_hold_counts_and_a_cache_does_not() {
        let share = |look: ProgramGpu| look.readings(0, None)[0].1.used_share();
        assert_eq!(share(torch(10 * GIB, 79 * GIB, 0)), Some(0.125));
        assert_eq!(share(torch(70 * GIB, 79 * GIB, 0)), Some(0.875));
        assert_eq!(share(torch(10 * GIB, 20 * GIB, 60 * GIB)), Some(0.875));
    }

    #[test]
    fn a_forecast_rests_on_what_is_allocated() {
        let rising = (0..650).map(|second| torch(second * 80 * GIB / 800, 79 * GIB, 0));
        let worst = &verdicts(rising)[0];
        assert!(worst.forecast.level >= RiskLevel::High, "{worst:?}");
        assert!(worst.reading.used_share() < Some(0.85));
        let resting = verdicts((0..650).map(|_| torch(10 * GIB, 79 * GIB, 0)));
        assert!(
            resting
                .iter()
                .all(|verdict| verdict.forecast.level == RiskLevel::Low)
        );
    }

    #[test]
    fn without_pytorch_the_driver_tells_whose_growth_it_is() {
        let neighbour = (0..650).map(|second| ProgramGpu {
            used_bytes: second * GIB / 10,
            free_bytes: 80 * GIB - second * GIB / 10,
            total_bytes: 80 * GIB,
            own_bytes: Some(5 * GIB),
            ..ProgramGpu::default()
        });
        let worst = &verdicts(neighbour)[0];
        assert_eq!(worst.forecast.cause, Some(Cause::Neighbour));
    }
}
