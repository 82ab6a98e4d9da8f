//! The place of a run in a Slurm cluster, as its cgroups tell it, or `SLURM_JOB_ID` where they do not: `/slurm_node7/uid_0/job_3/step_0/task_0`,
//! or `/system.slice/slurmstepd.scope/job_3/step_batch/user/task_0` in version 2.

use nilo_sample::{LimitSource, Recording, Subject};
use schemars::JsonSchema;
use serde::Serialize;

/// A job and a step of it.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SlurmPlace {
    /// The job's number, as `JobIDRaw` in `sacct`.
    pub job: String,
    /// The step: `0`, `batch`, `extern`.
    pub step: Option<String>,
}

impl SlurmPlace {
    /// The place of a recorded run; `None` outside of Slurm.
    pub fn of_recording(recording: &Recording) -> Option<SlurmPlace> {
        // Cgroups are where the processes were; the environment is that of whoever started the recording.
        SlurmPlace::of_cgroups(recording).or_else(|| {
            let slurm = recording.description.slurm.as_ref()?;
            Some(SlurmPlace {
                job: slurm.job_id.clone(),
                step: slurm.step_id.clone(),
            })
        })
    }

    fn of_cgroups(recording: &Recording) -> Option<SlurmPlace> {
        let limit = recording.description.limit.as_ref();
        let of_limit = limit.and_then(|limit| match &limit.source {
            LimitSource::Cgroup { path, .. } => SlurmPlace::of_path(path),
            _ => None,
        });
        let of_tables = recording
            .tables
            .iter()
            .filter_map(|table| match &table.spec.subject {
                Subject::Cgroup { path } => SlurmPlace::of_path(path),
                _ => None,
            });
        // The limit may sit on the job, above the step.
        let mut places = of_limit.into_iter().chain(of_tables);
        let first = places.next()?;
        match first.step {
            Some(_) => Some(first),
            None => places
                .find(|place| place.job == first.job && place.step.is_some())
                .or(Some(first)),
        }
    }

    fn of_path(path: &str) -> Option<SlurmPlace> {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        parts.find(|part| part.starts_with("slurm"))?;
        let job = parts.find_map(|part| part.strip_prefix("job_"))?;
        let is_number = !job.is_empty() && job.bytes().all(|b| b.is_ascii_digit());
        let step = parts.find_map(|part| part.strip_prefix("step_"));
        is_number.then(|| SlurmPlace {
            job: job.to_owned(),
            step: step.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_believed_where_cgroups_say_nothing() {
        let mut recording = nilo_sample::fixture::recording();
        assert_eq!(SlurmPlace::of_recording(&recording), None);
        recording.description.slurm = Some(nilo_sample::SlurmJobId {
            job_id: "4711".to_owned(),
            step_id: Some("0".to_owned()),
        });
        let place = SlurmPlace::of_recording(&recording).unwrap();
        assert_eq!(
            (place.job.as_str(), place.step.as_deref()),
            ("4711", Some("0"))
        );
    }

    #[test]
    fn paths_of_both_versions_are_known() {
        let place = |path: &str| SlurmPlace::of_path(path).map(|place| (place.job, place.step));
        let found = |job: &str, step: Option<&str>| Some((job.to_owned(), step.map(str::to_owned)));
        assert_eq!(
            place("/slurm_vm/uid_0/job_1/step_0/task_0"),
            found("1", Some("0"))
        );
        assert_eq!(place("/slurm/uid_0/job_42"), found("42", None));
        assert_eq!(
            place("/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0"),
            found("7", Some("batch"))
        );
        for path in ["/", "", "/user.slice/job_3", "/slurm/job_x", "/slurm/uid_0"] {
            assert_eq!(place(path), None, "{path}");
        }
    }
}
