//! The tables of the cgroups around the job, and the kernel's notices of a coming OOM kill.
//!
//! The kernel counts an OOM kill in the victim's own cgroup, while the limit may sit on an ancestor, so both are watched.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nilo_runfile::{RowSink, TableId};
use nilo_sample::rows::CgroupRow;
use nilo_sample::table::or_absent;
use nilo_sample::{Event, TableSpec, TypedRow};
use nilo_source::{CgroupReading, MemoryCgroup};
use rustix::event::PollFlags;

/// A cgroup that moves by a hundredth, and by more than this, is read whole in between, but not more often than this.
const MOVED_BYTES: u64 = 4 << 20;
const MOVED_NANOS: u64 = 200_000_000;
/// More cgroups than this in one job are not followed.
const MOST_CGROUPS: usize = 8;

struct Watched {
    cgroup: MemoryCgroup,
    table: TableId,
    notice: Option<OwnedFd>,
    last_row: Option<CgroupRow>,
    reading: CgroupReading,
    owned: Option<bool>,
    /// What the cgroup and the job held when that was asked.
    owned_at_bytes: (u64, u64),
    holds_job: Option<bool>,
    oom_kills: Option<u64>,
    /// When everything was read last, and what usage was then.
    whole_nanos: u64,
    whole_usage_bytes: Option<u64>,
}

/// The cgroups that are watched.
#[derive(Default)]
pub(crate) struct CgroupRows {
    cgroups: Vec<Watched>,
}

impl CgroupRows {
    /// Watches one more cgroup; false where it is watched already, or not to be.
    pub(crate) fn watch(&mut self, writer: &mut dyn RowSink, cgroup: MemoryCgroup) -> bool {
        let mut known = self.cgroups.iter();
        let is_known = known.any(|watched| watched.cgroup.path() == cgroup.path());
        let left_by_the_dying = cgroup.path() == "/" && !self.cgroups.is_empty();
        if is_known || left_by_the_dying || self.cgroups.len() >= MOST_CGROUPS {
            return false;
        }
        self.cgroups.push(Watched {
            table: writer.define(&TableSpec::cgroup(cgroup.path())),
            notice: cgroup.oom_notice().ok().flatten(),
            cgroup,
            last_row: None,
            reading: CgroupReading::default(),
            owned: None,
            owned_at_bytes: (0, 0),
            holds_job: None,
            oom_kills: None,
            whole_nanos: 0,
            whole_usage_bytes: None,
        });
        true
    }

    /// What a cgroup holds, as last read; file pages that the kernel can drop do not count.
    pub(crate) fn held_bytes(&self, path: &str) -> Option<u64> {
        let mut each = self.cgroups.iter();
        let reading = &each.find(|it| it.cgroup.path() == path)?.reading;
        let shmem = reading.shmem_bytes.unwrap_or(0);
        let files = reading.file_bytes.unwrap_or(0).saturating_sub(shmem);
        Some(reading.usage_bytes?.saturating_sub(files))
    }

    /// Descriptors that become readable when the kernel is about to kill.
    ///
    /// v1 gives an eventfd; v2 raises an exceptional condition on `memory.events`, which as a file is always readable.
    pub(crate) fn notices(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.cgroups.iter().filter_map(|watched| {
            let flags = if watched.cgroup.version() == 1 {
                PollFlags::IN
            } else {
                PollFlags::PRI
            };
            Some((watched.notice.as_ref()?.as_fd(), flags))
        })
    }

    /// Writes down the notices that came.
    pub(crate) fn take_notices(&mut self, writer: &mut dyn RowSink, now_nanos: u64) {
        for watched in &self.cgroups {
            let Some(fd) = &watched.notice else { continue };
            let mut buffer = [0u8; 512];
            if watched.cgroup.version() == 2 {
                // Reading from the start arms the next notice; the file changes for other reasons too.
                rustix::io::pread(fd, &mut buffer, 0).ok();
            } else if rustix::io::read(fd, &mut buffer[..8]).is_ok() {
                let cgroup = watched.cgroup.path().to_owned();
                writer.event(now_nanos, &Event::OomNotice { cgroup });
            }
        }
    }

    /// The OOM-kill counters as they read now.
    pub(crate) fn counters(&mut self) -> Vec<(String, u64)> {
        let counters = self.cgroups.iter_mut().filter_map(|watched| {
            let kills = watched.cgroup.read(true).oom_kills?;
            Some((watched.cgroup.path().to_owned(), kills))
        });
        counters.collect()
    }

    /// Whether it is known of each cgroup if it holds anybody besides the job.
    pub(crate) fn owners_are_known(&self) -> bool {
        self.cgroups.iter().all(|watched| watched.owned.is_some())
    }

