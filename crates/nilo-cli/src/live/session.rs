//! One time of looking: the recorder on this thread, the monitor on another, and the recording that both share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use nilo_analysis::assessment::{RanOut, ran_out};
use nilo_analysis::profile::ReadCounts;
use nilo_answer::diagnosis::{Diagnosis, DiagnosisSource};
use nilo_answer::monitor::MonitorEnd;
use nilo_answer::profile::{Measurement, ProfileAnswer};
use nilo_follow::Wake;
use nilo_recorder::{
    LiveReading, Observer, WatchEnd, WatchOutcome, WatchSettings, after_the_fact, describe_run,
    watch_processes,
};
use nilo_runfile::{RunFolder, unix_nanos};
use nilo_sample::units::to_secs;
use nilo_sample::words::duration_in_words;
use nilo_sample::{Ending, Recording, RunDescription, RunMode, RunStatus};

use super::gpus::why_no_gpus;
use super::monitor::{LiveMonitor, MonitorSettings};
use super::target::WatchTarget;
use crate::args::LiveArgs;
use crate::failure::{Failure, note, warn};
use crate::folder::{RunsDir, load_recorded};
use crate::recording::{create_folder, explain};
use crate::settings::{DEFAULT_INTERVAL_NANOS, Settings};

/// What a live verb asks for.
pub(crate) struct Session<'a> {
    pub(crate) target: WatchTarget,
    pub(crate) args: &'a LiveArgs,
    pub(crate) place: &'a RunsDir,
    pub(crate) settings: &'a Settings,
    /// `None`: until somebody ends it.
    pub(crate) duration_nanos: Option<u64>,
    /// It goes on for this much longer without a word, so that the first sample does not count against it.
    pub(crate) slack_nanos: u64,
    /// Whether a look at processes is worth a run.
    pub(crate) is_kept: bool,
}

/// What was seen.
pub(crate) struct WatchedSession {
    pub(crate) target: WatchTarget,
    pub(crate) monitor: LiveMonitor,
    outcome: WatchOutcome,
    looks: ReadCounts,
    interval_nanos: u64,
    shelf: RecordingFolder,
}

impl Session<'_> {
    /// Looks on until the time is up, Ctrl+C, or the processes have ended.
    pub(crate) fn watch(self, plan: MonitorSettings) -> Result<WatchedSession, Failure> {
        let configured = self.settings.interval_nanos().map_err(Failure::new)?;
        let interval_nanos = self.args.interval.or(configured);
        let interval_nanos = interval_nanos.unwrap_or(DEFAULT_INTERVAL_NANOS);
        let quiet = self.args.quiet || self.settings.is_quiet();
        let target = self.target;
        let is_worth_it = self.is_kept && !self.args.no_record && !target.is_machine();
        let is_kept = self.args.record || is_worth_it;
        let (mode, slug) = match target.is_machine() {
            true => (RunMode::Machine, "machine"),
            false => (RunMode::Watch, target.name.as_str()),
        };
        let mut description = describe_run(mode, target.commands.clone(), slug, Default::default());
        description.interval_nanos = interval_nanos;
        let shelf = match is_kept {
            true => RecordingFolder::kept(self.place, self.settings, &mut description)?,
            false => RecordingFolder::temporary(&description)?,
        };
        if !quiet {
            let long = match self.duration_nanos {
                Some(nanos) => format!(" for {}", duration_in_words(to_secs(nanos))),
                None => String::new(),
            };
            let every = to_secs(interval_nanos);
            note(&format!(
                "monitoring {} every {every} s{long}; Ctrl+C to stop",
                target.label
            ));
        }
        let (wakes, wait_for) = channel();
        let enough = Arc::new(AtomicBool::new(false));
        let monitor = LiveMonitor::new(
            plan,
            target.scope(),
            self.duration_nanos,
            Arc::clone(&enough),
        );
        let followed = shelf.folder.clone();
        let thread = std::thread::Builder::new()
            .name("nilo-monitor".to_owned())
            .spawn(move || monitor.follow(&followed, &wait_for))?;
        let mut onlooker = TickObserver {
            live: LiveReading::default(),
            wakes,
            enough,
            quiet,
        };
        let outcome = watch_processes(
            WatchSettings {
                pids: target.pids.clone(),
                gpus: target.devices.clone(),
                folder: &shelf.folder,
                description,
                interval_nanos,
                everything_at_interval: true,
                duration_nanos: self.duration_nanos.map(|nanos| nanos + self.slack_nanos),
                alerts: None,
            },
            &mut onlooker,
        );
        let live = std::mem::take(&mut onlooker.live);
        drop(onlooker);
        let Ok(monitor) = thread.join() else {
            return Err(Failure::new("monitoring failed"));
        };
        let outcome = outcome.map_err(|error| {
            shelf.give_up();
            explain(error)
        })?;
        let seen = WatchedSession {
            target,
            monitor,
            outcome,
            looks: ReadCounts {
                processes: live.ticks,
                host: live.host_readings,
                gpus: live.gpu_readings.into_iter().collect(),
            },
            interval_nanos,
            shelf,
        };
        if !quiet {
            seen.say_how_it_ended();
        }
        Ok(seen)
    }
}

