//! What `nilo runs` lists of a run, and the runs of a job. Of finished runs it is kept beside their files: reading a thousand recordings takes a second.

use nilo_analysis::{is_in_outline, outline};
use nilo_answer::runs::ListedRun;
use nilo_recorder::after_the_fact;
use nilo_runfile::{RunFolder, RunfileError, Validity, unix_nanos};
use nilo_sample::units::NANOS_PER_SEC;
use nilo_sample::{Ending, Recording, RunStatus, Severity, TableSpec};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, warn};
use crate::folder::load_where;
use crate::text::exception::short_type;

/// The file beside the run's others: `listing.derived`.
const FILE: &str = "listing";

/// Who computes what is kept; the last number changes whenever the figures may.
const PROGRAM: &str = concat!("nilo ", env!("CARGO_PKG_VERSION"), " listing 11");

/// What ended a recording that broke off is known by then.
const EXPLAINED_NANOS: u64 = 600 * NANOS_PER_SEC;

/// A line of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunLine {
    pub(crate) figures: ListedRun,
    /// How it ended, in two words.
    pub(crate) short_ending: String,
    pub(crate) severity: Option<Severity>,
}

impl RunLine {
    fn of(recording: &Recording, ending: &Ending) -> RunLine {
        let outline = outline(recording, ending);
        let mut short_ending = outline.short_ending();
        // An exception that says out of memory is told as that, here as in `nilo show`.
        let exception = outline.exception.as_ref();
        if let Some(ended) = exception.filter(|_| !outline.has_run_out()) {
            short_ending += &format!(" ({})", short_type(&ended.exception));
        }
        let figures = ListedRun::of(recording, &outline);
        let mut severity = outline.ending_severity();
        if figures.damaged {
            short_ending += ", damaged";
            severity = severity.max(Some(Severity::Warning));
        }
        RunLine {
            figures,
            short_ending,
            severity,
        }
    }

    /// Whether nothing can change it any more but its files. Of a recording that broke off, the kernel may still tell why.
    fn is_final(&self) -> bool {
        let lasted = (self.figures.duration_secs * NANOS_PER_SEC as f64) as u64;
        let ended = self.figures.started_unix_nanos.saturating_add(lasted);
        match self.figures.status {
            RunStatus::Running => false,
            RunStatus::Lost => unix_nanos().saturating_sub(ended) > EXPLAINED_NANOS,
            _ => true,
        }
    }
}

/// Runs for which another thread is worth its start: fewer take less than a millisecond where they were listed before.
const RUNS_PER_THREAD: usize = 64;

/// Each job with the runs inside it, in their order; several are read at a time.
pub(crate) fn list_jobs(
    folders: Vec<Result<RunFolder, RunfileError>>,
) -> Vec<Result<Vec<RunLine>, Failure>> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(folders.len() / RUNS_PER_THREAD).max(1);
    let share = folders.len().div_ceil(threads).max(1);
    let mut shares: Vec<Vec<_>> = Vec::new();
    let mut folders = folders.into_iter().peekable();
    while folders.peek().is_some() {
        shares.push(folders.by_ref().take(share).collect());
    }
    let list = |share: Vec<Result<RunFolder, RunfileError>>| -> Vec<_> {
        let opened = share.into_iter();
        opened.map(|folder| list_job(&folder?)).collect()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| scope.spawn(move || list(share)))
            .collect();
        let lists = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        lists.flatten().collect()
    })
}

/// A job and the runs inside it.
fn list_job(folder: &RunFolder) -> Result<Vec<RunLine>, Failure> {
    let derived: Result<Vec<RunLine>, Failure> = folder.derive(FILE, PROGRAM, || {
        let (listed, is_complete) = read_job(folder)?;
        let is_final = is_complete && listed.iter().all(RunLine::is_final);
        let validity = match is_final {
            true => Validity::UntilFilesChange,
            false => Validity::Once,
        };
        Ok((listed, validity))
    });
    let mut listed = derived?;
    // Not kept: a folder may be renamed.
    if let Some(job) = listed.first_mut() {
        let name = folder.path().file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        job.figures.folder = Some(name).filter(|name| *name != job.figures.run);
    }
    Ok(listed)
}

