//! `nilo request`: the memory to ask a scheduler for.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use nilo_analysis::{is_in_outline, summarize};
use nilo_answer::request::RequestAnswer;
use nilo_recorder::own_slurm_job;
use nilo_request::slurm::{SlurmJob, compare_with_slurm, parse_sacct};
use nilo_request::{PlannedRun, RequestError, RunFacts, facts_of, fingerprint, request};
use nilo_runfile::RunFolder;
use nilo_runfile::find::readable_runs;
use nilo_sample::units::to_secs;
use nilo_sample::{RunDescription, RunMode, Subject, TableSpec};

use crate::args::{RequestArgs, TextOrJson};
use crate::damaged_run::warn_of_damage;
use crate::failure::{Failure, note, warn};
use crate::folder::{existing_root, find_run, load_where};
use crate::screen::Screen;
use crate::settings::Settings;
use crate::text::json::write_json;
use crate::text::request::write_request;
use crate::wrap::WrappingWriter;

/// A listing of a year of jobs is a tenth of this.
const LARGEST_LISTING_BYTES: u64 = 64 << 20;

pub(crate) fn run(args: RequestArgs, settings: &Settings) -> Result<u8, Failure> {
    let root = existing_root(&args.place, settings)?;
    let jobs = args.sacct.as_deref().map(read_listing).transpose()?;
    let mut runs = Vec::new();
    for folder in named_runs(&args, &root)? {
        refuse_machine(&folder)?;
        add_facts(&mut runs, &folder, settings)?;
    }
    let others = match args.all && args.mix {
        true => others(&root, &runs),
        false => others_of_the_job(&root, &runs),
    };
    if args.all {
        let job = runs.first().map(|first: &RunFacts| first.job.clone());
        let named = runs.len();
        for (folder, _) in &others {
            add_facts(&mut runs, folder, settings)?;
        }
        // The settings that a program logged are known only from here on. What was named stays: of several jobs it is refused.
        let found = runs.split_off(named);
        let belongs = |run: &RunFacts| args.mix || Some(&run.job) == job.as_ref();
        runs.extend(found.into_iter().filter(belongs));
        runs.sort_by(|a, b| a.run.cmp(&b.run));
    } else if !others.is_empty() && args.format == TextOrJson::Text {
        let count = others.len();
        let more = if count == 1 {
            "run of the same command is"
        } else {
            "runs of the same command are"
        };
        note(&format!("{count} more {more} here; --all includes them"));
    }
    let plan = PlannedRun {
        planned_secs: args.time.map(to_secs),
        cpus: args.cpus,
        gpus: args.gpus,
        mix: args.mix,
    };
    let request = request(runs, &plan).map_err(as_failure)?;
    let accounts = match &jobs {
        Some(jobs) => compare_with_slurm(&request.runs, jobs),
        None => Vec::new(),
    };
    if jobs.is_some() && accounts.is_empty() {
        warn("none of these runs' job IDs appear in the sacct output");
    }
    let mut out = std::io::stdout().lock();
    match args.format {
        TextOrJson::Json => {
            let answer = RequestAnswer {
                request,
                slurm_account: accounts,
            };
            write_json(&mut out, &answer)?;
        }
        TextOrJson::Text => {
            let mut out = WrappingWriter::new(out, Screen::stdout());
            write_request(&mut out, &request, &plan, &accounts)?;
        }
    }
    Ok(0)
}

/// The runs that the user named one by one, by name and by tag; without any of these the last, of this Slurm job where we are in one.
fn named_runs(args: &RequestArgs, root: &Path) -> Result<Vec<RunFolder>, Failure> {
    let mut folders = Vec::new();
    for asked in &args.runs {
        folders.push(find_run(root, Some(asked))?);
    }
    let has_tags = |run: &RunDescription| {
        let mut tags = args.tags.iter();
        !args.tags.is_empty() && tags.all(|(key, value)| run.tags.get(key) == Some(value))
    };
    let has_name = |run: &RunDescription| args.name.is_some() && run.name == args.name;
    if args.name.is_some() || !args.tags.is_empty() {
        let found = readable_runs(root)
            .into_iter()
            .filter(|(_, run)| has_name(run) || has_tags(run))
            .map(|(folder, _)| folder);
        folders.extend(found);
        if folders.is_empty() {
            return Err(
                Failure::new("no run has this name or these tags").hint("`nilo runs` lists them")
            );
        }
    }
    if folders.is_empty() {
        let last = last_of_own_slurm_job(root);
        folders.push(last.map_or_else(|| find_run(root, None), Ok)?);
    }
    Ok(folders)
}

