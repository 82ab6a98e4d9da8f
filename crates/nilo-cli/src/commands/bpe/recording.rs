//! The training records itself, like any other job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nilo_recorder::{OwnMemory, OwnRecorder, describe_run, record_own_process};
use nilo_runfile::RunFolder;
use nilo_sample::printable::text_of_bytes;
use nilo_sample::units::{format_bytes, to_secs};
use nilo_sample::{Ending, ProcessStatus, RunMode};

use crate::args::BpeTrainArgs;
use crate::failure::{Failure, note, warn};
use crate::recording::{create_folder, open_log, report};
use crate::settings::{DEFAULT_INTERVAL_NANOS, Settings};

/// A recording that runs.
pub(super) struct TrainingRecord(Option<Running>);

struct Running {
    folder: RunFolder,
    recorder: OwnRecorder,
    peak_bytes: Arc<AtomicU64>,
    log: Option<PathBuf>,
    quiet: bool,
}

/// A recording that has ended.
pub(super) struct FinishedRecording {
    run: Option<(RunFolder, Ending)>,
    /// The largest level until the very end, if it is known.
    pub(super) peak_bytes: Option<u64>,
}

impl TrainingRecord {
    /// Begins, unless the user wants none or a `nilo run` around us has one already.
    pub(super) fn begin(
        train: &BpeTrainArgs,
        settings: &Settings,
        quiet: bool,
    ) -> Result<TrainingRecord, Failure> {
        let args = &train.recording;
        let log_path = args.log_path(train.vocab_size);
        let mut log = open_log(log_path.as_deref())?;
        let configured = settings.interval_nanos().map_err(Failure::new)?;
        let interval = args
            .interval
            .or(configured)
            .unwrap_or(DEFAULT_INTERVAL_NANOS);
        let recorded_around_us = std::env::var_os("NILO_RUN_DIR").is_some() && log.is_none();
        if args.no_record || recorded_around_us {
            return Ok(TrainingRecord(None));
        }
        let words =
            std::env::args_os().map(|word| text_of_bytes(word.as_encoded_bytes()).into_owned());
        let tags: BTreeMap<String, String> = args.tags.iter().cloned().collect();
        let slug = args.name.as_deref().unwrap_or("bpe-train");
        let mut description = describe_run(RunMode::Bpe, words.collect(), slug, tags);
        description.name.clone_from(&args.name);
        description.interval_nanos = interval;
        let Some(folder) = create_folder(&args.place, settings, &mut description)? else {
            return Ok(TrainingRecord(None));
        };
        if !quiet && let Ok(mut memory) = OwnMemory::new() {
            let initial = format_bytes(memory.read(None).memory_bytes as f64);
            note(&format!("Initial memory usage: {initial}"));
        }
        let peak_bytes = Arc::new(AtomicU64::new(0));
        let highest = Arc::clone(&peak_bytes);
        let mut log_failed = false;
        let on_tick = move |live: &nilo_recorder::LiveReading| {
            highest.store(live.peak_bytes, Ordering::Relaxed);
            let Some(log) = &mut log else { return };
            let written = log.row(live.time_nanos, live.memory_bytes as f64, live.cpu_percent);
            if let Err(error) = written
                && !std::mem::replace(&mut log_failed, true)
            {
                warn(&format!("the memory log has gaps from here on: {error}"));
            }
        };
        match record_own_process(&folder, description, interval, on_tick) {
            Ok(recorder) => {
                if !quiet {
                    let secs = to_secs(interval);
                    note(&format!("Started memory monitoring (interval: {secs}s)"));
                }
                Ok(TrainingRecord(Some(Running {
                    folder,
                    recorder,
                    peak_bytes,
                    log: log_path,
                    quiet,
                })))
            }
            Err(error) => {
                warn(&format!(
                    "{}; nothing is recorded",
                    Failure::from(error).sentence()
                ));
                std::fs::remove_dir_all(folder.path()).ok();
                Ok(TrainingRecord(None))
            }
        }
    }

    /// Takes a last reading and ends the recording with the status that the program will exit with.
    pub(super) fn finish(self, exit_code: u8) -> FinishedRecording {
        let Some(running) = self.0 else {
            return FinishedRecording {
                run: None,
                peak_bytes: None,
            };
        };
        let ending = running.recorder.stop(ProcessStatus {
            exit_code: Some(i32::from(exit_code)),
            signal: None,
        });
        let peak_bytes = running.peak_bytes.load(Ordering::Relaxed);
        if !running.quiet {
            let peak = format_bytes(peak_bytes as f64);
            note(&format!("Stopped memory monitoring. Peak memory: {peak}"));
            if let Some(path) = running.log {
                note(&format!("Memory log saved to {}", path.display()));
            }
        }
        FinishedRecording {
            run: ending.map(|ending| (running.folder, ending)),
            peak_bytes: Some(peak_bytes),
        }
    }
}

impl FinishedRecording {
    /// Prints the block of memory figures.
    pub(super) fn report(&self, settings: &Settings) {
        if let Some((folder, ending)) = &self.run {
            report(folder, (ending, 0), false, None, settings, || true);
        }
    }
}
