use std::sync::mpsc::channel;

use nilo_runfile::{RunFolder, RunWriter, WriterOptions, monotonic_nanos};
use nilo_sample::{ABSENT, AlertKind, Limit, LimitSource, TableSpec, fixture};

use super::*;

#[derive(Default)]
struct Heard {
    alerts: Vec<(AlertKind, bool)>,
    resources: Vec<Resource>,
    last_looks: usize,
}

impl Subscriber for Heard {
    fn on_look(&mut self, look: &Look<'_>) {
        let alerts = look.alerts.iter();
        self.alerts
            .extend(alerts.map(|alert| (alert.kind, alert.raised)));
        self.resources = look
            .risks
            .iter()
            .map(|risk| risk.resource.clone())
            .collect();
        self.last_looks += usize::from(look.is_last);
    }
}

/// A recorded job at 95 of 100 MiB, followed until it ends or watching does.
fn follow_a_full_job(end: Option<Wake>, is_wanted: impl Fn(&Resource) -> bool) -> Heard {
    let scratch = tempfile::tempdir().unwrap();
    let mut description = fixture::recording().description;
    description.started_monotonic_nanos = monotonic_nanos();
    description.limit = Some(Limit {
        bytes: 100 << 20,
        source: LimitSource::Cgroup {
            path: "/job".to_owned(),
            version: 2,
        },
    });
    let folder = RunFolder::create(scratch.path(), &description).unwrap();
    let options = WriterOptions::default();
    let mut writer = RunWriter::create(folder.path(), "recorder", options).unwrap();
    let tree = writer.define(&TableSpec::tree());
    let level = f64::from(95 << 20);
    for _ in 0..3 {
        let row = [level, level, ABSENT, 0.0, 0.0, 1.0, 0.0];
        writer.append(tree, monotonic_nanos(), None, &row);
    }
    let settings = FollowSettings {
        rules: AlertRules::default(),
        leaks: LeakSearch {
            after: Duration::from_secs(10),
            least_bytes: None,
            while_loading: false,
        },
        idle: Duration::from_secs(1),
        is_wanted,
    };
    let engine = Engine::new(&folder, Some(&description), settings);
    let (wakes, heard) = channel();
    end.map(|wake| wakes.send(wake));
    drop(wakes);
    let mut subscriber = Heard::default();
    engine.follow(&heard, &mut subscriber);
    subscriber
}

#[test]
fn a_level_above_its_threshold_is_told_however_following_ends() {
    for end in [None, Some(Wake::Look), Some(Wake::JobEnded)] {
        let heard = follow_a_full_job(end, |_| true);
        assert!(
            heard.alerts.contains(&(AlertKind::MemoryCritical, true)),
            "{end:?}: {:?}",
            heard.alerts
        );
        assert_eq!(heard.last_looks, 1, "{end:?}");
    }
}

#[test]
fn nothing_is_foretold_of_a_job_that_has_ended() {
    let ended = follow_a_full_job(Some(Wake::JobEnded), |_| true);
    let kinds: Vec<AlertKind> = ended.alerts.iter().map(|(kind, _)| *kind).collect();
    assert!(!kinds.contains(&AlertKind::OomRisk), "{kinds:?}");
}

#[test]
fn resources_that_nobody_asked_about_are_left_out() {
    let heard = follow_a_full_job(None, |resource| *resource != Resource::Job);
    assert_eq!((heard.alerts, heard.resources), (vec![], vec![]));
}
