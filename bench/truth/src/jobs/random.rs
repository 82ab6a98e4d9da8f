//! Everything in random order, from a seed: bursts of activity with rests between them, in every process of the tree.

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{MIB, monotonic_nanos, rest};
use crate::region::{PAGE_BYTES, Region};
use crate::settings::JobArgs;

const SECOND: u64 = 1_000_000_000;
/// A burst and the rest after it.
const CYCLE_NANOS: u64 = 5 * SECOND;
const BURST_NANOS: u64 = 3 * SECOND / 2;
const MOST_PROCESSES: u32 = 24;
/// What one process allocates for itself at most.
const MOST_OWN_BYTES: usize = 160 * MIB;
const FILE_BYTES: usize = 64 * MIB;

/// One process of the tree.
struct TreeProcess<'a> {
    job: &'a JobArgs,
    random: fastrand::Rng,
    census: Region,
    census_descriptor: i32,
    end_nanos: u64,
    own: Vec<Region>,
    files: Vec<Region>,
    is_root: bool,
}

pub(super) fn perform(job: &JobArgs) -> io::Result<()> {
    let (census_descriptor, is_root) = match job.census {
        Some(descriptor) => (descriptor, false),
        None => (new_census()?, true),
    };
    let census = Region::shared_descriptor(census_descriptor, PAGE_BYTES)?;
    let mut actor = TreeProcess {
        random: fastrand::Rng::with_seed(job.seed),
        census,
        census_descriptor,
        end_nanos: job
            .end_nanos
            .unwrap_or_else(|| monotonic_nanos() + job.seconds * SECOND),
        own: Vec::new(),
        files: Vec::new(),
        is_root,
        job,
    };
    if is_root {
        actor.count().store(1, Ordering::Relaxed);
        actor.allocate(60 * MIB, false)?;
    }
    actor.live()?;
    actor.count().fetch_sub(1, Ordering::Relaxed);
    if is_root {
        // SAFETY: waits for children of ours and wants no status; ends when there are none.
        while unsafe { libc::wait(std::ptr::null_mut()) } > 0 {}
    }
    Ok(())
}

