//! `nilo ps --gpu`: processes that hold GPU memory, a row for each process and GPU.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use nilo_answer::ps::{GpuHolding, PsAnswer, UnmatchedGpuHolding, WatchableProcess};
use nilo_export::CsvRows;
use nilo_sample::units::format_bytes;
use nilo_source::gpu::{GpuMemoryHolder, GpuMemoryHolders, GpuView};
use nilo_source::{ProcessListing, Roots};

use crate::failure::Failure;
use crate::live::read_gpus;
use crate::screen::Screen;
use crate::text::table::{left, right, write_table};

/// What holds GPU memory, before it is known which processes are wanted.
pub(crate) struct GpuLook {
    view: GpuView,
    found: GpuMemoryHolders,
    holdings: BTreeMap<u32, Vec<GpuHolding>>,
}

impl GpuLook {
    /// Asks the driver; without a GPU there is nothing to list.
    pub(crate) fn open() -> Result<GpuLook, Failure> {
        let view = read_gpus().map_err(|reason| {
            Failure::new(reason).hint("without --gpu, `nilo ps` lists processes by host memory")
        })?;
        Ok(GpuLook {
            view,
            found: GpuMemoryHolders::default(),
            holdings: BTreeMap::new(),
        })
    }

    /// Finds out who of these processes holds what.
    pub(crate) fn match_processes(&mut self, roots: &Roots, listing: &[ProcessListing]) {
        let mut pids: Vec<u32> = listing.iter().map(|process| process.id.pid).collect();
        pids.sort_unstable();
        let (devices, readings) = (&self.view.devices, &self.view.readings);
        self.found = GpuMemoryHolders::find(roots, devices, readings, &pids);
        for pid in &self.found.unlisted {
            self.holdings.entry(*pid).or_default();
        }
        for holder in &self.found.holders {
            if let Some(pid) = holder.pid.filter(|pid| pids.binary_search(pid).is_ok()) {
                let of_process = self.holdings.entry(pid).or_default();
                of_process.push(GpuHolding {
                    index: holder.gpu,
                    used_bytes: holder.bytes,
                });
            }
        }
        for of_process in self.holdings.values_mut() {
            of_process.sort_by_key(|holding| Reverse(holding.used_bytes));
        }
    }

    /// What this process holds; `None` where it holds nothing.
    pub(crate) fn of_process(&self, pid: u32) -> Option<&Vec<GpuHolding>> {
        self.holdings.get(&pid)
    }

    /// The answer for the processes that are wanted. Those out of sight are other users' where their number is known, and may be anybody's where it is not.
    pub(crate) fn answer(
        &self,
        mut processes: Vec<WatchableProcess>,
        all: bool,
        python: bool,
    ) -> PsAnswer {
        processes.sort_by_key(|process| Reverse((process.gpu_bytes(), process.rss_bytes)));
        let is_matched =
            |holder: &GpuMemoryHolder| holder.pid.is_some_and(|pid| self.of_process(pid).is_some());
        let unmatched = self
            .found
            .holders
            .iter()
            .filter(|holder| !python && !is_matched(holder) && (all || holder.pid.is_none()));
        let mut unmatched: Vec<UnmatchedGpuHolding> = unmatched
            .map(|holder| UnmatchedGpuHolding {
                index: holder.gpu,
                pid: holder.pid,
                used_bytes: holder.bytes,
            })
            .collect();
        unmatched.sort_by_key(|holding| Reverse(holding.used_bytes));
        PsAnswer {
            unmatched_gpus: unmatched,
            notes: self.notes(),
            ..PsAnswer::new(processes)
        }
    }

    /// How many processes in sight hold memory and are not in the list, of which `shown` are: those of other users.
    pub(crate) fn of_others(&self, shown: usize) -> usize {
        self.holdings.len().saturating_sub(shown)
    }

    /// How many hold memory by the driver's account that are not in sight: they have ended, or have another number here.
    pub(crate) fn out_of_sight(&self) -> usize {
        let holders = self.found.holders.iter().filter_map(|holder| holder.pid);
        let unseen: BTreeSet<u32> = holders
            .filter(|pid| !self.holdings.contains_key(pid))
            .collect();
        unseen.len()
    }

