//! Runs inside a job: one training of several below one recorder.
//!
//! Such a run has a folder of its own in `runs/` of the job's folder, with its own `run.json` and streams. It has no recorder:
//! its memory is the job's, for its time and its processes ([`crate::part_of_job`]).
//! A job with a single run inside is read together with it, since the two are one training to its user,
//! unless several programs logged in it, or metrics were logged to the job itself: those are another training's.

use std::path::Path;

use nilo_sample::{
    Event, ProcessId, Recording, RunDescription, RunMode, Subject, TableSpec, TimedEvent,
};

use crate::collect::RowsWanted;
use crate::error::RunfileError;
use crate::folder::{Access, RunFolder, list_runs};
use crate::load;
use crate::names::{self, SEVERAL_PROGRAMS};
use crate::part_of_job::{has_lost_samples, part_of_job};
use crate::read_stacks::add_stacks;

/// What programs told of their own memory completes what the job recorded; where nothing of that is left, it would pass for the run's, children included.
fn forget_told_marks(run: &mut Recording) {
    let is_mark = |event: &Event| matches!(event, Event::HighWater { .. });
    run.events.retain(|timed| !is_mark(&timed.event));
}

/// The folder inside a job's folder that holds its runs.
pub(crate) const RUNS: &str = "runs";

impl RunFolder {
    /// Makes the folder of a run inside this job.
    pub fn create_inside(
        &self,
        access: Access,
        description: &RunDescription,
    ) -> Result<RunFolder, RunfileError> {
        RunFolder::create_for(access, &self.path().join(RUNS), description)
    }

    /// The job that this run lies in.
    pub fn job(&self) -> Option<RunFolder> {
        self.try_job()?.ok()
    }

    /// The same; an error where the run lies in a job that cannot be opened.
    fn try_job(&self) -> Option<Result<RunFolder, RunfileError>> {
        let path = std::path::absolute(self.path()).ok()?;
        let runs = path.parent().filter(|runs| runs.ends_with(RUNS))?;
        let opened = RunFolder::open(runs.parent()?);
        // A folder of runs may have any name.
        let is_inside = opened.is_ok() || self.describe().is_ok_and(|told| told.parent.is_some());
        is_inside.then_some(opened)
    }

    /// The runs inside this job, by id.
    pub fn runs_inside(&self) -> Vec<RunFolder> {
        runs_inside(self.path())
    }

    /// The same; one that cannot be opened is an error in its place.
    pub fn list_runs_inside(&self) -> Vec<Result<RunFolder, RunfileError>> {
        list_runs_inside(self.path())
    }

    /// The single run of this job, which is read and shown together with it.
    ///
    /// A program that recorded itself has a run of its own already; one of several runs stays one when the others are damaged.
    /// Where several programs logged, what lies in the job itself is another program's than the run;
    /// and what a program logs without beginning a run is the job's own, whatever run it begins besides.
    pub fn only_run(&self, description: &RunDescription) -> Option<RunFolder> {
        let mut inside = list_runs_inside(self.path());
        let is_of_several = || self.path().join(SEVERAL_PROGRAMS).exists();
        let is_one = inside.len() == 1
            && description.mode != RunMode::Python
            && !is_of_several()
            && !self.was_logged_to();
        is_one.then(|| inside.pop()?.ok()).flatten()
    }

    /// Whether a program logged to this run itself.
    fn was_logged_to(&self) -> bool {
        let files = names::list(self.path()).unwrap_or_default();
        let mut writers = files.streams.keys();
        let is_logged = |spec: &TableSpec| {
            use Subject::{Metrics, Phase, Throughput};
            matches!(
                spec.subject,
                Metrics { .. } | Phase { .. } | Throughput { .. }
            )
        };
        let has_rows = |own: Recording| own.tables.iter().any(|table| !table.times.is_empty());
        // The recorder's own stream is long, and needs no look.
        writers.any(|writer| !names::is_recorder(writer))
            && self.load_alone(&is_logged).is_ok_and(has_rows)
    }

    /// Reads what this run itself wrote, without its job.
    pub fn load_alone(&self, keep: &dyn Fn(&TableSpec) -> bool) -> Result<Recording, RunfileError> {
        load::load(self.path(), self.describe()?, keep, RowsWanted::All)
    }

    pub(crate) fn load_related(
        &self,
        keep: &dyn Fn(&TableSpec) -> bool,
        wanted: RowsWanted<'_>,
    ) -> Result<Recording, RunfileError> {
        let description = self.describe()?;
        let mut recording = load::load(self.path(), description, keep, wanted)?;
        match self.try_job() {
            Some(job) => {
                let needed = |spec: &TableSpec| needed_of_job(spec, keep);
                let column = match wanted {
                    RowsWanted::Column(column) => Some(column),
                    _ => None,
                };
                // The run's curve is a sum over rows of the same time: there have to be all.
                let all = RowsWanted::All;
                let of_job =
                    job.and_then(|job| load::load(job.path(), job.describe()?, &needed, all));
                match of_job {
                    Ok(of_job) => self.add_job(&mut recording, &of_job, keep, column),
                    Err(error) => {
                        let mut why = Vec::new();
                        load::complain(&mut why, &error);
                        let told = why
                            .iter()
                            .map(|why| format!("its job cannot be read: {why}"));
                        recording.damage.extend(told);
                        forget_told_marks(&mut recording);
                    }
                }
            }
            None => self.add_runs(&mut recording, keep, wanted),
        }
        Ok(recording)
    }

