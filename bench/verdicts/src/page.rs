//! The page of the benchmark, `docs/benchmarks/verdicts.md`.

use crate::contest::Entry;
use crate::leak_tables;
use crate::score::cost::SERIES;
use crate::table::Table;
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

/// The page in Markdown.
pub fn page(about: &About, drawn: &[Entry], recorded: &[Entry]) -> String {
    let mut text = format!(
        "# Forecasts of running out of memory, and findings of leaks\n\n\
         Measured on {} by `{}`.\n{}\n\n{}",
        about.date,
        about.command,
        about.machine,
        introduction(about, drawn),
    );
    let mut section = |title: &str, table: &Table, notes: &str| {
        if !table.is_empty() {
            text.push_str(&format!("\n## {title}\n\n{}\n{notes}", table.markdown()));
        }
    };
    section("Alarms", &tables::alarms(drawn), ALARMS);
    let costs = format!(
        "{FORECASTS}Cost is CPU time of one thread with {SERIES} series that take turns.\n"
    );
    section("Times and probabilities", &tables::forecasts(drawn), &costs);
    for entry in with_probabilities(drawn) {
        section(
            &format!("Reliability of {}", entry.name),
            &tables::reliability(entry),
            "Judgements of all drawn traces by their confidence; the last column should equal the one before.\n",
        );
    }
    section("Leaks", &leak_tables::quality(drawn), LEAKS);
    section("Alarms by shape", &tables::by_shape(drawn), BY_SHAPE);
    section(
        "Leaks by shape",
        &leak_tables::by_shape(drawn),
        LEAKS_BY_SHAPE,
    );
    section(
        "Alarms in recordings",
        &tables::by_trace(recorded),
        RECORDED,
    );
    section("Leaks in recordings", &leak_tables::by_trace(recorded), "");
    text
}

fn introduction(about: &About, drawn: &[Entry]) -> String {
    let Some(entry) = drawn.first() else {
        return String::new();
    };
    let total = &entry.total;
    format!(
        "{} traces of 24 shapes ({}), {:.0} hours in all, {} of them with an OOM, {} of these without any announcement.\n\
         A predictor sees the points of a trace one by one and is asked every ten seconds.\n\
         A forecaster is tuned on other seeds than those of this page.\n",
        total.traces, about.seeds, total.hours, total.ooms, total.unpredictable_ooms,
    )
}

/// Predictors whose confidence is more than yes or no.
fn with_probabilities(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
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
Goal: recall 0.95 without first spikes, precision 0.90, at most 0.1 false alarms an hour.
";

const FORECASTS: &str = "\
- *median |log2(predicted/true)|*: over judgements under alarm with the OOM at most 20 minutes ahead; 1 is a factor of two.
- *Brier score*: mean squared difference between the confidence and what came, an OOM within ten minutes or not; 0 is perfect. \
The confidence of a baseline is 1 or 0.

Goal: an error of at most 0.25, a coverage of 0.75 to 0.85, a better Brier score than anyone else's.
";

const LEAKS: &str = "\
Asked once, after the last point.
Left out are shapes 18 and 24, where it is a matter of definition, and traces of fewer than five steps.
";

const BY_SHAPE: &str = "`3/4 +2`: three of four OOMs foretold, two false alarms; a dot: nothing to find and nothing imagined.\n";

const LEAKS_BY_SHAPE: &str = "`3/4 +2`: three of four leaks found, two imagined.\n";

const RECORDED: &str = "\
`gpu/`: training loops on an NVIDIA H200; `real/`: programs in a cgroup of 256 MiB, recorded by `nilo run`.
They last less than a minute, so windows of ten minutes hold all of them.
Neutral: an alarm about growth that the end of the trace cut off.
";
