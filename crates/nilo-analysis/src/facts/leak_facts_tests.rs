//! Facts of recordings that leak or ran out: what `nilo leak` and `nilo oom` say of them is what advice is given on.

use nilo_sample::fixture::{level, recording, table, tick};
use nilo_sample::rows::{CgroupRow, HostRow};
use nilo_sample::{
    Certainty, Ending, Event, OomKill, RecordedTable, Recording, RunStatus, TableSpec, TimedEvent,
    UnhandledException,
};

use crate::findings::FindingKind;
use crate::summary::{Summary, summarize};

const MIB: f64 = 1048576.0;
const SECOND: u64 = 1_000_000_000;

fn tree(secs: u64, mib: impl Fn(f64) -> f64) -> RecordedTable {
    let mut rows = table(TableSpec::tree());
    for second in 0..secs {
        tick(&mut rows, second * SECOND, level(mib(second as f64) * MIB));
    }
    rows
}

fn shared(secs: u64, mib: impl Fn(f64) -> f64) -> [RecordedTable; 2] {
    let (mut hosts, mut cgroups) = (table(TableSpec::host()), table(TableSpec::cgroup("/job")));
    for second in 0..secs {
        let bytes = mib(second as f64) * MIB;
        let host = HostRow {
            total_bytes: 64000.0 * MIB,
            available_bytes: 60000.0 * MIB,
            shm_total_bytes: 4000.0 * MIB,
            shm_used_bytes: bytes,
            ..HostRow::ABSENT
        };
        let cgroup = CgroupRow {
            usage_bytes: 100.0 * MIB + bytes,
            working_set_bytes: 100.0 * MIB + bytes,
            anon_bytes: 100.0 * MIB,
            file_bytes: bytes,
            shmem_bytes: bytes,
            owned: 1.0,
            ..CgroupRow::ABSENT
        };
        tick(&mut hosts, second * SECOND, host);
        tick(&mut cgroups, second * SECOND, cgroup);
    }
    [hosts, cgroups]
}

fn run(tables: impl IntoIterator<Item = RecordedTable>) -> Recording {
    let mut run = recording();
    run.tables = tables.into_iter().collect();
    run
}

fn ended(status: RunStatus, secs: u64) -> Ending {
    Ending {
        status,
        exit_code: Some(u8::from(status != RunStatus::Exited).into()),
        signal: None,
        time_nanos: secs * SECOND,
        oom: None,
        left_running: vec![],
        recorder_death: None,
        lost_rank: None,
        gpu_out_of_memory: None,
    }
}

fn killed_at(second: u64) -> OomKill {
    OomKill {
        certainty: Certainty::Certain,
        limit: None,
        time_nanos: Some(second * SECOND),
        victim_pid: Some(7),
        victim_name: None,
        kills: 1,
        evidence: vec![],
    }
}

fn rules(summary: &Summary) -> Vec<&'static str> {
    let said = summary.recommendations.iter();
    said.map(|said| said.rule).collect()
}

fn growing(second: f64) -> f64 {
    300.0 + 5.0 * second
}

#[test]
fn a_leak_of_shared_memory_is_advised_on_wherever_it_is_told() {
    let mapped = run(shared(300, growing)
        .into_iter()
        .chain([tree(300, |t| 100.0 + growing(t))]));
    let files = run(shared(300, growing)
        .into_iter()
        .chain([tree(300, |_| 100.0)]));
    for (recording, resource) in [(mapped, "job memory"), (files, "/dev/shm")] {
        let summary = summarize(&recording, &ended(RunStatus::Exited, 300));
        assert!(
            summary
                .findings
                .iter()
                .any(|it| it.kind == FindingKind::Leak)
        );
        let host = &summary.facts.host;
        assert_eq!(host.leak_resource.as_deref(), Some(resource));
        assert_eq!(
            (host.leak_in_shared_memory, host.leak_established),
            (Some(true), Some(true))
        );
        let rate = host.leak_bytes_per_second.unwrap();
        assert!((rate / MIB - 5.0).abs() < 0.5, "{rate}");
        assert_eq!(rules(&summary), ["stop-the-leak"]);
        assert!(
            summary.recommendations[0]
                .text
                .contains("Free shared memory")
        );
        // The finding has said it.
        assert_eq!(summary.further_recommendations().count(), 0);
    }
}

#[test]
fn a_leak_that_was_looked_for_and_not_found_is_known() {
    let leak = |secs| {
        let recording = run([tree(secs, |_| 100.0)]);
        let summary = summarize(&recording, &ended(RunStatus::Exited, secs));
        summary.facts.host.leak_bytes_per_second
    };
    assert_eq!(leak(300), Some(0.0));
    assert_eq!(leak(4), None, "too short to tell");
}

#[test]
fn a_kill_is_evidence_and_no_forecast() {
    let recording = run([tree(120, |t| 100.0 + 5.0 * t)]);
    let mut ending = ended(RunStatus::OomKilled, 120);
    ending.oom = Some(killed_at(119));
    let summary = summarize(&recording, &ending);
    assert_eq!(rules(&summary), ["stop-the-leak", "allow-more-memory"]);
    let evidence = summary.recommendations[0].evidence.join("\n");
    assert!(evidence.contains("until memory ran out"), "{evidence}");
    assert!(
        evidence.contains("it ran out of memory after 119 seconds: the kernel killed"),
        "{evidence}"
    );
    assert!(!evidence.contains("at this rate"), "{evidence}");
    assert!(summary.facts.out_of_memory.growth.is_some());
    // It ended sooner than a leak can be told.
    let soon = run([tree(3, |t| 100.0 + 50.0 * t)]);
    let mut ending = ended(RunStatus::OomKilled, 3);
    ending.oom = Some(killed_at(2));
    assert_eq!(rules(&summarize(&soon, &ending)), ["allow-more-memory"]);
}

#[test]
fn an_allocation_that_failed_is_advised_on_by_where_it_failed() {
    for (type_name, message, rule) in [
        ("MemoryError", "", "allow-more-memory"),
        (
            "torch.OutOfMemoryError",
            "CUDA out of memory",
            "fit-on-the-gpu",
        ),
    ] {
        let mut recording = run([tree(3, |_| 100.0)]);
        let exception = UnhandledException {
            pid: 7,
            type_name: type_name.to_owned(),
            message: message.to_owned(),
            ..UnhandledException::default()
        };
        recording.events.push(TimedEvent {
            time_nanos: 2 * SECOND,
            event: Event::Exception(Box::new(exception)),
        });
        let mut ending = ended(RunStatus::Exited, 3);
        ending.exit_code = Some(1);
        let summary = summarize(&recording, &ending);
        assert_eq!(rules(&summary), [rule]);
        assert_eq!(summary.further_recommendations().count(), 0);
    }
}
