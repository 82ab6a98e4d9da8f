//! The folder of a run that this process begins: at the top, inside a job, or one that all ranks of a distributed run share.

use std::io::Write;
use std::path::{Path, PathBuf};

use nilo_recorder::{
    CreatedFolder, RunsRoot, create_run_folder, create_run_inside, recorder_is_alive,
};
use nilo_runfile::{RunFolder, RunfileError, boot_id, check_root, unix_nanos};
use nilo_sample::{ProcessId, RunDescription, RunMode};
use nilo_source::{Roots, process_id};
use pyo3::prelude::*;

/// A folder, whether it was made here, and why it is not where it was asked for.
type OpenedFolder = (RunFolder, bool, Option<RunfileError>);

/// Makes the folder, or finds the one that another rank has made: `ranks` is a text that all ranks of one run have in common,
/// and whether no later launch can have it.
pub(crate) fn begin_folder(
    root: RunsRoot<'_>,
    inside: Option<&Path>,
    ranks: Option<(&str, bool)>,
    description: &mut RunDescription,
) -> Result<OpenedFolder, RunfileError> {
    let job = inside.map(RunFolder::open).transpose()?;
    // Behind a link that is not approved nothing is written, and nothing found there is joined.
    let Some((ranks, is_unique)) =
        ranks.filter(|_| job.is_some() || check_root(root.path()).is_ok())
    else {
        return make(root, job.as_ref(), description);
    };
    // Beside the runs, so that all ranks see it, on other machines too where the folder is shared.
    let base = match &job {
        Some(job) => job.job().unwrap_or_else(|| job.clone()).path().to_owned(),
        None => root.path().to_owned(),
    };
    let claim = base.join(format!(".ranks-{:016x}", fingerprint(ranks)));
    if let Some(folder) = claimed(&claim, is_unique) {
        return Ok((folder, false, None));
    }
    let (folder, _, refused) = make(root, job.as_ref(), description)?;
    match put_claim(&claim, &folder) {
        Ok(()) => Ok((folder, true, refused)),
        Err(_) => match claimed(&claim, is_unique) {
            // Another rank was faster.
            Some(first) => {
                std::fs::remove_dir_all(folder.path()).ok();
                Ok((first, false, None))
            }
            None => Ok((folder, true, refused)),
        },
    }
}

fn make(
    root: RunsRoot<'_>,
    job: Option<&RunFolder>,
    description: &mut RunDescription,
) -> Result<OpenedFolder, RunfileError> {
    match job {
        Some(job) => Ok((create_run_inside(job, description)?, true, None)),
        None => {
            let CreatedFolder { folder, refused } = create_run_folder(root, description)?;
            Ok((folder, true, refused))
        }
    }
}

/// Clocks of two machines differ by less than this.
const CLOCK_SKEW_NANOS: u64 = 60_000_000_000;

/// The run that a claim names. One that has ended is joined only where it cannot be that of an earlier launch.
fn claimed(claim: &Path, is_unique: bool) -> Option<RunFolder> {
    let path = PathBuf::from(std::fs::read_to_string(claim).ok()?);
    // Only beside the claim or inside the job: the text may be anybody's.
    let base = claim.parent()?;
    let near = path.parent() == Some(base) || path.parent() == Some(&base.join("runs"));
    let folder = RunFolder::open(&path).ok().filter(|_| near)?;
    let told = folder.describe().ok()?;
    let is_over = !is_unique && (told.ending.is_some() || is_of_a_killed_launch(&told));
    if is_over {
        std::fs::remove_file(claim).ok();
    }
    (!is_over).then_some(folder)
}

/// Launches over several machines may have nothing that tells them apart but their time: the port and the job's name are often the same.
fn is_of_a_killed_launch(told: &RunDescription) -> bool {
    if told.boot_id == boot_id() {
        return !recorder_is_alive(told);
    }
    // Another machine's: ranks are started when the launchers of all machines are there.
    let launcher = std::os::unix::process::parent_id();
    started_unix_nanos(launcher)
        .is_some_and(|launched| told.started_unix_nanos + CLOCK_SKEW_NANOS < launched)
}

/// When a process was started, by the wall clock.
fn started_unix_nanos(pid: u32) -> Option<u64> {
    let ticks = process_id(&Roots::default(), pid).ok()?.start_ticks;
    let mut since_boot = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is ours, and sysconf takes no pointer.
    let per_second = unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut since_boot);
        libc::sysconf(libc::_SC_CLK_TCK)
    };
    let started_secs = ticks / u64::try_from(per_second).ok().filter(|it| *it > 0)?;
    let age_secs = u64::try_from(since_boot.tv_sec)
        .ok()?
        .saturating_sub(started_secs);
    unix_nanos().checked_sub(age_secs.checked_mul(1_000_000_000)?)
}

/// Links the claim into place, so that nobody ever reads half of it.
fn put_claim(claim: &Path, folder: &RunFolder) -> std::io::Result<()> {
    let draft = claim.with_extension(format!("{}.tmp", std::process::id()));
    let outcome = std::fs::File::create(&draft)
        .and_then(|mut file| file.write_all(folder.path().as_os_str().as_encoded_bytes()))
        .and_then(|()| std::fs::hard_link(&draft, claim));
    std::fs::remove_file(&draft).ok();
    outcome
}

/// FNV-1a.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether the job that a run lies in, or the run itself, has ended or lost its recorder: it takes no further runs.
/// On another machine the recorder cannot be looked for.
#[pyfunction]
pub(crate) fn job_is_over(path: PathBuf) -> bool {
    let told = RunFolder::open(&path).and_then(|run| run.job().unwrap_or(run).describe());
    told.is_ok_and(|told| {
        told.ending.is_some() || told.boot_id == boot_id() && !recorder_is_alive(&told)
    })
}

/// Whether a process that was started under a run, and adds to it without beginning one, comes too late:
/// its job is over, and of a training no process is left that adds to it.
#[pyfunction]
pub(crate) fn run_is_abandoned(path: PathBuf) -> bool {
    let Ok(run) = RunFolder::open(&path) else {
        return false;
    };
    let is_training = run
        .describe()
        .is_ok_and(|told| told.mode == RunMode::Python);
    let is_alive = |process: &ProcessId| {
        process_id(&Roots::default(), process.pid).is_ok_and(|now| now == *process)
    };
    // Workers belong to the training that started them, also when that has outlived its job or its first rank.
    let is_used = || is_training && run.writing_processes().iter().any(is_alive);
    job_is_over(path) && !is_used()
}

/// Tells this process its rank, which no launcher says in the environment.
#[pyfunction]
pub(crate) fn tell_own_rank(rank: u32, world_size: u32) {
    nilo_source::tell_own_rank(nilo_source::Rank { rank, world_size });
}

/// This process's rank and how many there are, where a launcher gave it a place among several.
#[pyfunction]
pub(crate) fn own_rank() -> Option<(u32, u32)> {
    nilo_source::own_rank().map(|place| (place.rank, place.world_size))
}
