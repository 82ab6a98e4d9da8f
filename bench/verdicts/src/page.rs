//! The page of the benchmark, `docs/benchmarks/verdicts.md`.

use crate::contest::PredictorResult;
use crate::deadlines;
use crate::goals;
use crate::leak_tables;
use crate::loads;
use crate::score::cost::SERIES;
use crate::settings::Generator;
use crate::table::TextTable;
use crate::tables;

/// What a page says besides its tables.
#[derive(Debug, Clone)]
pub struct About {
    /// The day, as in `2026-11-15`.
    pub date: String,
    /// A sentence about the machine.
    pub machine: String,
    /// The command that made the page.
    pub command: String,
    /// Which seeds were drawn, in words.
    pub seeds: String,
}

/// The page in Markdown: what each generator's traces gave, then the recordings, then leaks that kill.
pub fn page(
    about: &About,
    drawn: &[(Generator, Vec<PredictorResult>)],
    recorded: &[PredictorResult],
) -> String {
    let mut text = format!(
        "# Forecasts of running out of memory, and leak detection\n\n\
         Measured on {} by `{}`.\n{}\n\n{INTRODUCTION}",
        about.date, about.command, about.machine,
    );
    for (generator, entries) in drawn {
        text.push_str(&generated(about, *generator, entries));
    }
    text.push_str(&section(
        "Alarms in recordings",
        &tables::by_trace(recorded),
        RECORDED,
    ));
    text.push_str(&section(
        "Leaks in recordings",
        &leak_tables::by_trace(recorded),
        "",
    ));
    text.push_str(&section(
        "Leaks that kill within ten minutes",
        &deadlines::table(),
        DEADLINES,
    ));
    text.push_str(&section(
        "Leaks that kill within a minute",
        &deadlines::short_table(),
        SHORT_DEADLINES,
    ));
    text.push_str(&section(
        "Loading that ends below the limit",
        &loads::table(),
        LOADS,
    ));
    text
}

fn section(title: &str, table: &TextTable, notes: &str) -> String {
    match table.is_empty() {
        true => String::new(),
        false => format!("\n## {title}\n\n{}\n{notes}", table.markdown()),
    }
}

/// The sections of one generator; what the columns mean is said with the first.
fn generated(about: &About, generator: Generator, entries: &[PredictorResult]) -> String {
    let Some(first) = entries.first() else {
        return String::new();
    };
    let total = &first.total;
    let (name, what, notes) = match generator {
        Generator::Shapes => ("shapes", SHAPES_INTRODUCTION, [ALARMS, FORECASTS, LEAKS]),
        Generator::Workloads => (
            "jobs",
            WORKLOADS_INTRODUCTION,
            [ALARMS_OF_JOBS, "", LEAKS_OF_JOBS],
        ),
    };
    let unannounced = match total.unpredictable_ooms {
        0 => String::new(),
        count => format!(", {count} of these without any announcement"),
    };
    let mut text = format!(
        "\n## Generator: {name}\n\n{} traces of {} {name} ({}), {:.0} hours in all, {} of them with an OOM{unannounced}.\n{what}",
        total.traces,
        generator.kinds(),
        about.seeds,
        total.hours,
        total.ooms,
    );
    let times = goals::of_times(entries);
    let under_times = match generator {
        Generator::Shapes => format!(
            "{}\nCost is CPU time of one thread with {SERIES} series that take turns.\n{times}",
            notes[1]
        ),
        Generator::Workloads => times,
    };
    let of = |title: &str| format!("{title} ({name})");
    let goals = goals::of_alarms(first);
    let under_alarms = format!("{}{goals}", notes[0]);
    text.push_str(&section(
        &of("Alarms"),
        &tables::alarms(entries),
        &under_alarms,
    ));
    text.push_str(&section(
        &of("Times and probabilities"),
        &tables::forecasts(entries),
        &under_times,
    ));
    for entry in with_probabilities(entries) {
        text.push_str(&section(
            &of(&format!("Reliability of {}", entry.name)),
            &tables::reliability(entry),
            "Judgements of all drawn traces by their confidence; the last column should equal the one before.\n",
        ));
    }
    text.push_str(&section(
        &of("Leaks"),
        &leak_tables::quality(entries),
        notes[2],
    ));
    text.push_str(&section(
        &of("Alarms by kind"),
        &tables::by_shape(entries),
        BY_SHAPE,
    ));
    text.push_str(&section(
        &of("Leaks by kind"),
        &leak_tables::by_shape(entries),
        LEAKS_BY_SHAPE,
    ));
    text
}