/// The same, from the recordings, and whether all of them could be read; what the job recorded is read once for all of them.
fn read_job(folder: &RunFolder) -> Result<(Vec<RunLine>, bool), Failure> {
    let inside = folder.list_runs_inside();
    let is_needed = |spec: &TableSpec| is_in_outline(&spec.subject);
    let (recording, ending) = load_where(folder, &is_needed)?;
    let mut listed = vec![RunLine::of(&recording, &ending)];
    let mut is_complete = true;
    for run in inside {
        let read = run.and_then(|run| Ok((run.load_alone(&|_| false)?, run)));
        let (mut inner, run) = match read {
            Ok(read) => read,
            Err(error) => {
                warn(&Failure::from(error).sentence());
                is_complete = false;
                continue;
            }
        };
        run.add_job(&mut inner, &recording, &is_needed, None);
        let ending = after_the_fact(&inner);
        listed.push(RunLine::of(&inner, &ending));
    }
    Ok((listed, is_complete))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_sample::fixture;

    /// A run that exited, with nothing in it but its description.
    fn finished_run(root: &std::path::Path) -> RunFolder {
        let mut description = fixture::description();
        description.ending = Some(nilo_sample::Ending {
            status: nilo_sample::RunStatus::Exited,
            exit_code: Some(3),
            signal: None,
            time_nanos: 1_500_000_000,
            oom: None,
            left_running: vec![],
            recorder_death: None,
            lost_rank: None,
            gpu_out_of_memory: None,
        });
        RunFolder::create(root, &description).unwrap()
    }

    #[test]
    fn a_finished_run_is_listed_from_what_was_kept() {
        let root = tempfile::tempdir().unwrap();
        let folder = finished_run(root.path());
        let read = list_job(&folder).unwrap();
        assert_eq!(read[0].short_ending, "exited 3, damaged");
        assert_eq!(read[0].severity, Some(Severity::Warning));
        let kept = folder.path().join("listing.derived");
        assert!(kept.exists());
        assert_eq!(list_job(&folder).unwrap(), read);
        // Another content that fits the files is what is listed: the recording is not read.
        let mut told = read.clone();
        told[0].figures.mean_bytes = Some(12_345);
        let state = folder.files_state(PROGRAM).unwrap();
        folder.write_derived(FILE, state, &serde_json::to_vec(&told).unwrap());
        assert_eq!(list_job(&folder).unwrap(), told);
        // A file that changed, and what is no listing at all, are read anew.
        std::fs::write(folder.path().join("marks.nilo"), []).unwrap();
        assert_eq!(list_job(&folder).unwrap(), read);
        std::fs::write(&kept, b"NILODRV\nhostile").unwrap();
        assert_eq!(list_job(&folder).unwrap(), read);
        let state = folder.files_state(PROGRAM).unwrap();
        folder.write_derived(FILE, state, br#"[{"figures": 3}]"#);
        assert_eq!(list_job(&folder).unwrap(), read);
    }

    #[test]
    fn a_recording_that_has_just_broken_off_may_still_be_explained() {
        let root = tempfile::tempdir().unwrap();
        let folder = finished_run(root.path());
        let mut line = list_job(&folder).unwrap().remove(0);
        assert!(line.is_final());
        line.figures.status = RunStatus::Lost;
        assert!(line.is_final(), "it began in 1970");
        line.figures.started_unix_nanos = unix_nanos();
        assert!(!line.is_final());
    }

    #[test]
    fn a_run_that_is_still_running_is_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let description =
            nilo_recorder::describe_run(nilo_sample::RunMode::Run, vec![], "x", Default::default());
        let folder = RunFolder::create(root.path(), &description).unwrap();
        assert_eq!(
            list_job(&folder).unwrap()[0].figures.status,
            RunStatus::Running
        );
        assert!(!folder.path().join("listing.derived").exists());
    }

    #[test]
    fn a_folder_that_keeps_nothing_is_listed_all_the_same() {
        let root = tempfile::tempdir().unwrap();
        let folder = finished_run(root.path());
        let read = list_job(&folder).unwrap();
        let kept = folder.path().join("listing.derived");
        std::fs::remove_file(&kept).unwrap();
        std::fs::create_dir(&kept).unwrap();
        for _ in 0..2 {
            assert_eq!(list_job(&folder).unwrap(), read);
        }
        std::fs::remove_dir(&kept).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &kept).unwrap();
        assert_eq!(list_job(&folder).unwrap(), read);
        assert!(!kept.is_symlink(), "replaced, not written through");
    }

    #[test]
    fn many_runs_are_listed_in_their_order_on_several_threads() {
        let root = tempfile::tempdir().unwrap();
        let mut description = fixture::description();
        let names: Vec<String> = (0..3 * RUNS_PER_THREAD)
            .map(|it| format!("run-{it:03}"))
            .collect();
        for name in &names {
            description.id = name.parse().unwrap();
            RunFolder::create(root.path(), &description).unwrap();
        }
        std::fs::write(root.path().join("run-100/run.json"), "{").unwrap();
        let listed = list_jobs(nilo_runfile::list_runs(root.path()));
        assert_eq!(listed.len(), names.len());
        for (index, (job, name)) in listed.iter().zip(&names).enumerate() {
            match job {
                Ok(runs) => assert_eq!(runs[0].figures.run, *name),
                Err(_) => assert_eq!(index, 100),
            }
        }
        assert!(listed[100].is_err());
        assert!(list_jobs(vec![]).is_empty());
    }

    #[test]
    fn a_job_with_a_broken_run_inside_warns_each_time() {
        let root = tempfile::tempdir().unwrap();
        let folder = finished_run(root.path());
        let inside = folder.path().join("runs/broken");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("run.json"), "{").unwrap();
        assert_eq!(list_job(&folder).unwrap().len(), 1);
        assert!(!folder.path().join("listing.derived").exists());
    }
}
