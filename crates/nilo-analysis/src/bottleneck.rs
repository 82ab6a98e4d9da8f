//! Which part of the training step takes the time, and what to do about it.
//!
//! Phases are known by the last part of their names (`step/forward` is a forward pass), as `nilometer.torch.watch`, the callbacks
//! and most training loops call them. Shares are of the time of the training step, so that imports and evaluation do not hide a slow loader:
//! known parts, and all of each phase that runs as often as the parts inside it, whether its parts were timed or not.

use schemars::JsonSchema;
use serde::Serialize;

/// Waiting for data is waste: worth a word from this share on. With enough workers a loader takes a few percent.
const SLOW_DATA_SHARE: f64 = 0.2;
/// An optimizer reads and writes each parameter a few times, while both passes read it once for each sample; a tenth is usual.
const SLOW_OPTIMIZER_SHARE: f64 = 0.25;

/// A part of the training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepPart {
    /// Getting the next batch.
    Data,
    /// From the batch to the loss.
    Forward,
    /// Gradients.
    Backward,
    /// Changing the parameters.
    Optimizer,
}

impl StepPart {
    /// As it is written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            StepPart::Data => "data",
            StepPart::Forward => "forward",
            StepPart::Backward => "backward",
            StepPart::Optimizer => "optimizer",
        }
    }

    /// The part that a phase's name means; `None` for any other phase.
    fn of_phase(name: &str) -> Option<StepPart> {
        let last = name.rsplit('/').next().unwrap_or(name);
        let last = last.to_ascii_lowercase().replace(['-', ' '], "_");
        Some(match last.as_str() {
            "data" | "dataloader" | "data_loader" | "data_loading" | "data_load" | "load_data"
            | "load_batch" | "get_batch" | "next_batch" | "fetch" | "data_fetch" => StepPart::Data,
            "forward" | "fwd" | "forward_pass" => StepPart::Forward,
            "backward" | "bwd" | "backward_pass" | "backprop" => StepPart::Backward,
            "optimizer" | "optimizer_step" | "optim" | "optim_step" | "opt_step" => {
                StepPart::Optimizer
            }
            _ => return None,
        })
    }

    fn advice(self) -> &'static [&'static str] {
        match self {
            StepPart::Data => &[
                "Use more DataLoader workers (num_workers), with persistent_workers=True and pin_memory=True",
                "Do the preprocessing once, before training, or store the data in a format that is quicker to read",
            ],
            StepPart::Forward => &[
                "Use mixed precision (torch.autocast) and torch.compile",
                "Use a smaller model or shorter sequences",
            ],
            StepPart::Backward => &[
                "Use mixed precision (torch.autocast)",
                "Gradient checkpointing computes the forward pass again here: turn it off if memory allows, or use the memory that it saves for a larger batch",
                "Freeze layers that need no training, or train adapters (LoRA)",
            ],
            StepPart::Optimizer => &[
                "Use the fused optimizer (fused=True)",
                "Accumulate the gradients of several batches for each step",
            ],
        }
    }
}

/// The part of the step to look at first.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct Bottleneck {
    /// Which part.
    pub part: StepPart,
    /// The phase, by its full name; the longest one where several mean the same part.
    pub phase: String,
    /// Share of the time of the training step.
    pub share_ratio: f64,
    /// One sentence.
    pub text: String,
    /// What to do about it, the first thing first.
    pub advice: Vec<&'static str>,
}

/// A phase with all its time.
#[derive(Debug, Clone, Copy)]
pub struct TimedPhase<'a> {
    /// Its name in full; one inside another is `outer/inner`.
    pub name: &'a str,
    /// All its durations together.
    pub total_secs: f64,
    /// How often it ran.
    pub count: u64,
}

