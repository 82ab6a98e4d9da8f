//! Which of the recorded resources somebody asked about.

use nilo_analysis::tracking::Resource;

/// The resources that an answer is about; by default all of them.
#[derive(Debug, Clone, Default)]
pub struct ResourceFilter {
    /// Nothing but GPUs is asked about.
    pub gpus_alone: bool,
    /// The GPUs asked about; `None` for all.
    pub devices: Option<Vec<u32>>,
}

impl ResourceFilter {
    /// Whether a resource is asked about.
    pub fn holds(&self, resource: &Resource) -> bool {
        match (resource, &self.devices) {
            (Resource::Gpu { index }, Some(devices)) => devices.contains(index),
            (Resource::Gpu { .. }, None) => true,
            // It may be one of those asked about.
            (Resource::UnnamedGpu, _) => true,
            _ => !self.gpus_alone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_gpus_hide_other_gpus_and_alone_they_hide_everything_else() {
        let held = |gpus_alone: bool, devices: Option<Vec<u32>>| {
            let filter = ResourceFilter {
                gpus_alone,
                devices,
            };
            let gpu = |index| Resource::Gpu { index };
            [gpu(0), gpu(1), Resource::Job].map(|resource| filter.holds(&resource))
        };
        assert_eq!(held(false, None), [true, true, true]);
        assert_eq!(held(false, Some(vec![1])), [false, true, true]);
        assert_eq!(held(true, Some(vec![1])), [false, true, false]);
    }
}
