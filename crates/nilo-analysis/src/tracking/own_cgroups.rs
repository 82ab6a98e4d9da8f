//! What lies in tmpfs because of the job: files in `/dev/shm` that no process maps are seen in a cgroup alone, and are known to be the job's where the cgroup holds nobody else.

use std::collections::BTreeMap;

use super::resources::RowValues;
use crate::shared_mappings::{DevShm, SharedCharge};

/// The newest figures of the cgroups that hold nobody but the job.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnCgroups {
    by_path: BTreeMap<String, TmpfsCharge>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct TmpfsCharge {
    shmem_bytes: f64,
    anon_bytes: f64,
    parts: SharedCharge,
}

impl OwnCgroups {
    /// Takes in a row of a cgroup.
    pub(crate) fn take(
        &mut self,
        path: &str,
        row: &RowValues<'_>,
        tree_bytes: f64,
        dev_shm: &mut DevShm,
    ) {
        let is_own = row.get("owned") == Some(1.0);
        match row.get("shmem_bytes").filter(|_| is_own) {
            Some(shmem_bytes) => {
                let anon_bytes = row.get("anon_bytes").unwrap_or(f64::INFINITY);
                let before = self.by_path.get(path);
                let mut parts = before.map_or_else(SharedCharge::default, |it| it.parts);
                parts.take(anon_bytes, shmem_bytes, tree_bytes, dev_shm);
                let charge = TmpfsCharge {
                    shmem_bytes,
                    anon_bytes,
                    parts,
                };
                self.by_path.insert(path.to_owned(), charge);
            }
            None => {
                self.by_path.remove(path);
            }
        }
    }

    /// What the job has written to tmpfs or shares, mapped or not; `None` where no cgroup is the job's alone.
    pub(crate) fn tmpfs_bytes(&self) -> Option<f64> {
        Some(self.outermost()?.shmem_bytes)
    }

    /// What of it a tree that holds so much maps: memory that is not anonymous, as far as it may be that.
    pub(crate) fn mapped_tmpfs_bytes(&self, tree_bytes: f64) -> Option<f64> {
        let charge = self.outermost()?;
        Some((tree_bytes - charge.anon_bytes).clamp(0.0, charge.shmem_bytes))
    }

    /// What it is by what is a file and what is not.
    pub(crate) fn charge(&self) -> Option<SharedCharge> {
        Some(self.outermost()?.parts)
    }

    /// A cgroup counts what those inside of it hold as well.
    fn outermost(&self) -> Option<&TmpfsCharge> {
        let charges = self.by_path.values();
        charges.max_by(|one, other| one.shmem_bytes.total_cmp(&other.shmem_bytes))
    }
}
