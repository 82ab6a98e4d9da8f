//! Which part of the training step takes the time, and what to do about it.
//!
//! Phases are known by the last part of their names (`step/forward` is a forward pass), as `nilometer.torch.watch`, the callbacks
//! and most training loops call them. Shares are of the time in known phases, so that imports and evaluation do not hide a slow loader.

use serde::Serialize;

/// Waiting for data is waste: worth a word from this share on. With enough workers a loader takes a few percent.
const SLOW_DATA_SHARE: f64 = 0.2;
/// An optimizer reads and writes each parameter a few times, while both passes read it once for each sample; a tenth is usual.
const SLOW_OPTIMIZER_SHARE: f64 = 0.25;

/// A part of the training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Which part.
    pub part: StepPart,
    /// The phase, by its full name; the longest one where several mean the same part.
    pub phase: String,
    /// Share of the time in known phases.
    pub share_ratio: f64,
    /// One sentence.
    pub text: String,
    /// What to do about it, the first thing first.
    pub advice: Vec<&'static str>,
}

/// Finds it among phases with their total seconds; `None` where fewer than two parts of a step were timed.
pub fn find_bottleneck<'a>(phases: impl IntoIterator<Item = (&'a str, f64)>) -> Option<Bottleneck> {
    let known: Vec<(StepPart, &str, f64)> = phases
        .into_iter()
        .filter(|(_, secs)| secs.is_finite() && *secs > 0.0)
        .filter_map(|(name, secs)| Some((StepPart::of_phase(name)?, name, secs)))
        .collect();
    // A phase within another known one is in that one's time already.
    let is_inner = |name: &str| {
        let mut outer = known.iter().map(|(_, outer, _)| *outer);
        outer.any(|outer| {
            name.strip_prefix(outer)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let known: Vec<_> = known
        .iter()
        .filter(|(_, name, _)| !is_inner(name))
        .collect();
    let all: f64 = known.iter().map(|(_, _, secs)| secs).sum();
    let share = |part: StepPart| {
        let of_part = known.iter().filter(|(known, _, _)| *known == part);
        of_part.map(|(_, _, secs)| secs).sum::<f64>() / all
    };
    let parts = [
        StepPart::Data,
        StepPart::Forward,
        StepPart::Backward,
        StepPart::Optimizer,
    ];
    if parts.iter().filter(|part| share(**part) > 0.0).count() < 2 {
        return None;
    }
    let longest = parts
        .into_iter()
        .max_by(|a, b| share(*a).total_cmp(&share(*b)))?;
    let part = match longest {
        _ if share(StepPart::Data) >= SLOW_DATA_SHARE => StepPart::Data,
        _ if share(StepPart::Optimizer) >= SLOW_OPTIMIZER_SHARE => StepPart::Optimizer,
        longest => longest,
    };
    let of_part = known.iter().filter(|(known, _, _)| *known == part);
    let (_, phase, _) = of_part.max_by(|a, b| a.2.total_cmp(&b.2))?;
    let share_ratio = share(part);
    Some(Bottleneck {
        part,
        phase: (*phase).to_owned(),
        share_ratio,
        text: sentence(part, phase, share_ratio),
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

    fn part(phases: &[(&str, f64)]) -> Option<(StepPart, String)> {
        let found = find_bottleneck(phases.iter().copied())?;
        Some((found.part, found.phase))
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
            let found = find_bottleneck([
                ("data", data),
                ("step/forward", forward),
                ("step/backward", backward),
                ("step/optimizer", optimizer),
                ("step", 100.0),
                ("evaluation", 100.0),
            ])
            .unwrap();
            assert_eq!(found.part, expected);
            assert!(!found.advice.is_empty());
        }
    }

    #[test]
    fn shares_are_of_the_known_phases() {
        let phases = [("data", 1.0), ("iteration", 100.0), ("iteration/fwd", 3.0)];
        let found = find_bottleneck(phases).unwrap();
        assert_eq!(found.share_ratio, 0.25);
        assert_eq!(
            found.text,
            "`data` takes 25 % of the step: training waits for data"
        );
    }

    #[test]
    fn a_phase_within_a_known_one_counts_once() {
        let phases = [("forward", 2.0), ("forward/data", 1.9), ("backward", 3.0)];
        let found = find_bottleneck(phases).unwrap();
        assert_eq!((found.part, found.share_ratio), (StepPart::Backward, 0.6));
    }

    #[test]
    fn one_part_alone_says_nothing() {
        assert_eq!(part(&[]), None);
        assert_eq!(part(&[("forward", 1.0), ("save", 9.0)]), None);
        assert_eq!(part(&[("forward", 1.0), ("backward", f64::NAN)]), None);
        assert_eq!(part(&[("forward", 0.0), ("backward", 0.0)]), None);
    }
}
