//! The recorder died before the run was over: where the recording stops, nothing happened to the job that anybody knows of.

use nilo_sample::units::to_secs;
use nilo_sample::words::duration_in_words;
use nilo_sample::{RecorderDeath, Severity};

use super::{Finding, FindingKind, JudgedRecording};

pub(super) fn find(seen: &JudgedRecording<'_>) -> Option<Finding> {
    let death = seen.ending.recorder_death.as_ref()?;
    Some(Finding {
        kind: FindingKind::RecorderDied,
        severity: Severity::Warning,
        text: format!(
            "nilo itself (PID {}) {}: the recording stops after {}, and the real peak may be higher",
            death.pid,
            how(death),
            duration_in_words(to_secs(death.recorded_until_nanos))
        ),
        evidence: vec![known(death).to_owned()],
        advice: Vec::new(),
    })
}

fn how(death: &RecorderDeath) -> &'static str {
    match death.oom_killed {
        Some(true) => "was killed by the kernel for lack of memory",
        _ => "was killed or crashed before the run was over",
    }
}

fn known(death: &RecorderDeath) -> &'static str {
    match death.oom_killed {
        Some(true) => "the kernel's log names it as the victim of an OOM kill",
        Some(false) => {
            "its process is gone, it did not record the end of the run, and the kernel's log names no OOM kill of it"
        }
        None => {
            "its process is gone and did not record the end of the run; the kernel's log of that time cannot be read, so whether it was an OOM kill is not known"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SECOND, ending, find};
    use crate::findings::FindingKind;
    use nilo_sample::{Ending, RecorderDeath, RunStatus, fixture};

    #[test]
    fn what_ended_the_recorder_is_told_as_far_as_it_is_known() {
        let told = |oom_killed| {
            let ending = Ending {
                status: RunStatus::Lost,
                exit_code: None,
                lost_rank: None,
                gpu_out_of_memory: None,
                recorder_death: Some(RecorderDeath {
                    pid: 4,
                    recorded_until_nanos: 3 * SECOND,
                    oom_killed,
                }),
                ..ending(3)
            };
            let found = find(&fixture::recording(), &ending);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].kind, FindingKind::RecorderDied);
            (found[0].text.clone(), found[0].evidence.join("\n"))
        };
        let (text, evidence) = told(Some(true));
        assert!(
            text.contains("(PID 4) was killed by the kernel for lack of memory"),
            "{text}"
        );
        assert!(
            text.contains("the recording stops after 3 seconds"),
            "{text}"
        );
        assert!(evidence.contains("names it as the victim"), "{evidence}");
        let (text, evidence) = told(None);
        assert!(!text.contains("lack of memory"), "{text}");
        assert!(
            evidence.contains("whether it was an OOM kill is not known"),
            "{evidence}"
        );
        let (_, evidence) = told(Some(false));
        assert!(evidence.contains("names no OOM kill of it"), "{evidence}");
    }
}
