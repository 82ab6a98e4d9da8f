//! The beginning of a run: its description, and a folder for it where one can be made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nilo_runfile::{RunFolder, RunfileError, boot_id, monotonic_nanos, unix_nanos};
use nilo_sample::run::RUN_SCHEMA;
use nilo_sample::{RunDescription, RunId, RunMode, SlurmJobId};
use nilo_source::{Roots, process_id};

use crate::privacy::{access, stored_command, stored_name, stored_tags};
use crate::provenance::provenance;
use crate::recorder::describe_machine;

/// Runs that may begin in one millisecond.
const MOST_ATTEMPTS: u32 = 100;

/// The description of a run that this process begins now; `slug` becomes part of its id. Secrets in the command line and the tags are hidden.
pub fn describe_run(
    mode: RunMode,
    command: Vec<String>,
    slug: &str,
    tags: BTreeMap<String, String>,
) -> RunDescription {
    let (host, system) = describe_machine();
    let now = unix_nanos();
    let own_pid = std::process::id();
    let own = process_id(&Roots::default(), own_pid);
    RunDescription {
        schema: RUN_SCHEMA.to_owned(),
        id: RunId::new(i128::from(now), &stored_name(slug)),
        name: None,
        parent: None,
        resumes: None,
        started_by_job: None,
        provenance: Some(provenance()),
        tags: stored_tags(tags),
        mode,
        command: stored_command(&command),
        cwd: std::env::current_dir().map_or(String::new(), |path| path.display().to_string()),
        host,
        system,
        nilo_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_nanos: now,
        started_monotonic_nanos: monotonic_nanos(),
        boot_id: boot_id(),
        recorder_pid: own_pid,
        recorder_start_ticks: own.map_or(0, |id| id.start_ticks),
        root_pids: Vec::new(),
        interval_nanos: 0,
        slurm: own_slurm_job(),
        asked_dir: None,
        limit: None,
        ending: None,
        streams: Default::default(),
        marks_bytes: None,
    }
}

/// The Slurm job that this process is part of, by its environment.
pub fn own_slurm_job() -> Option<SlurmJobId> {
    slurm_job(|name| std::env::var(name).ok())
}

fn slurm_job(variable: impl Fn(&str) -> Option<String>) -> Option<SlurmJobId> {
    let number = |name: &str| {
        let value = variable(name)?.trim().to_owned();
        // Steps that are no user's, such as `extern`, have numbers at the end of 32 bits.
        value.parse::<i32>().is_ok_and(|n| n >= 0).then_some(value)
    };
    Some(SlurmJobId {
        job_id: number("SLURM_JOB_ID")?,
        step_id: number("SLURM_STEP_ID"),
    })
}

/// Where a run lies.
#[derive(Debug)]
pub struct CreatedFolder {
    /// Its folder.
    pub folder: RunFolder,
    /// Why it is not where it was asked for.
    pub refused: Option<RunfileError>,
}

/// Where runs are to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsRoot<'a> {
    /// Named by whoever begins this run. What can never hold runs is a mistake that they want to hear of.
    Named(&'a Path),
    /// The default, or what a variable or a settings file says.
    Configured(&'a Path),
}

impl<'a> RunsRoot<'a> {
    /// The folder.
    pub fn path(self) -> &'a Path {
        match self {
            RunsRoot::Named(path) | RunsRoot::Configured(path) => path,
        }
    }

    /// Why no run begins here at all: no disk that has space again would change that.
    pub fn refusal(self, error: &RunfileError) -> Option<String> {
        match self {
            RunsRoot::Named(_) => error.wrong_place(),
            RunsRoot::Configured(_) => None,
        }
    }
}

/// Creates a run's folder below `root`, or in a folder of this user alone when `root` cannot be written: the job must run either way,
/// unless the root was named and is refused.
///
/// The description gets another id when the first is taken.
pub fn create_run_folder(
    asked: RunsRoot<'_>,
    description: &mut RunDescription,
) -> Result<CreatedFolder, RunfileError> {
    let root = asked.path();
    let first = match create_with_free_id(description, |told| {
        RunFolder::create_for(access(), root, told)
    }) {
        Ok(folder) => {
            return Ok(CreatedFolder {
                folder,
                refused: None,
            });
        }
        Err(error) if asked.refusal(&error).is_some() => return Err(error),
        Err(error) => error,
    };
    let asked = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    description.asked_dir = Some(asked.display().to_string());
    for candidate in fallback_roots() {
        let create = |told: &RunDescription| RunFolder::create_for(access(), &candidate, told);
        if let Ok(folder) = create_with_free_id(description, create) {
            return Ok(CreatedFolder {
                folder,
                refused: Some(first),
            });
        }
    }
    Err(first)
}