    fn notes(&self) -> Vec<String> {
        let why = self.found.unknown.and_then(|share| share.unknown_because());
        let unknown = why.map(|why| format!("GPU memory of some processes is unknown: {why}"));
        let places = self.view.devices.iter().zip(&self.view.readings);
        let unread = places.filter_map(|(device, reading)| {
            let reason = reading.as_ref().err()?;
            Some(format!("GPU {} cannot be read: {reason}", device.index))
        });
        unknown.into_iter().chain(unread).collect()
    }
}

/// A row: a process, or nobody known, with what it holds on one GPU, or on one that is not known.
struct HolderRow<'a> {
    pid: Option<u32>,
    process: Option<&'a WatchableProcess>,
    gpu: Option<u32>,
    bytes: Option<u64>,
}

/// The most GPU memory first.
fn rows(answer: &PsAnswer) -> Vec<HolderRow<'_>> {
    let mut rows = Vec::new();
    for process in &answer.processes {
        let row = |gpu, bytes| HolderRow {
            pid: Some(process.pid),
            process: Some(process),
            gpu,
            bytes,
        };
        let gpus = process.gpus.as_deref().unwrap_or_default();
        match gpus {
            [] => rows.push(row(None, None)),
            gpus => rows.extend(gpus.iter().map(|gpu| row(Some(gpu.index), gpu.used_bytes))),
        }
    }
    rows.extend(answer.unmatched_gpus.iter().map(|holding| HolderRow {
        pid: holding.pid,
        process: None,
        gpu: Some(holding.index),
        bytes: holding.used_bytes,
    }));
    rows.sort_by_key(|row| Reverse(row.bytes));
    rows
}

pub(crate) fn write_text(
    out: &mut dyn Write,
    answer: &PsAnswer,
    command: fn(&str) -> String,
) -> std::io::Result<()> {
    let columns = [
        right("PID"),
        left("USER").drops(2),
        right("GPU"),
        right("GPU MEMORY"),
        right("MEMORY").drops(3),
        right("CPU%").drops(1),
        left("COMMAND"),
    ];
    let unknown = || "-".to_owned();
    let bytes = |bytes: u64| format_bytes(bytes as f64);
    let cells = rows(answer).into_iter().map(|row| {
        let user = row.process.map(|process| match &process.user {
            Some(user) => user.clone(),
            None => "?".to_owned(),
        });
        let percent = |process: &WatchableProcess| format!("{:.1}", process.cpu_percent);
        vec![
            row.pid.map_or_else(unknown, |pid| pid.to_string()),
            user.unwrap_or_else(unknown),
            row.gpu.map_or_else(unknown, |gpu| gpu.to_string()),
            row.bytes.map_or_else(unknown, bytes),
            row.process.map_or_else(unknown, |it| bytes(it.rss_bytes)),
            row.process.map_or_else(unknown, percent),
            row.process.map_or_else(unknown, |it| command(&it.command)),
        ]
    });
    let cells: Vec<Vec<String>> = cells.collect();
    write_table(out, Screen::stdout(), &columns, &cells).map(drop)
}

pub(crate) fn write_csv(out: &mut dyn Write, answer: &PsAnswer) -> std::io::Result<()> {
    let header = [
        "pid",
        "user",
        "gpu",
        "gpu_bytes",
        "rss_bytes",
        "cpu_percent",
        "cwd",
        "command",
    ];
    let mut csv = CsvRows::new(out, header)?;
    for row in rows(answer) {
        let process = row.process;
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        csv.number_if_known(row.pid)?;
        csv.text(&text(process.and_then(|it| it.user.as_ref())))?;
        csv.number_if_known(row.gpu)?;
        csv.number_if_known(row.bytes)?;
        csv.number_if_known(process.map(|it| it.rss_bytes))?;
        csv.number_if_known(process.map(|it| format!("{:.1}", it.cpu_percent)))?;
        csv.text(&text(process.and_then(|it| it.cwd.as_ref())))?;
        csv.text(&text(process.map(|it| &it.command)))?;
        csv.end_row()?;
    }
    csv.finish()
}