const INTRODUCTION: &str = "\
A predictor sees the points of a trace one by one and is asked every ten seconds.
There are two generators of traces. Rules and thresholds were tuned on the tuning seeds of the first one, `shapes`; \
the width of the 80 % intervals was fitted on the tuning seeds of both, and the rules for staircases and for loading in pieces were checked on those of the second one, `jobs`.
All figures of this page are from reporting seeds, which nobody looked at while tuning.
";

const SHAPES_INTRODUCTION: &str = "\
Curves with noise, as in earlier versions of this page: the traces are the same, so the figures can be compared.
";

const WORKLOADS_INTRODUCTION: &str = "\
Training jobs simulated part by part: shards that are loaded, activations, caches, garbage, evaluations, workers, leaks whose pace wanders, batch-size ramps. \
Noise has heavy tails, jobs last from 90 seconds to 4 hours, samples come unevenly and up to a fifth of them is missing. \
The limit is chosen afterwards: too small for two thirds of the jobs that grow.
";

const ALARMS_OF_JOBS: &str = "\
No OOM here is marked as one that nothing announces, although a job may run out at the first evaluation or at a rare peak.
A ramp that ends is the same job as one that goes too far, up to its last step: an alarm on the way is right about the growth and wrong about its end. \
It counts as false here.
";

const LEAKS_OF_JOBS: &str = "\
Left out are the ramps and growth by the square root, where it is a matter of definition, and traces of fewer than five steps.
";

const DEADLINES: &str = "\
`41 of 45`: the alarm stood 41 seconds after the leak began and stayed until the kill; 45 is half of the time that was left when the leak was established (30 seconds, or 50 steps of 0.25 s), and so the latest time that is early enough. \
In steps: a twelfth every twelfth of the time, which may be seen one step later.
900 MiB, ten samples a second, made by hand; `bench/verdicts/kill.py` records such leaks in real cgroups.
";

const SHORT_DEADLINES: &str = "\
The same for leaks that kill sooner, of which nothing is promised. \
Without steps, growth that fills everything within 55 seconds may be loading, or the first of many training steps. \
So it is alarmed of only shortly before the end. \
Alarming from 75 % of the limit on was tried: kills at 35 to 50 seconds came in time, and loading for 30 seconds to 80 % of the limit raised a false alarm for 12 seconds.
";

const LOADS: &str = "\
Programs without steps that load straight up to a share of their limit and stand still after it, asked at every sample: for how long a false alarm stood. \
It is the price of alarms that stand in time: up to its end, loading for 50 seconds and more looks like a leak.
";

/// Predictors whose confidence is more than yes or no.
fn with_probabilities(entries: &[PredictorResult]) -> impl Iterator<Item = &PredictorResult> {
    entries.iter().filter(|entry| {
        let used = entry
            .total
            .reliability
            .iter()
            .filter(|bin| bin.judgements > 0);
        entry.forecasts && used.count() > 2
    })
}

const ALARMS: &str = "\
- *recall*: share of the OOMs with an alarm on at some time from 20 minutes to 30 seconds ahead (in traces of less than \
ten minutes: from the beginning to 1 % of the length ahead).
- *without first spikes*: the same without shape 7, which nothing announces.
- *precision*: hits divided by hits and false alarms. An alarm is false on a trace without an OOM, and before an OOM if \
it was off again 20 minutes ahead; it counts as neither if the end of the trace cut off growth that would have reached \
the limit within 15 minutes of the end or 1.5 times the predicted time.
- *lead*: from the alarm to the OOM, at most 20 minutes.

The alarm of a baseline is three judgements in a row that expect the limit within ten minutes (or see 90 %).
";

const FORECASTS: &str = "\
- *median |log2(predicted/true)|*: over judgements under alarm with the OOM at most 20 minutes ahead; 1 is a factor of two.
- *Brier score*: mean squared difference between the confidence and what came, an OOM within ten minutes or not; 0 is perfect. \
The confidence of a baseline is 1 or 0.
";

const LEAKS: &str = "\
Asked once, after the last point.
Left out are shapes 18 and 24, where it is a matter of definition, and traces of fewer than five steps.
";

const BY_SHAPE: &str = "`3/4 +2`: three of four OOMs predicted, two false alarms; a dot: nothing to find and nothing imagined.\n";

const LEAKS_BY_SHAPE: &str = "`3/4 +2`: three of four leaks found, two imagined.\n";

const RECORDED: &str = "\
`gpu/`: training loops on an NVIDIA H200; `real/`: programs in a cgroup of 256 MiB, recorded by `nilo run`.
They last less than a minute, so windows of ten minutes hold all of them.
Neutral: an alarm about growth that the end of the trace cut off.
";