/// A look at the machine has no job that could be asked for memory.
fn refuse_machine(folder: &RunFolder) -> Result<(), Failure> {
    let description = folder.describe()?;
    match description.mode {
        RunMode::Machine => Err(Failure::new(format!(
            "{} is a recording of the machine, not of a job",
            description.id
        ))
        .hint("name a run that was recorded with `nilo run` or `nilo watch`")),
        _ => Ok(()),
    }
}

/// The last run that was recorded in the Slurm job that we are in.
fn last_of_own_slurm_job(root: &Path) -> Option<RunFolder> {
    let own = own_slurm_job()?;
    let of_job =
        |run: &RunDescription| run.slurm.as_ref().map(|slurm| &slurm.job_id) == Some(&own.job_id);
    let runs = readable_runs(root)
        .into_iter()
        .filter(|(_, run)| of_job(run));
    let last = runs.max_by(|(_, a), (_, b)| a.id.cmp(&b.id));
    last.map(|(folder, _)| folder)
}

/// Reads a run and adds what it tells, unless it is among them already.
fn add_facts(
    runs: &mut Vec<RunFacts>,
    folder: &RunFolder,
    settings: &Settings,
) -> Result<(), Failure> {
    let needed = |spec: &TableSpec| {
        is_in_outline(&spec.subject) || matches!(spec.subject, Subject::TorchMemory { .. })
    };
    let (recording, ending) = load_where(folder, &needed)?;
    let facts = facts_of(&recording, ending.status, &summarize(&recording, &ending));
    if !runs.iter().any(|known| known.run == facts.run) {
        warn_of_damage(&recording, folder, settings);
        runs.push(facts);
    }
    Ok(())
}

/// Further runs in the folder, of whatever job.
fn others(root: &Path, runs: &[RunFacts]) -> Vec<(RunFolder, RunDescription)> {
    let known = |id: &str| runs.iter().any(|run| run.run == id);
    let mut all = readable_runs(root);
    all.retain(|(_, run)| !known(run.id.as_str()) && run.mode != RunMode::Machine);
    all
}

/// Further runs in the folder whose command is that of the first.
fn others_of_the_job(root: &Path, runs: &[RunFacts]) -> Vec<(RunFolder, RunDescription)> {
    let of_command = |run: &RunDescription| fingerprint(&run.command, &BTreeMap::new());
    let mut all = readable_runs(root);
    let known = |id: &str| runs.iter().any(|run| run.run == id);
    let first = runs.first().map(|run| run.run.clone());
    let command = all
        .iter()
        .find(|(_, run)| Some(run.id.as_str()) == first.as_deref())
        .map(|(_, run)| of_command(run));
    let Some(command) = command else {
        return Vec::new();
    };
    all.retain(|(_, run)| !known(run.id.as_str()) && of_command(run) == command);
    all
}

/// Jobs of a listing in a file, or on standard input.
fn read_listing(path: &Path) -> Result<Vec<SlurmJob>, Failure> {
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin()
            .take(LARGEST_LISTING_BYTES)
            .read_to_end(&mut bytes),
        _ => std::fs::File::open(path)
            .and_then(|file| file.take(LARGEST_LISTING_BYTES).read_to_end(&mut bytes)),
    };
    read.map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))?;
    let text = String::from_utf8_lossy(&bytes);
    parse_sacct(&text).map_err(|error| Failure::new(&error).hint(error.hint()))
}

fn as_failure(error: RequestError) -> Failure {
    let hint = match &error {
        RequestError::DifferentJobs { .. } => {
            "name runs of one job, or take them as one with --mix"
        }
        RequestError::NothingMeasured { .. } => "record one with `nilo run -- COMMAND`",
    };
    Failure::new(&error).hint(hint)
}