    /// Adds to a run what its job recorded of it; `of_job` may serve many runs.
    pub fn add_job(
        &self,
        recording: &mut Recording,
        of_job: &Recording,
        keep: &dyn Fn(&TableSpec) -> bool,
        column: Option<&str>,
    ) {
        recording.is_job_open = !has_end(of_job);
        let mut part = part_of_job(recording, of_job, &self.writers(&recording.description));
        if has_lost_samples(of_job) {
            forget_told_marks(recording);
        }
        let until = &mut recording.written_until_nanos;
        *until = part.until_nanos.max(*until);
        part.tables.retain(|table| keep(&table.spec));
        if let Some(column) = column {
            part.tables.retain_mut(|table| {
                let Some(index) = table.spec.column(column) else {
                    return false;
                };
                table.spec.columns = vec![table.spec.columns.swap_remove(index)];
                table.columns = vec![table.columns.swap_remove(index)];
                true
            });
        }
        add_stacks(&mut recording.stacks, &of_job.stacks, &mut part.tables);
        recording.tables.append(&mut part.tables);
        recording.events.append(&mut part.events);
        recording.damage.extend_from_slice(&of_job.damage);
        recording.events.sort_by_key(|event| event.time_nanos);
        let description = &mut recording.description;
        if description.limit.is_none() {
            description.limit.clone_from(&of_job.description.limit);
        }
        if description.interval_nanos == 0 {
            description.interval_nanos = of_job.description.interval_nanos;
        }
    }

    /// Adds the only run inside a job to it; of several runs, just how their programs crashed.
    fn add_runs(
        &self,
        recording: &mut Recording,
        keep: &dyn Fn(&TableSpec) -> bool,
        wanted: RowsWanted<'_>,
    ) {
        if let Some(only) = self.only_run(&recording.description) {
            let of_job = recording.description.clone();
            let told = only.describe();
            let own = told.as_ref().unwrap_or(&of_job).clone();
            if let Ok(mut inner) = load::load_inside(only.path(), &own, of_job, keep, wanted) {
                for table in &mut inner.tables {
                    table.writer = inner_writer(only.path(), &table.writer);
                }
                add_stacks(&mut recording.stacks, &inner.stacks, &mut inner.tables);
                recording.tables.append(&mut inner.tables);
                recording.events.append(&mut inner.events);
                recording.damage.append(&mut inner.damage);
                recording.ranks.append(&mut inner.ranks);
                let until = &mut recording.written_until_nanos;
                *until = inner.written_until_nanos.max(*until);
                let thinned = &mut recording.thinned_nanos;
                *thinned = inner.thinned_nanos.max(*thinned);
                recording.dropped_rows += inner.dropped_rows;
                recording.dropped_program_rows += inner.dropped_program_rows;
            }
            if let Ok(told) = told {
                let description = &mut recording.description;
                description.name = description.name.take().or(told.name);
                description.resumes = description.resumes.take().or(told.resumes);
                for (key, value) in told.tags {
                    description.tags.entry(key).or_insert(value);
                }
            }
        } else {
            for run in self.runs_inside() {
                let events = load::load_marks(run.path(), &recording.description).into_iter();
                let crashes = events.filter(|event| matches!(event.event, Event::Exception(_)));
                recording.events.extend(crashes);
            }
        }
        recording.events.sort_by_key(|event| event.time_nanos);
    }
}

/// Whether a job's recorder said that it was over.
fn has_end(job: &Recording) -> bool {
    let is_end = |event: &TimedEvent| matches!(event.event, Event::CommandEnded { .. });
    job.description.ending.is_some() || job.events.iter().any(is_end)
}

/// The runs inside the job of a folder.
pub(crate) fn runs_inside(job: &Path) -> Vec<RunFolder> {
    let found = list_runs_inside(job).into_iter();
    found.filter_map(Result::ok).collect()
}

/// A link is none of them: it may lead to the job itself.
fn list_runs_inside(job: &Path) -> Vec<Result<RunFolder, RunfileError>> {
    list_runs(&job.join(RUNS))
}

/// What a run needs of its job for the tables that are wanted: its curve is made of those of its processes.
fn needed_of_job(spec: &TableSpec, keep: &dyn Fn(&TableSpec) -> bool) -> bool {
    match spec.subject {
        // Its ticks say which values held in the run's time.
        Subject::Tree => {
            let process = ProcessId {
                pid: 0,
                start_ticks: 0,
            };
            keep(spec) || keep(&TableSpec::process(process)) || keep(&TableSpec::host())
        }
        Subject::Process(_) | Subject::ProcessDetail(_) => keep(&TableSpec::tree()) || keep(spec),
        Subject::Metrics { .. }
        | Subject::Phase { .. }
        | Subject::Throughput { .. }
        | Subject::TorchMemory { .. } => false,
        _ => keep(spec),
    }
}

/// A writer's name among those of the job.
pub(crate) fn inner_writer(run: &Path, writer: &str) -> String {
    let id = run.file_name().unwrap_or_default().to_string_lossy();
    format!("{RUNS}/{id}/{writer}")
}
