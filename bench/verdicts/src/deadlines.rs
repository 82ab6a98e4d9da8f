//! Leaks that kill within one to ten minutes: does the alarm stand by half of the time that is left once the leak is established?
//!
//! A leak is established when it has lasted for 30 seconds, or for 50 steps where steps are known.
//! These traces are made with the timing of real ones and no chance in them but a little noise.

use nilo_forecast::{Forecaster, Reading, RiskLevel};

use crate::random::Random;
use crate::table::TextTable;

/// How memory leaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeakKind {
    /// From the first moment on.
    FromTheStart,
    /// On top of what was loaded in the first seconds.
    OverABase,
    /// Under a sawtooth of training steps.
    UnderASawtooth,
    /// After two minutes without any growth.
    AfterAPlateau,
    /// The same base, and a twelfth of the leak every twelfth of the time: each epoch keeps something.
    InSteps,
}

/// All of them.
pub const LEAK_KINDS: [LeakKind; 5] = [
    LeakKind::FromTheStart,
    LeakKind::OverABase,
    LeakKind::UnderASawtooth,
    LeakKind::AfterAPlateau,
    LeakKind::InSteps,
];

/// Seconds from the beginning of the leak to the kill.
pub const KILL_SECS: [f64; 7] = [60.0, 90.0, 135.0, 200.0, 300.0, 450.0, 600.0];

/// The same for leaks that kill sooner, of which nothing is promised: from 30 to 55 seconds a program may as well be loading.
pub const SHORT_KILL_SECS: [f64; 5] = [35.0, 40.0, 45.0, 50.0, 55.0];

/// One leak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeakCase {
    /// How it leaks.
    pub kind: LeakKind,
    /// From the beginning of the leak to the kill.
    pub kill_secs: f64,
    /// Seconds a training step, where the program logs them.
    pub step_secs: Option<f64>,
    /// Seconds between samples.
    pub interval_secs: f64,
}

/// When the alarm came, on the clock of the leak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeakAlarm {
    /// When the leak was established.
    pub established_secs: f64,
    /// When the alarm went on for good; `None`: it was off at the kill.
    pub alarm_secs: Option<f64>,
    /// The latest time that is early enough.
    pub deadline_secs: f64,
}

impl LeakAlarm {
    /// Whether the alarm stood in time.
    pub fn is_in_time(&self) -> bool {
        self.alarm_secs
            .is_some_and(|alarm| alarm <= self.deadline_secs)
    }
}

const MIB: f64 = 1_048_576.0;
const LIMIT_MIB: f64 = 900.0;
const PLATEAU_SECS: f64 = 120.0;
const ESTABLISHED_SECS: f64 = 30.0;
const ESTABLISHED_STEPS: f64 = 50.0;
const TOOTH_SECS: f64 = 1.7;
const STEPS_OF_A_STAIRCASE: f64 = 12.0;

impl LeakCase {
    /// Every kind at every pace, with and without steps, sampled ten times a second; the slower ones once a second as well.
    pub fn all() -> Vec<LeakCase> {
        let mut cases = Vec::new();
        for kind in LEAK_KINDS {
            for kill_secs in KILL_SECS {
                for step_secs in [None, Some(0.25)] {
                    for interval_secs in [0.1, 1.0] {
                        // Once a second is too seldom for a leak that kills within a minute.
                        if interval_secs * 100.0 > kill_secs {
                            continue;
                        }
                        cases.push(LeakCase {
                            kind,
                            kill_secs,
                            step_secs,
                            interval_secs,
                        });
                    }
                }
            }
        }
        cases
    }

    /// When the leak begins.
    fn begins_secs(&self) -> f64 {
        match self.kind {
            LeakKind::AfterAPlateau => PLATEAU_SECS,
            _ => 0.0,
        }
    }