impl TimedPhase<'_> {
    fn is_within(&self, outer: &TimedPhase<'_>) -> bool {
        let rest = self.name.strip_prefix(outer.name);
        rest.is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether it is called what training loops call the whole step, or the step without getting its data.
    fn is_called_step(&self) -> bool {
        let last = self.name.rsplit('/').next().unwrap_or(self.name);
        let last = last.to_ascii_lowercase().replace(['-', ' '], "_");
        matches!(
            last.as_str(),
            "step" | "train_step" | "training_step" | "iteration"
        )
    }

    /// Whether it encloses parts of the step and is no more than the step, as an epoch is.
    fn is_step_around(&self, parts: &[(StepPart, TimedPhase<'_>)]) -> bool {
        let inside = parts.iter().filter(|(_, part)| part.is_within(self));
        // The part that runs least often, such as an optimizer that steps after several batches, runs once in a step.
        let least = inside.map(|(_, part)| part.count).min();
        least.is_some_and(|least| self.count.saturating_mul(2) > least)
    }
}

/// Finds it among phases; `None` where fewer than two parts of a step were timed, or where none of them is what takes the time.
pub fn find_bottleneck<'a>(phases: impl IntoIterator<Item = TimedPhase<'a>>) -> Option<Bottleneck> {
    let phases: Vec<TimedPhase<'_>> = phases
        .into_iter()
        .filter(|phase| phase.total_secs.is_finite() && phase.total_secs > 0.0)
        .collect();
    let known: Vec<(StepPart, TimedPhase<'_>)> = phases
        .iter()
        .filter_map(|phase| Some((StepPart::of_phase(phase.name)?, *phase)))
        .collect();
    // A phase within another known one is in that one's time already.
    let parts: Vec<(StepPart, TimedPhase<'_>)> = known
        .iter()
        .filter(|(_, phase)| !known.iter().any(|(_, outer)| phase.is_within(outer)))
        .copied()
        .collect();
    let steps: Vec<&TimedPhase<'_>> = phases
        .iter()
        .filter(|phase| StepPart::of_phase(phase.name).is_none())
        .filter(|phase| phase.is_called_step() || phase.is_step_around(&parts))
        .collect();
    let is_in_step = |phase: &TimedPhase<'_>| steps.iter().any(|step| phase.is_within(step));
    let outermost_steps = steps.iter().filter(|step| !is_in_step(step));
    let loose_parts = parts.iter().filter(|(_, phase)| !is_in_step(phase));
    let all = outermost_steps.map(|step| step.total_secs).sum::<f64>()
        + loose_parts.map(|(_, phase)| phase.total_secs).sum::<f64>();

    let share = |part: StepPart| {
        let of_part = parts.iter().filter(|(known, _)| *known == part);
        of_part.map(|(_, phase)| phase.total_secs).sum::<f64>() / all
    };
    let kinds = [
        StepPart::Data,
        StepPart::Forward,
        StepPart::Backward,
        StepPart::Optimizer,
    ];
    let timed = kinds.iter().filter(|part| share(**part) > 0.0).count();
    // What is left of the step was timed too, though nobody said what it is.
    let rest = 1.0 - kinds.iter().map(|part| share(*part)).sum::<f64>();
    if timed == 0 || timed == 1 && steps.is_empty() {
        return None;
    }
    let longest = kinds
        .into_iter()
        .max_by(|a, b| share(*a).total_cmp(&share(*b)))?;
    let part = match longest {
        _ if share(StepPart::Data) >= SLOW_DATA_SHARE => StepPart::Data,
        _ if share(StepPart::Optimizer) >= SLOW_OPTIMIZER_SHARE => StepPart::Optimizer,
        longest if share(longest) > rest => longest,
        _ => return None,
    };
    let of_part = parts.iter().filter(|(known, _)| *known == part);
    let (_, phase) = of_part.max_by(|a, b| a.1.total_secs.total_cmp(&b.1.total_secs))?;
    let share_ratio = share(part);
    Some(Bottleneck {
        part,
        phase: phase.name.to_owned(),
        share_ratio,
        text: sentence(part, phase.name, share_ratio),
        advice: part.advice().to_vec(),
    })
}

fn sentence(part: StepPart, phase: &str, share_ratio: f64) -> String {
    let percent = 100.0 * share_ratio;
    match part {
        StepPart::Data => {
            format!("`{phase}` takes {percent:.0} % of the step: training waits for data")
        }
        _ => format!("`{phase}` takes {percent:.0} % of the step"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Phases that ran 100 times each.
    fn timed<'a>(phases: &[(&'a str, f64)]) -> Vec<TimedPhase<'a>> {
        let each = phases.iter().map(|(name, total_secs)| TimedPhase {
            name,
            total_secs: *total_secs,
            count: 100,
        });
        each.collect()
    }

    fn part(phases: &[(&str, f64)]) -> Option<(StepPart, f64)> {
        let found = find_bottleneck(timed(phases))?;
        Some((found.part, found.share_ratio))
    }

    #[test]
    fn each_part_can_be_the_slow_one() {
        for (phases, expected) in [
            ([3.0, 2.0, 4.0, 0.5], StepPart::Data),
            ([0.1, 5.0, 2.0, 0.5], StepPart::Forward),
            ([0.1, 2.0, 4.0, 0.5], StepPart::Backward),
            ([0.1, 2.0, 4.0, 3.0], StepPart::Optimizer),
        ] {
            let [data, forward, backward, optimizer] = phases;
            let found = find_bottleneck(timed(&[
                ("data", data),
                ("step/forward", forward),
                ("step/backward", backward),
                ("step/optimizer", optimizer),
                ("step", forward + backward + optimizer),
                ("evaluation", 100.0),
            ]))
            .unwrap();
            assert_eq!(found.part, expected);
            assert!(!found.advice.is_empty());
        }
    }

    #[test]
    fn all_of_a_step_counts_when_some_of_its_parts_were_timed() {
        // A Hugging Face Trainer: nothing says where the step's time goes, and it is not the data.
        let trainer = [("data", 1.0), ("step", 21.0), ("step/optimizer", 1.0)];
        assert_eq!(part(&trainer), None);
        let slow_data = [("data", 9.0), ("step", 21.0), ("step/optimizer", 1.0)];
        assert_eq!(part(&slow_data), Some((StepPart::Data, 0.3)));
        let slow_optimizer = [("data", 1.0), ("step", 19.0), ("step/optimizer", 10.0)];
        assert_eq!(part(&slow_optimizer), Some((StepPart::Optimizer, 0.5)));
        let slow_forward = [
            ("loop", 10.0),
            ("loop/forward", 6.0),
            ("loop/backward", 1.0),
        ];
        assert_eq!(part(&slow_forward), Some((StepPart::Forward, 0.6)));
    }

    #[test]
    fn data_is_compared_with_a_step_none_of_whose_parts_were_timed() {
        assert_eq!(part(&[("data", 1.0), ("step", 19.0)]), None);
        let slow = [("data", 1.0), ("step", 3.0)];
        assert_eq!(part(&slow), Some((StepPart::Data, 0.25)));
        let found = find_bottleneck(timed(&slow)).unwrap();
        assert_eq!(
            found.text,
            "`data` takes 25 % of the step: training waits for data"
        );
    }

    #[test]
    fn a_step_within_a_step_counts_once() {
        let phases = [
            ("iteration", 22.0),
            ("iteration/data", 11.0),
            ("iteration/step", 11.0),
            ("iteration/step/model", 9.0),
            ("iteration/step/model/forward", 2.0),
            ("iteration/step/optimizer", 1.0),
        ];
        assert_eq!(part(&phases), Some((StepPart::Data, 0.5)));
        let without_middle = [
            ("data", 5.0),
            ("step", 15.0),
            ("step/model/layers/forward", 2.0),
        ];
        assert_eq!(part(&without_middle), Some((StepPart::Data, 0.25)));
    }

    #[test]
    fn an_epoch_is_not_a_step() {
        let mut phases = timed(&[("epoch/data", 1.0), ("epoch/forward", 3.0)]);
        // Setting up and evaluating are in it too.
        phases.push(TimedPhase {
            name: "epoch",
            total_secs: 100.0,
            count: 2,
        });
        assert_eq!(find_bottleneck(phases).unwrap().share_ratio, 0.25);
    }

    #[test]
    fn a_step_of_several_batches_is_a_step() {
        let mut phases = timed(&[("step/forward", 4.0), ("step/backward", 5.0), ("data", 5.0)]);
        for (name, total_secs) in [("step", 15.0), ("step/optimizer", 1.0)] {
            phases.push(TimedPhase {
                name,
                total_secs,
                count: 10,
            });
        }
        assert_eq!(find_bottleneck(phases).unwrap().share_ratio, 0.25);
    }

    #[test]
    fn a_phase_within_a_known_one_counts_once() {
        let phases = [("forward", 2.0), ("forward/data", 1.9), ("backward", 3.0)];
        assert_eq!(part(&phases), Some((StepPart::Backward, 0.6)));
    }

    #[test]
    fn one_part_alone_says_nothing() {
        assert_eq!(part(&[]), None);
        assert_eq!(part(&[("step", 1.0)]), None);
        assert_eq!(part(&[("forward", 1.0), ("save", 9.0)]), None);
        assert_eq!(part(&[("forward", 1.0), ("backward", f64::NAN)]), None);
        assert_eq!(part(&[("forward", 0.0), ("backward", 0.0)]), None);
    }
}
