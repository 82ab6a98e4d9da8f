//! Cases of the rules on host memory.

use serde_json::json;

use super::{GIB, MIB, RuleCase};

pub(super) fn cases() -> Vec<RuleCase> {
    vec![
        RuleCase {
            rule: "trim-heap",
            facts: json!({"host": {"rss_bytes": 4.0 * GIB, "heap_free_bytes": 2.0 * GIB}}),
            says: &[
                "2.00 GiB that are not in use, 50 % of resident memory of 4.00 GiB",
                "malloc_trim(0)",
            ],
            saves: Some((Some(2.0 * GIB), Some(0.5))),
            silent: vec![
                json!({"host": {"heap_free_bytes": GIB}}),
                json!({"host": {"rss_bytes": GIB, "heap_free_bytes": 0.6 * GIB}}),
                json!({"host": {"regrown_ratio": 0.9}}),
            ],
        },
        RuleCase {
            rule: "use-jemalloc",
            facts: json!({"host": {"trimmed_bytes": GIB, "regrown_ratio": 0.9, "rss_bytes": 4.0 * GIB}}),
            says: &[
                "gave back 1.00 GiB, of which 90 % was taken again",
                "libjemalloc",
            ],
            saves: Some((Some(GIB), Some(0.25))),
            silent: vec![
                json!({"host": {"regrown_ratio": 0.3}}),
                json!({"host": {"trimmed_bytes": MIB}}),
            ],
        },
        RuleCase {
            rule: "stay-within-budget",
            facts: json!({"thresholds": {"host_budget_bytes": 8.0 * GIB, "critical_ratio": 0.9}, "host": {"peak_bytes": 7.6 * GIB}}),
            says: &[
                "the peak of 7.60 GiB is 95 % of the budget of 8.00 GiB (critical from 90 % on)",
            ],
            saves: None,
            silent: vec![
                json!({"host": {"peak_bytes": 5.0 * GIB}}),
                json!({"thresholds": {"warning_ratio": 0.97}}),
            ],
        },
        RuleCase {
            rule: "stop-the-leak",
            facts: json!({"host": {"leak_bytes_per_second": MIB, "leak_may_be_loading": true, "limit_bytes": 2.0 * GIB, "peak_bytes": GIB}}),
            says: &[
                "memory grows by 60.00 MiB a minute",
                "the limit of 2.00 GiB is reached 17m 04s after the peak of 1.00 GiB",
            ],
            saves: None,
            silent: vec![
                json!({"host": {"leak_bytes_per_second": 0.0}}),
                // Said by other rules.
                json!({"gc": {"enabled": false}}),
                json!({"torch": {"graph_tensors_per_step": 1.0}}),
            ],
        },
        RuleCase {
            rule: "allow-more-memory",
            facts: json!({"out_of_memory": {
                "happened": "it ran out of memory after 1.7 seconds: the kernel killed hog.py (PID 7); limit 256 MiB; peak 256 MiB",
                "on_gpu": false, "peak_bytes": 256.0 * MIB, "limit_bytes": 256.0 * MIB, "request_bytes": 384.0 * MIB,
            }}),
            says: &[
                "the kernel killed hog.py (PID 7)",
                "384.00 MiB, as `nilo request` asks for; smaller batches",
            ],
            saves: None,
            silent: vec![
                json!({"out_of_memory": {"on_gpu": true}}),
                // More memory does not raise it.
                json!({"out_of_memory": {"refused_by": "RLIMIT_AS"}}),
            ],
        },
        RuleCase {
            rule: "raise-ulimit",
            facts: json!({
                "host": {"peak_bytes": 13.0 * MIB},
                "out_of_memory": {
                    "happened": "it ran out of memory after 2 seconds: an allocation most likely failed in train.py (PID 7); limit 1.91 GiB; peak 1.87 GiB of address space in one process",
                    "on_gpu": false, "peak_bytes": 1.87 * GIB, "limit_bytes": 2_000_000.0 * 1024.0, "refused_by": "RLIMIT_AS", "request_bytes": 64.0 * MIB,
                },
            }),
            says: &[
                "an allocation most likely failed in train.py (PID 7)",
                "resident memory of all processes was at most 13.00 MiB",
                "ulimit -v 3000000 where it is set to 2000000 (more than 1.87 GiB is needed",
            ],
            saves: None,
            silent: vec![
                json!({"out_of_memory": {"refused_by": null}}),
                json!({"out_of_memory": {"refused_by": "RLIMIT_CPU"}}),
            ],
        },
    ]
}
