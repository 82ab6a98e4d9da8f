use std::sync::mpsc::channel;
use std::time::Duration;

use nilo_analysis::alerts::AlertRules;
use nilo_runfile::{RunFolder, RunWriter, WriterOptions, monotonic_nanos};
use nilo_sample::{AlertKind, Limit, LimitSource, TableSpec, TypedRow, fixture};

use super::*;
use crate::LeakSearch;

#[derive(Default)]
struct RecordingSubscriber {
    /// Writes the samples, at the first look.
    sampling: Option<Box<dyn FnOnce()>>,
    alerts: Vec<(AlertKind, bool)>,
    resources: Vec<Resource>,
    last_looks: usize,
}

impl Subscriber for RecordingSubscriber {
    fn on_look(&mut self, look: &Observation<'_>) {
        if let Some(sample) = self.sampling.take() {
            sample();
        }
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
fn follow_a_full_job(
    end: Option<Wake>,
    is_wanted: impl Fn(&Resource) -> bool,
) -> RecordingSubscriber {
    let wakes: Vec<Wake> = [Wake::Look].into_iter().chain(end).collect();
    follow(&wakes, &[95.0; 3], is_wanted)
}

/// A job with these levels, one a second, of 100 MiB, sampled after the first wake.
fn follow(
    wakes: &[Wake],
    levels_mib: &[f64],
    is_wanted: impl Fn(&Resource) -> bool,
) -> RecordingSubscriber {
    let scratch = tempfile::tempdir().unwrap();
    let mut description = fixture::description();
    let started_nanos = monotonic_nanos();
    description.started_monotonic_nanos = started_nanos;
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
    let levels_mib = levels_mib.to_vec();
    let sample = move || {
        for (second, mib) in (0..).zip(levels_mib) {
            let level = mib * f64::from(1 << 20);
            let row = fixture::level(level).values();
            writer.append(tree, started_nanos + second * 1_000_000_000, None, &row);
        }
    };
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
    let (sender, wakeups) = channel();
    for wake in wakes {
        sender.send(*wake).unwrap();
    }
    drop(sender);
    let mut subscriber = RecordingSubscriber {
        sampling: Some(Box::new(sample)),
        ..RecordingSubscriber::default()
    };
    engine.follow(&wakeups, &mut subscriber);
    subscriber
}

#[test]
fn a_level_above_its_threshold_is_told_however_following_ends() {
    for end in [
        None,
        Some(Wake::Look),
        Some(Wake::JobEnded),
        Some(Wake::LastLook),
    ] {
        let subscriber = follow_a_full_job(end, |_| true);
        assert!(
            subscriber
                .alerts
                .contains(&(AlertKind::MemoryCritical, true)),
            "{end:?}: {:?}",
            subscriber.alerts
        );
        assert_eq!(subscriber.last_looks, 1, "{end:?}");
    }
}

/// Looks go on for a moment, while the last sample is taken and the last processes end.
#[test]
fn nothing_is_foretold_of_a_job_that_has_ended() {
    let leak: Vec<f64> = (0..240)
        .map(|second| 20.0 + 0.3 * f64::from(second))
        .collect();
    let is_foretold = |wakes: &[Wake]| {
        let subscriber = follow(wakes, &leak, |_| true);
        subscriber.alerts.contains(&(AlertKind::OomRisk, true))
    };
    assert!(is_foretold(&[Wake::Look, Wake::Look, Wake::LastLook]));
    assert!(!is_foretold(&[Wake::JobEnded, Wake::Look, Wake::LastLook]));
}

#[test]
fn resources_that_nobody_asked_about_are_left_out() {
    let subscriber = follow_a_full_job(None, |resource| *resource != Resource::Job);
    assert_eq!((subscriber.alerts, subscriber.resources), (vec![], vec![]));
}

#[test]
fn a_judge_that_restarts_forgets_a_leak_and_finds_it_again() {
    let settings = FollowSettings {
        rules: AlertRules::default(),
        leaks: LeakSearch {
            after: Duration::ZERO,
            least_bytes: None,
            while_loading: false,
        },
        idle: Duration::ZERO,
        is_wanted: |_: &Resource| true,
    };
    let mut judge = Judge::new(ResourceTracker::default(), settings);
    let mut level = f64::from(100 << 20);
    let mut leak = |judge: &mut Judge<_>, seconds: std::ops::Range<u64>| {
        let mut rows = fixture::table(TableSpec::tree());
        for second in seconds {
            level += f64::from(1 << 20);
            fixture::tick(&mut rows, second * 1_000_000_000, fixture::level(level));
        }
        let tables = vec![rows];
        judge.take(&nilo_runfile::Update {
            tables,
            ..nilo_runfile::Update::default()
        });
        let verdicts = judge.verdicts();
        verdicts.iter().any(|verdict| verdict.growth.is_some())
    };
    assert!(leak(&mut judge, 0..120));
    judge.restart();
    assert!(!leak(&mut judge, 120..125));
    assert!(leak(&mut judge, 125..240));
}
