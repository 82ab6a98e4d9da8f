//! Shared memory of a cgroup by what it is: files in tmpfs, or memory that processes map without one (`mmap` with `MAP_SHARED`, memfd, System V).
//!
//! The kernel counts both as `shmem`. What processes do not map are files. What they map, and what `/dev/shm` has not grown by, has no file there:
//! it goes when the program unmaps it, and nobody can delete it. Growth, limits and advice all take this decision from here.

use nilo_sample::{RecordedTable, Recording, SeriesView, Subject};

/// What `/dev/shm` holds: all of it, and what is not the job's.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DevShm {
    used_bytes: Option<f64>,
    others_bytes: Option<f64>,
}

impl DevShm {
    /// Takes in a reading.
    pub(crate) fn take(&mut self, used_bytes: f64) {
        self.used_bytes = Some(used_bytes);
    }

    /// What the job may have there at most; `None` where it was not read.
    fn of_job(&self) -> Option<f64> {
        let used_bytes = self.used_bytes?;
        Some((used_bytes - self.others_bytes.unwrap_or(0.0)).max(0.0))
    }
}

/// What is charged to one cgroup, as last read, and what of it processes map.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SharedCharge {
    anon_bytes: f64,
    pub(crate) shmem_bytes: f64,
    /// The most of the tree that was neither anonymous nor shared memory: libraries, and other files that it maps.
    library_bytes: f64,
}

impl SharedCharge {
    /// Takes in a row of the cgroup, beside the tree's memory at that time.
    pub(crate) fn take(
        &mut self,
        anon_bytes: f64,
        shmem_bytes: f64,
        tree_bytes: f64,
        dev_shm: &mut DevShm,
    ) {
        // Usage is read more often than its parts: a tree that has grown since says nothing of libraries.
        if (self.anon_bytes, self.shmem_bytes) == (anon_bytes, shmem_bytes) {
            return;
        }
        (self.anon_bytes, self.shmem_bytes) = (anon_bytes, shmem_bytes);
        let libraries = tree_bytes - anon_bytes - shmem_bytes;
        self.library_bytes = self.library_bytes.max(libraries);
        if let (None, Some(used)) = (dev_shm.others_bytes, dev_shm.used_bytes) {
            dev_shm.others_bytes = Some((used - shmem_bytes).max(0.0));
        }
    }

    /// What processes of a tree of this size map that no file in `/dev/shm` explains.
    pub(crate) fn without_file_bytes(&self, tree_bytes: f64, dev_shm: &DevShm) -> f64 {
        let Some(in_dev_shm) = dev_shm.of_job() else {
            return 0.0;
        };
        let mapped = tree_bytes - self.anon_bytes - self.library_bytes;
        (self.shmem_bytes - in_dev_shm).min(mapped).max(0.0)
    }
}

/// The same of a recorded cgroup at one of its rows.
pub(crate) fn without_file_at(
    recording: &Recording,
    cgroup: &RecordedTable,
    row: usize,
) -> Option<f64> {
    let tree = recording.table(&Subject::Tree)?.series("memory_bytes")?;
    let host = recording.table(&Subject::Host)?.series("shm_used_bytes")?;
    let (anon, shmem) = (cgroup.series("anon_bytes")?, cgroup.series("shmem_bytes")?);
    let (mut tree, mut host) = (Newest::of(tree), Newest::of(host));
    let (mut charge, mut dev_shm) = (SharedCharge::default(), DevShm::default());
    for index in 0..=row {
        let time_nanos = *cgroup.times.get(index)?;
        if let Some(used_bytes) = host.at(time_nanos) {
            dev_shm.take(used_bytes);
        }
        let parts = [anon.values.get(index)?, shmem.values.get(index)?];
        if let (Some(tree_bytes), true) =
            (tree.at(time_nanos), parts.iter().all(|it| it.is_finite()))
        {
            charge.take(*parts[0], *parts[1], tree_bytes, &mut dev_shm);
        }
    }
    let time_nanos = *cgroup.times.get(row)?;
    Some(charge.without_file_bytes(tree.at(time_nanos)?, &dev_shm))
}

/// The newest value of a series at times that ascend.
struct Newest<'a> {
    series: SeriesView<'a>,
    next: usize,
    value: Option<f64>,
}

impl<'a> Newest<'a> {
    fn of(series: SeriesView<'a>) -> Newest<'a> {
        Newest {
            series,
            next: 0,
            value: None,
        }
    }

    fn at(&mut self, time_nanos: u64) -> Option<f64> {
        let times = self.series.times;
        while self.next < times.len() && times[self.next] <= time_nanos {
            let value = self.series.values[self.next];
            self.value = Some(value).filter(|value| value.is_finite()).or(self.value);
            self.next += 1;
        }
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has no file, after a start with libraries of 40 and `/dev/shm` with 30 of others.
    fn without_file(tree: f64, shmem: f64, dev_shm_used: f64) -> f64 {
        let mut dev_shm = DevShm::default();
        let mut charge = SharedCharge::default();
        dev_shm.take(30.0);
        charge.take(100.0, 0.0, 140.0, &mut dev_shm);
        dev_shm.take(dev_shm_used);
        charge.take(101.0, shmem, tree, &mut dev_shm);
        charge.without_file_bytes(tree, &dev_shm)
    }

    #[test]
    fn what_is_mapped_and_not_in_dev_shm_has_no_file() {
        assert_eq!(without_file(341.0, 200.0, 30.0), 200.0);
        assert_eq!(without_file(341.0, 200.0, 230.0), 0.0, "a file there");
        assert_eq!(without_file(341.0, 200.0, 90.0), 140.0, "some of it");
        assert_eq!(without_file(141.0, 200.0, 30.0), 0.0, "a file elsewhere");
    }

    #[test]
    fn without_a_reading_of_dev_shm_nothing_is_said() {
        let mut charge = SharedCharge::default();
        charge.take(100.0, 200.0, 340.0, &mut DevShm::default());
        assert_eq!(charge.without_file_bytes(340.0, &DevShm::default()), 0.0);
    }
}