/// Creates the folder of a run inside a job, or inside the job of a run.
///
/// The description gets the job as its parent, and another id when the first is taken.
pub fn create_run_inside(
    run: &RunFolder,
    description: &mut RunDescription,
) -> Result<RunFolder, RunfileError> {
    let job = run.job().unwrap_or_else(|| run.clone());
    description.parent = Some(job.describe()?.id);
    create_with_free_id(description, |told| job.create_inside(access(), told))
}

/// Two runs may begin in the same millisecond: the later one takes the next.
fn create_with_free_id(
    description: &mut RunDescription,
    create: impl Fn(&RunDescription) -> Result<RunFolder, RunfileError>,
) -> Result<RunFolder, RunfileError> {
    let id = description.id.clone();
    let mut attempt = 0;
    loop {
        match create(description) {
            Err(RunfileError::AlreadyExists { .. }) if attempt < MOST_ATTEMPTS => {
                attempt += 1;
                let text = format!("{id}-{attempt}");
                description.id = text.parse().unwrap_or_else(|_| id.clone());
            }
            outcome => return outcome,
        }
    }
}

/// Folders of this user alone, for when the asked-for one cannot be written.
fn fallback_roots() -> impl Iterator<Item = PathBuf> {
    fallback_bases().into_iter().filter_map(|base| {
        let usual = base.join(fallback_name());
        make_private(&usual);
        // Somebody else may have taken the name. One of the others that we made before does, or a new one that nobody can foresee.
        private_folder(usual)
            .or_else(|| fallbacks_in(&base).into_iter().next())
            .or_else(|| {
                let unforeseen = base.join(format!("{}-{}", fallback_name(), unforeseen()?));
                make_private(&unforeseen);
                private_folder(unforeseen)
            })
    })
}

/// Those of them that there are: where runs lie whose own folder could not be written.
pub fn fallback_folders() -> Vec<PathBuf> {
    let bases = fallback_bases().into_iter();
    bases.flat_map(|base| fallbacks_in(&base)).collect()
}

fn fallback_bases() -> [PathBuf; 2] {
    [std::env::temp_dir(), PathBuf::from("/dev/shm")]
}

fn fallback_name() -> String {
    format!("nilo-{}", rustix::process::getuid().as_raw())
}

/// Our private folders in a shared one, the one with the usual name first.
fn fallbacks_in(base: &Path) -> Vec<PathBuf> {
    let usual = fallback_name();
    let begins = format!("{usual}-");
    let Ok(entries) = std::fs::read_dir(base) else {
        return private_folder(base.join(usual)).into_iter().collect();
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name();
            let name = name.to_str()?;
            (name == usual || name.starts_with(&begins)).then(|| entry.path())
        })
        .filter_map(private_folder)
        .collect();
    found.sort();
    found
}

/// Letters that another user cannot guess; `None` where the kernel has none.
fn unforeseen() -> Option<String> {
    let mut bytes = [0; 8];
    let mut random = std::fs::File::open("/dev/urandom").ok()?;
    std::io::Read::read_exact(&mut random, &mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn make_private(path: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path).ok();
}

/// The folder if it is this user's alone.
fn private_folder(path: PathBuf) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(&path).ok()?;
    let ours = metadata.is_dir()
        && metadata.uid() == rustix::process::getuid().as_raw()
        && metadata.mode() & 0o022 == 0;
    ours.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slurm_job_is_known_by_its_environment() {
        let job = |entries: &[(&str, &str)]| {
            let found = slurm_job(|name| {
                let entry = entries.iter().find(|(known, _)| *known == name);
                entry.map(|(_, value)| (*value).to_owned())
            });
            found.map(|job| (job.job_id, job.step_id))
        };
        let id = ("SLURM_JOB_ID", "4711");
        assert_eq!(job(&[id]), Some(("4711".to_owned(), None)));
        let step = ("SLURM_STEP_ID", "0");
        assert_eq!(
            job(&[id, step]),
            Some(("4711".to_owned(), Some("0".to_owned())))
        );
        let external = ("SLURM_STEP_ID", "4294967292");
        assert_eq!(job(&[id, external]), Some(("4711".to_owned(), None)));
        for wrong in ["", "x", "-1"] {
            assert_eq!(job(&[("SLURM_JOB_ID", wrong)]), None);
        }
        assert_eq!(job(&[step]), None);
    }
}
