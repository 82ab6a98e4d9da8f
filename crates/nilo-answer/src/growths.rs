//! What grows in a diagnosis, in whom, and what grows by less than the user asked about.

use nilo_analysis::assessment::is_leak;
use nilo_analysis::findings::{MemoryHolder, leak_holders};
use nilo_analysis::tracking::{Resource, ResourceVerdict};
use nilo_forecast::Growth;
use nilo_sample::Recording;

use crate::diagnosis::Diagnosis;

/// Everything that was looked at, leaks first.
#[derive(Debug, Default)]
pub struct GrowthFindings {
    /// The resources.
    pub each: Vec<ResourceGrowth>,
    /// Who holds the growth of the job's memory, as far as that was looked for.
    pub holders: Vec<MemoryHolder>,
}

/// One resource.
#[derive(Debug)]
pub struct ResourceGrowth {
    /// What was measured and found.
    pub verdict: ResourceVerdict,
    /// What would have been found without the user's threshold.
    pub below_threshold: Option<Growth>,
}

impl GrowthFindings {
    /// What grows in a diagnosis; growth of fewer than `least_bytes` is left out.
    pub fn of(diagnosis: &Diagnosis, least_bytes: Option<f64>) -> GrowthFindings {
        let mut verdicts = diagnosis.verdicts(least_bytes);
        leave_out_twice_told(&mut verdicts);
        verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.growth.map(|growth| growth.kind)));
        let unasked = match least_bytes {
            Some(_) => diagnosis.verdicts(None),
            None => Vec::new(),
        };
        let below = |verdict: &ResourceVerdict| {
            let same = |other: &&ResourceVerdict| other.resource == verdict.resource;
            unasked.iter().find(same)?.growth
        };
        let each = verdicts.into_iter().map(|verdict| ResourceGrowth {
            below_threshold: match verdict.growth {
                Some(_) => None,
                None => below(&verdict),
            },
            verdict,
        });
        let mut growths = GrowthFindings {
            each: each.collect(),
            holders: Vec::new(),
        };
        if let Some(recording) = &diagnosis.recording {
            growths.find_holders(recording);
        }
        growths
    }

    /// Looks in which processes the job's memory grows.
    pub fn find_holders(&mut self, recording: &Recording) {
        let of_job = self.each.iter().find(|grown| {
            grown.verdict.resource == Resource::Job && grown.verdict.growth.is_some()
        });
        self.holders =
            of_job.map_or_else(Vec::new, |grown| leak_holders(recording, &grown.verdict));
    }

    /// Whether anything is sure to leak.
    pub fn has_leaks(&self) -> bool {
        self.leaks().next().is_some()
    }

    /// 1 for a leak.
    pub fn exit_status(&self) -> u8 {
        u8::from(self.has_leaks())
    }

    /// What is sure to leak.
    pub fn leaks(&self) -> impl Iterator<Item = &ResourceGrowth> {
        self.each.iter().filter(|grown| grown.is_leak())
    }

    /// Whether nothing was looked at for long enough to find a leak.
    pub fn is_too_short(&self) -> bool {
        self.each.iter().all(|grown| grown.verdict.too_young)
    }

    /// The longest time that anything was looked at, as it is told.
    pub fn watched_secs(&self) -> f64 {
        let each = self.each.iter().map(|grown| grown.verdict.told_secs());
        each.fold(0.0, f64::max)
    }

    /// The holders, where it is the job's growth that is spoken of.
    pub fn holders_of(&self, grown: &ResourceGrowth) -> &[MemoryHolder] {
        let is_jobs = grown.verdict.resource == Resource::Job && grown.verdict.growth.is_some();
        if is_jobs { &self.holders } else { &[] }
    }
}

/// The job's share of the machine's memory is the job's memory, which has a line of its own; so is what grows in `/dev/shm` as a part of it.
fn leave_out_twice_told(verdicts: &mut Vec<ResourceVerdict>) {
    let mut each = verdicts.iter();
    let Some(job) = each.find(|verdict| verdict.resource == Resource::Job) else {
        return;
    };
    let is_in_tmpfs = job.growth.is_some_and(|growth| growth.is_in_tmpfs);
    verdicts.retain(|verdict| match verdict.resource {
        Resource::Host => verdict.reading.own_bytes.is_none(),
        Resource::SharedMemory => verdict.reading.own_bytes.is_none() || !is_in_tmpfs,
        _ => true,
    });
}

impl ResourceGrowth {
    /// Whether what was found is sure to be one.
    pub fn is_leak(&self) -> bool {
        is_leak(self.verdict.growth.as_ref())
    }
}