/// Memory that outlives `exec`, in which the tree counts its processes.
fn new_census() -> io::Result<i32> {
    // SAFETY: makes a descriptor that is inherited across `exec` on purpose.
    let descriptor = unsafe { libc::memfd_create(c"census".as_ptr(), 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is ours; wrapping it for one call and giving it back leaves it open.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(PAGE_BYTES as u64)?;
    std::mem::forget(file);
    Ok(descriptor)
}

impl TreeProcess<'_> {
    fn count(&self) -> &AtomicU32 {
        // SAFETY: the page is shared memory of every process of the job, and the counter lies at its start.
        unsafe { &*(self.census.address() as *const AtomicU32) }
    }

    /// Acts in bursts until the end, or until it happens to leave.
    fn live(&mut self) -> io::Result<()> {
        loop {
            let now = monotonic_nanos();
            if now >= self.end_nanos {
                return Ok(());
            }
            let into_cycle = now % CYCLE_NANOS;
            if into_cycle >= BURST_NANOS {
                let left = (CYCLE_NANOS - into_cycle).min(self.end_nanos - now);
                rest(left / 1_000_000 + 1);
                continue;
            }
            if !self.act()? {
                return Ok(());
            }
            rest(self.random.u64(10..150));
        }
    }

    /// One action; false to leave.
    fn act(&mut self) -> io::Result<bool> {
        let bytes = self.random.usize(1..40) * MIB;
        match self.random.u32(0..100) {
            0..20 => self.allocate(bytes, false)?,
            20..28 => self.allocate(bytes.next_multiple_of(2 * MIB), true)?,
            28..46 => self.write_some(),
            46..54 => self.free_some(),
            54..58 => self.discard_some(),
            58..70 => self.touch_file("file", false)?,
            70..78 => self.touch_file("file", true)?,
            78..84 => drop(self.pick(|actor| &mut actor.files)),
            84..93 => self.fork()?,
            93..96 if !self.is_root => return Ok(false),
            96..98 if !self.is_root => self.exec()?,
            _ => self.write_in_a_thread(),
        }
        Ok(true)
    }

    fn own_bytes(&self) -> usize {
        self.own
            .iter()
            .map(|region| region.pages() * PAGE_BYTES)
            .sum()
    }

    fn allocate(&mut self, bytes: usize, huge: bool) -> io::Result<()> {
        if self.own_bytes() + bytes > MOST_OWN_BYTES {
            return Ok(());
        }
        let region = if huge {
            Region::huge(bytes)?
        } else {
            Region::anonymous(bytes)?
        };
        (0..region.pages()).for_each(|page| region.write(page, 1));
        self.own.push(region);
        Ok(())
    }

    fn pick(&mut self, from: impl Fn(&mut Self) -> &mut Vec<Region>) -> Option<Region> {
        let count = from(self).len();
        let index = (count > 0).then(|| self.random.usize(0..count))?;
        Some(from(self).swap_remove(index))
    }

    /// A part of a region: where it begins and how many pages it has.
    fn part_of(&mut self, region: &Region) -> (usize, usize) {
        let from = self.random.usize(0..region.pages());
        (from, self.random.usize(0..=region.pages() - from))
    }

    /// Writes part of a region; what was inherited is copied.
    fn write_some(&mut self) {
        if let Some(region) = self.pick(|actor| &mut actor.own) {
            let (from, count) = self.part_of(&region);
            (from..from + count).for_each(|page| region.write(page, 3));
            self.own.push(region);
        }
    }

    fn write_in_a_thread(&mut self) {
        if let Some(region) = self.pick(|actor| &mut actor.own) {
            let (from, count) = self.part_of(&region);
            std::thread::scope(|scope| {
                scope.spawn(|| (from..from + count).for_each(|page| region.write(page, 4)));
            });
            self.own.push(region);
        }
    }

    fn free_some(&mut self) {
        drop(self.pick(|actor| &mut actor.own));
    }

    fn discard_some(&mut self) {
        if let Some(region) = self.pick(|actor| &mut actor.own) {
            let (from, count) = self.part_of(&region);
            region.discard(from, count);
            self.own.push(region);
        }
    }

    /// Touches part of a file that every process maps: on disk, or shared memory when it lies in a memory file system.
    fn touch_file(&mut self, name: &str, private: bool) -> io::Result<()> {
        let number = self.random.u32(0..3);
        let folder = match number {
            0 => std::path::Path::new("/dev/shm"),
            _ => &self.job.folder,
        };
        let unique = self
            .job
            .folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let path = folder.join(format!("{unique}-{name}-{number}"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.set_len(FILE_BYTES as u64)?;
        let region = match private {
            true => Region::private_file(&file, FILE_BYTES)?,
            false => Region::shared_file(&file, FILE_BYTES)?,
        };
        let (from, count) = self.part_of(&region);
        for page in from..from + count {
            if private && page % 4 == 0 {
                region.write(page, 5);
            } else {
                region.read(page);
            }
        }
        self.files.push(region);
        if self.files.len() > 3 {
            self.files.swap_remove(0);
        }
        Ok(())
    }

    fn fork(&mut self) -> io::Result<()> {
        if self.count().fetch_add(1, Ordering::Relaxed) >= MOST_PROCESSES {
            self.count().fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
        let seed = self.random.u64(..);
        // SAFETY: there is one thread at this time, so the child may go on as it likes.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                self.random = fastrand::Rng::with_seed(seed);
                self.is_root = false;
            }
            _ => {}
        }
        Ok(())
    }

    /// Becomes a fresh process of the same job.
    fn exec(&mut self) -> io::Result<()> {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["job", "random", "--folder"])
            .arg(&self.job.folder);
        command.args(["--seed", &self.random.u64(..).to_string()]);
        command.args(["--census", &self.census_descriptor.to_string()]);
        command.args(["--end-nanos", &self.end_nanos.to_string()]);
        Err(command.exec())
    }
}