impl WatchedSession {
    /// Whether the processes are gone, by whatever end.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.end == WatchEnd::AllGone
    }

    /// Whether the kernel killed one of the processes for lack of memory meanwhile.
    pub(crate) fn has_run_out(&self) -> bool {
        self.outcome.ending.status == RunStatus::OomKilled
    }

    pub(crate) fn end_nanos(&self) -> u64 {
        self.outcome.ending.time_nanos
    }

    /// Where it is kept.
    pub(crate) fn run_path(&self) -> Option<String> {
        let kept = self.shelf.scrap.is_none();
        kept.then(|| self.shelf.folder.path().display().to_string())
    }

    pub(crate) fn load(&self) -> Result<(Recording, Ending), Failure> {
        let recording = load_recorded(&self.shelf.folder)?;
        let ending = after_the_fact(&recording);
        Ok((recording, ending))
    }

    /// What was seen, as `nilo oom` and `nilo leak` judge it.
    pub(crate) fn diagnosis(&mut self) -> Diagnosis {
        let ran_out = self.ran_out();
        Diagnosis {
            source: DiagnosisSource::Live {
                label: self.target.label.clone(),
                is_over: self.is_over(),
            },
            tracker: std::mem::take(&mut self.monitor.tracker),
            changes: std::mem::take(&mut self.monitor.changes),
            end_nanos: self.end_nanos(),
            scope: self.target.scope(),
            recording: None,
            ran_out,
        }
    }

    /// What it came to, as every live verb ends.
    pub(crate) fn end(&self) -> MonitorEnd {
        MonitorEnd {
            secs: to_secs(self.end_nanos()),
            warnings: self.monitor.warnings,
            ended: self.is_over(),
            oom_killed: self.has_run_out(),
            run: self.run_path(),
            further: None,
        }
    }

    /// Levels and statistics of it.
    pub(crate) fn profile(&self) -> Result<ProfileAnswer, Failure> {
        let (recording, ending) = self.load()?;
        let measurement = Measurement {
            timestamp: local_time(),
            duration_nanos: self.end_nanos(),
            interval_nanos: self.interval_nanos,
            looks: self.looks.clone(),
            run: self.run_path(),
        };
        Ok(ProfileAnswer::of(
            &recording,
            &ending,
            measurement,
            why_no_gpus,
        ))
    }

    /// What ran out while it was watched.
    pub(crate) fn ran_out(&mut self) -> Option<RanOut> {
        let recording = self.load().ok()?.0;
        ran_out(&recording, &self.outcome.ending, &mut self.monitor.tracker)
    }

    fn say_how_it_ended(&self) {
        if self.has_run_out() {
            let killed = match self.target.pids.len() {
                1 => "it or one of its child processes",
                _ => "one of them or of their child processes",
            };
            warn(&format!(
                "{} ran out of memory: the kernel killed {killed}",
                self.target.label
            ));
        }
        match self.target.pids.len() {
            _ if !self.is_over() => {}
            1 => note(&format!("{} has ended", self.target.label)),
            _ => note("the processes have ended"),
        }
    }
}

/// As Python's `datetime.now().isoformat(timespec="seconds")`.
fn local_time() -> String {
    let now = jiff::Timestamp::from_nanosecond(i128::from(unix_nanos())).unwrap_or_default();
    now.to_zoned(jiff::tz::TimeZone::system())
        .strftime("%Y-%m-%dT%H:%M:%S")
        .to_string()
}

/// Where the recording lies: in a run's folder, or in one that is thrown away.
struct RecordingFolder {
    folder: RunFolder,
    scrap: Option<PathBuf>,
}

impl RecordingFolder {
    fn kept(
        place: &RunsDir,
        settings: &Settings,
        description: &mut RunDescription,
    ) -> Result<RecordingFolder, Failure> {
        match create_folder(place, settings, description)? {
            Some(folder) => Ok(RecordingFolder {
                folder,
                scrap: None,
            }),
            None => Err(Failure::new("cannot record: no writable folder")
                .hint("name a writable folder with --dir")),
        }
    }

    fn temporary(description: &RunDescription) -> Result<RecordingFolder, Failure> {
        use std::os::unix::fs::DirBuilderExt;
        let name = format!("nilo-look-{}-{}", std::process::id(), unix_nanos());
        let scrap = std::env::temp_dir().join(name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&scrap);
        made.map_err(|error| {
            let folder = scrap.display();
            Failure::new(format!("cannot create the folder {folder}: {error}"))
                .hint("set TMPDIR to a folder for temporary files")
        })?;
        let folder = RunFolder::create(&scrap, description).inspect_err(|_| {
            std::fs::remove_dir_all(&scrap).ok();
        })?;
        Ok(RecordingFolder {
            folder,
            scrap: Some(scrap),
        })
    }

    /// Nothing came of it: a run without a reading is no run.
    fn give_up(&self) {
        std::fs::remove_dir_all(self.folder.path()).ok();
    }
}

impl Drop for RecordingFolder {
    fn drop(&mut self) {
        if let Some(scrap) = &self.scrap {
            std::fs::remove_dir_all(scrap).ok();
        }
    }
}

/// Sits beside the recorder: starts the monitor at the first tick, and ends watching when nobody listens any more.
struct TickObserver {
    live: LiveReading,
    wakes: Sender<Wake>,
    enough: Arc<AtomicBool>,
    quiet: bool,
}

impl Observer for TickObserver {
    fn on_tick(&mut self, live: &LiveReading) {
        if self.live.ticks == 0 {
            self.wakes.send(Wake::Look).ok();
        }
        self.live.clone_from(live);
    }

    fn on_notice(&mut self, text: &str) {
        if !self.quiet {
            warn(text);
        }
    }

    fn has_seen_enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }
}