    /// The level in MiB at a second of the program's life.
    fn level_mib(&self, secs: f64) -> f64 {
        let progress = ((secs - self.begins_secs()) / self.kill_secs).max(0.0);
        let (base, tooth) = match self.kind {
            LeakKind::FromTheStart => (12.0, 0.0),
            LeakKind::OverABase | LeakKind::InSteps => (250.0 * (secs / 2.0).min(1.0), 0.0),
            LeakKind::UnderASawtooth => (60.0, 80.0),
            LeakKind::AfterAPlateau => (300.0 * (secs / 3.0).min(1.0), 0.0),
        };
        let leaked = match self.kind {
            LeakKind::InSteps => (progress * STEPS_OF_A_STAIRCASE).floor() / STEPS_OF_A_STAIRCASE,
            _ => progress,
        };
        let full_base = match self.kind {
            LeakKind::OverABase | LeakKind::InSteps => 250.0,
            LeakKind::AfterAPlateau => 300.0,
            _ => base,
        };
        base + leaked * (LIMIT_MIB - full_base - tooth) + tooth * (secs / TOOTH_SECS).fract()
    }

    /// A leak in steps is seen when the next one comes.
    fn unseen_secs(&self) -> f64 {
        match self.kind {
            LeakKind::InSteps => self.kill_secs / STEPS_OF_A_STAIRCASE,
            _ => 0.0,
        }
    }

    /// Plays it to a forecaster.
    pub fn play(&self) -> LeakAlarm {
        let mut forecaster = Forecaster::new();
        let mut random = Random::new(0, 1);
        let mut alarm_secs = None;
        let killed_at = self.begins_secs() + self.kill_secs;
        let samples = (killed_at / self.interval_secs) as u64;
        for sample in 0..samples {
            let secs = sample as f64 * self.interval_secs;
            let noise_mib = 0.5 * random.normal();
            forecaster.observe(&Reading {
                time_nanos: (secs * 1e9) as u64,
                used_bytes: (self.level_mib(secs) + noise_mib).clamp(1.0, LIMIT_MIB) * MIB,
                limit_bytes: Some(LIMIT_MIB * MIB),
                step: self.step_secs.map(|step| (secs / step) as i64),
                ..Reading::default()
            });
            if forecaster.forecast().level >= RiskLevel::High {
                alarm_secs.get_or_insert(secs - self.begins_secs());
            } else {
                alarm_secs = None;
            }
        }
        let steps_secs = self
            .step_secs
            .map_or(f64::INFINITY, |step| step * ESTABLISHED_STEPS);
        let established_secs = ESTABLISHED_SECS.min(steps_secs);
        LeakAlarm {
            established_secs,
            alarm_secs,
            deadline_secs: (established_secs + self.kill_secs) / 2.0 + self.unseen_secs(),
        }
    }
}

/// When the alarm stood, for each kind and pace; ten samples a second.
pub fn table() -> TextTable {
    table_of(&KILL_SECS)
}

/// The same for leaks that kill within a minute.
pub fn short_table() -> TextTable {
    table_of(&SHORT_KILL_SECS)
}

fn table_of(paces: &[f64]) -> TextTable {
    let mut header = vec!["leak".to_string()];
    header.extend(paces.iter().map(|secs| format!("killed at {secs:.0} s")));
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = TextTable::new(&names);
    for kind in LEAK_KINDS {
        for step_secs in [None, Some(0.25)] {
            let steps = if step_secs.is_some() {
                ", with steps"
            } else {
                ""
            };
            let mut row = vec![format!("{}{steps}", kind.name())];
            row.extend(paces.iter().map(|kill_secs| {
                let alarm = LeakCase {
                    kind,
                    kill_secs: *kill_secs,
                    step_secs,
                    interval_secs: 0.1,
                }
                .play();
                let late = if alarm.is_in_time() { "" } else { ", late" };
                let deadline = alarm.deadline_secs;
                alarm.alarm_secs.map_or_else(
                    || "none".to_string(),
                    |secs| format!("{secs:.0} of {deadline:.0}{late}"),
                )
            }));
            table.push(row);
        }
    }
    table
}

impl LeakKind {
    fn name(self) -> &'static str {
        match self {
            LeakKind::FromTheStart => "from the start",
            LeakKind::OverABase => "over a base",
            LeakKind::UnderASawtooth => "under a sawtooth",
            LeakKind::AfterAPlateau => "after a plateau",
            LeakKind::InSteps => "in steps",
        }
    }
}
