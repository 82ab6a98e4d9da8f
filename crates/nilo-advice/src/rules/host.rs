//! Memory of the process tree, and of the C heap.

use nilo_sample::units::format_bytes;

use super::figures::{host_memory, percent, share};
use super::leak::stop_the_leak;
use super::out_of_memory::allow_more_memory;
use super::own_limit::raise_ulimit;
use super::{AdviceRule, AdviceSubject, Found, found};
use crate::facts::Facts;
use crate::recommendation::AdviceConfidence::{High, Low, Medium};

/// Memory that the heap holds without using it is worth a word from this share of resident memory on ...
const IDLE_SHARE: f64 = 0.3;
/// ... and from this size on.
const LEAST_IDLE_BYTES: f64 = 1e9;
/// What was trimmed is taken again from this share on.
const REGROWN: f64 = 0.5;
const LEAST_TRIMMED_BYTES: f64 = 256.0 * 1024.0 * 1024.0;
/// The share of a budget that is a warning where nobody set another.
const WARNING: f64 = 0.75;

pub(super) const RULES: &[AdviceRule] = &[
    AdviceRule {
        name: "trim-heap",
        subject: AdviceSubject::Host,
        condition: "the C heap holds more than 30 % of resident memory and 1 GB without using it",
        needs: &[
            "host.rss_bytes",
            "host.heap_free_bytes|host.heap_live_bytes",
        ],
        source: "malloc_trim gave back 1,508 MB down to 93 MB in our measurement; sgl-project/SpecForge#491",
        look: trim_heap,
    },
    AdviceRule {
        name: "use-jemalloc",
        subject: AdviceSubject::Host,
        condition: "more than half of what malloc_trim gave back was taken again",
        needs: &["host.trimmed_bytes", "host.regrown_ratio"],
        source: "reported for long-running services; not measured by us",
        look: use_jemalloc,
    },
    AdviceRule {
        name: "stay-within-budget",
        subject: AdviceSubject::Host,
        condition: "the peak exceeds memory_warning_threshold of the budget",
        needs: &["thresholds.host_budget_bytes", "host.peak_bytes"],
        source: "the configured budget",
        look: stay_within_budget,
    },
    AdviceRule {
        name: "stop-the-leak",
        subject: AdviceSubject::Host,
        condition: "memory grows without bound, or grew until it ran out",
        needs: &["host.leak_bytes_per_second"],
        source: "the leak detector, scored in docs/benchmarks/verdicts.md",
        look: stop_the_leak,
    },
    AdviceRule {
        name: "allow-more-memory",
        subject: AdviceSubject::Host,
        condition: "memory of the machine or of a limit ran out",
        needs: &["out_of_memory.happened"],
        source: "how the run ended; the amount is that of nilo request",
        look: allow_more_memory,
    },
    AdviceRule {
        name: "raise-ulimit",
        subject: AdviceSubject::Host,
        condition: "a process was refused memory at a limit of its own (`ulimit -v` or `ulimit -d`)",
        needs: &[
            "out_of_memory.happened",
            "out_of_memory.refused_by",
            "out_of_memory.limit_bytes",
        ],
        source: "how the run ended; setrlimit(2)",
        look: raise_ulimit,
    },
];

fn regrows(facts: &Facts) -> bool {
    facts
        .host
        .regrown_ratio
        .is_some_and(|ratio| ratio > REGROWN)
}

fn trim_heap(facts: &Facts) -> Option<Found> {
    let host = &facts.host;
    let rss = host.rss_bytes?;
    let (idle, confidence) = match (host.heap_free_bytes, host.heap_live_bytes) {
        (Some(free), _) => (free, High),
        (None, live) => (rss - live?, Medium),
    };
    let idle = idle.min(rss);
    if idle < LEAST_IDLE_BYTES || idle <= IDLE_SHARE * rss || regrows(facts) {
        return None;
    }
    Some(
        found(
            "Trim the C heap (malloc_trim) at the end of an epoch",
            "nilometer.optimize.GarbageCollector does it under pressure; by hand: ctypes.CDLL(None).malloc_trim(0); MALLOC_ARENA_MAX=2 keeps threads from spreading it",
        )
        .because(format!(
            "the heap holds {} that are not in use, {} of resident memory of {}",
            format_bytes(idle),
            percent(share(idle, rss)?),
            format_bytes(rss)
        ))
        .saves(host_memory(idle, Some(rss)))
        .with(confidence),
    )
}

fn use_jemalloc(facts: &Facts) -> Option<Found> {
    let (trimmed, regrown) = (facts.host.trimmed_bytes?, facts.host.regrown_ratio?);
    if trimmed < LEAST_TRIMMED_BYTES || !regrows(facts) {
        return None;
    }
    let all = facts.host.rss_bytes.or(facts.host.peak_bytes);
    Some(
        found(
            "Use an allocator that gives memory back by itself",
            "LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=background_thread:true,dirty_decay_ms:1000",
        )
        .because(format!(
            "malloc_trim gave back {}, of which {} was taken again",
            format_bytes(trimmed),
            percent(regrown)
        ))
        .saves(host_memory(trimmed, all))
        .with(Low),
    )
}

fn stay_within_budget(facts: &Facts) -> Option<Found> {
    let (budget, peak) = (facts.thresholds.host_budget_bytes?, facts.host.peak_bytes?);
    let used = share(peak, budget)?;
    let warning = facts.thresholds.warning_ratio.unwrap_or(WARNING);
    if used < warning {
        return None;
    }
    let is_critical = facts
        .thresholds
        .critical_ratio
        .is_some_and(|critical| used >= critical);
    let threshold = match (is_critical, facts.thresholds.critical_ratio) {
        (true, Some(critical)) => format!("critical from {} on", percent(critical)),
        _ => format!("a warning from {} on", percent(warning)),
    };
    Some(
        found(
            "Use less memory, or allow the program more",
            "smaller batches, buffers or caches, fewer workers, or a larger max_memory_usage_gb",
        )
        .because(format!(
            "the peak of {} is {} of the budget of {} ({threshold})",
            format_bytes(peak),
            percent(used),
            format_bytes(budget)
        )),
    )
}