    /// Asks whether each cgroup holds anybody besides the job, which holds so much.
    pub(crate) fn look_for_strangers(&mut self, job_bytes: u64, is_ours: impl Fn(u32) -> bool) {
        for watched in &mut self.cgroups {
            let owned = watched.cgroup.owned_by(&is_ours);
            watched.owned = owned.or(watched.owned);
            let usage = watched.reading.usage_bytes;
            watched.owned_at_bytes = (usage.unwrap_or(0), job_bytes);
        }
    }

    /// Whether a cgroup of the job alone has grown by more than the job has: somebody may have joined it.
    pub(crate) fn may_have_strangers(&self, job_bytes: u64) -> bool {
        self.cgroups.iter().any(|watched| {
            let (usage_then, job_then) = watched.owned_at_bytes;
            let explained = usage_then + job_bytes.saturating_sub(job_then);
            let far = (usage_then / 100).max(MOVED_BYTES);
            let usage = watched.reading.usage_bytes.unwrap_or(0);
            watched.owned == Some(true) && usage > explained + far
        })
    }

    /// Takes in whether processes of the job are in each cgroup or below.
    pub(crate) fn see_members(&mut self, holds_job: impl Fn(&str) -> bool) {
        for watched in &mut self.cgroups {
            watched.holds_job = Some(holds_job(watched.cgroup.path()));
        }
    }

    /// Reads usage, and everything else with `whole`.
    pub(crate) fn read(&mut self, now_nanos: u64, whole: bool) {
        for watched in &mut self.cgroups {
            watched.read(now_nanos, whole);
        }
    }

    /// Writes what changed, and says whether a limit did.
    pub(crate) fn write(&mut self, writer: &mut dyn RowSink, now_nanos: u64) -> bool {
        let mut limit_changed = false;
        for watched in &mut self.cgroups {
            let row = row_of(&watched.reading, watched.owned, watched.holds_job);
            if watched.last_row != Some(row) {
                let limit_before = watched.last_row.map(|last| last.limit_bytes.to_bits());
                limit_changed |= limit_before != Some(row.limit_bytes.to_bits());
                writer.append(watched.table, now_nanos, None, &row.values());
                watched.last_row = Some(row);
            }
            if let Some(kills) = watched.reading.oom_kills {
                if watched.oom_kills.is_some_and(|before| kills > before) {
                    let cgroup = Some(watched.cgroup.path().to_owned());
                    writer.event(now_nanos, &Event::OomKill { cgroup, kills });
                }
                watched.oom_kills = Some(kills);
            }
        }
        limit_changed
    }
}

impl Watched {
    fn read(&mut self, now_nanos: u64, whole: bool) {
        let usage = self.cgroup.usage_bytes();
        if whole || self.has_moved(usage, now_nanos) {
            self.reading = self.cgroup.read(true);
            self.whole_nanos = now_nanos;
            self.whole_usage_bytes = self.reading.usage_bytes;
            return;
        }
        let reading = &mut self.reading;
        // What moved little moved in memory: inactive file pages stay as last read.
        let inactive = reading.usage_bytes.zip(reading.working_set_bytes);
        let inactive = inactive.map(|(usage, set)| usage.saturating_sub(set));
        reading.working_set_bytes = usage
            .zip(inactive)
            .map(|(usage, inactive)| usage.saturating_sub(inactive));
        reading.usage_bytes = usage;
        // The mark is not read here, and is never below what was just read.
        reading.peak_bytes = reading.peak_bytes.map(|mark| mark.max(usage.unwrap_or(0)));
    }

    /// Whether usage went so far since everything was read that it must be asked what moved: memory, or pages of a file being read or written.
    fn has_moved(&self, usage: Option<u64>, now_nanos: u64) -> bool {
        let (Some(usage), Some(then)) = (usage, self.whole_usage_bytes) else {
            return false;
        };
        let far = (then / 100).max(MOVED_BYTES);
        usage.abs_diff(then) > far && now_nanos.saturating_sub(self.whole_nanos) >= MOVED_NANOS
    }
}

fn row_of(reading: &CgroupReading, owned: Option<bool>, holds_job: Option<bool>) -> CgroupRow {
    CgroupRow {
        usage_bytes: or_absent(reading.usage_bytes),
        working_set_bytes: or_absent(reading.working_set_bytes),
        peak_bytes: or_absent(reading.peak_bytes),
        limit_bytes: or_absent(reading.limit_bytes),
        anon_bytes: or_absent(reading.anon_bytes),
        file_bytes: or_absent(reading.file_bytes),
        shmem_bytes: or_absent(reading.shmem_bytes),
        swap_bytes: or_absent(reading.swap_bytes),
        oom_kills: or_absent(reading.oom_kills),
        limit_hits: or_absent(reading.limit_hits),
        owned: or_absent(owned.map(u64::from)),
        holds_job: or_absent(holds_job.map(u64::from)),
    }
}
