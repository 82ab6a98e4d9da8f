//! Processes that do the same work: one that grows while the others stand still is a leak, whatever the job's sum looks like.
//!
//! Peers are children of one parent with the same name (`python train.py`): the ranks of a launcher, the workers of a loader. Their arguments may differ.
//! Each is kept as its lowest level in a few dozen slices of time, which double in length as the process ages.

use std::collections::BTreeMap;
use std::fmt;

use nilo_sample::units::{MIB, NANOS_PER_SEC, format_bytes, to_secs};
use nilo_sample::{Event, ProcessId, ProcessInfo};
use schemars::JsonSchema;
use serde::Serialize;

/// A process that grows while its peers do not.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct GrowingPeer {
    /// Its PID.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its rank, where its environment says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// How fast its lowest level rises.
    pub bytes_per_sec: f64,
    /// The slower half of the time.
    pub bytes_per_sec_low: f64,
    /// The faster half.
    pub bytes_per_sec_high: f64,
    /// How far it rose in the time that was compared.
    pub grown_bytes: f64,
    /// The most that any of the others rose in that time.
    pub others_grown_bytes: f64,
    /// How long that time is.
    pub compared_secs: f64,
    /// How many others there are.
    pub others: usize,
}

impl GrowingPeer {
    /// Who: `python train.py (PID 4711, rank 3)`.
    pub fn who(&self) -> String {
        match self.rank {
            Some(rank) => format!("{} (PID {}, rank {rank})", self.name, self.pid),
            None => format!("{} (PID {})", self.name, self.pid),
        }
    }
}

impl fmt::Display for GrowingPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = format_bytes(self.bytes_per_sec * 60.0);
        let others = self.others;
        write!(
            f,
            "{} grows {rate}/min while {others} similar processes are flat",
            self.who()
        )
    }
}

/// How Python's multiprocessing and joblib start workers that are not forked.
const WORKER_COMMANDS: [&str; 3] = [
    "multiprocessing.spawn",
    "multiprocessing.forkserver",
    "popen_loky_posix",
];
/// Slices of time of a process.
const SLICES: usize = 32;
/// The first length of a slice.
const FIRST_SLICE_NANOS: u64 = NANOS_PER_SEC / 2;
/// The share of the time together that counts as warm-up.
const WARM_UP: f64 = 0.3;
/// The shortest time, after the warm-up, in which peers are compared.
const SHORTEST_NANOS: u64 = 10 * NANOS_PER_SEC;
/// Growth of a process below this is not worth a word ...
const LEAST_BYTES: f64 = 16.0 * MIB as f64;
/// ... nor is growth below this share of its level.
const LEAST_OF_LEVEL: f64 = 0.05;
/// Others stand still if they rise by no more than this share of what the odd one does.
const STILL: f64 = 0.2;
/// With the odd one are those that rise by at least this share of what it does.
const ALIKE: f64 = 0.5;
/// Among this many peers, at most one is odd; among twice as many, two.
const PEERS_FOR_EACH_ODD: usize = 3;
/// Odd ones that are remembered after their end.
const MOST_ENDED: usize = 8;
/// Each half of the time rises at least this fast against the whole: a jump is no leak.
const EACH_HALF: f64 = 0.5;

/// The processes that are being followed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peers {
    processes: BTreeMap<ProcessId, PeerProcess>,
    now_nanos: u64,
    /// Some process was a worker of another for a while.
    had_workers: bool,
    /// Odd ones of groups that have begun to end: the job may end before anybody asks.
    ended: Vec<GrowingPeer>,
}

#[derive(Debug, Clone)]
struct PeerProcess {
    info: ProcessInfo,
    is_worker: bool,
    lows: SliceMinima,
}

impl Peers {
    /// Whether processes of the tree are, or were, workers of others: a subprocess that works alone is none.
    pub(crate) fn had_workers(&self) -> bool {
        self.had_workers
    }

    /// Whether a process was forked to work for its parent, or started for that by a library that says so.
    fn is_worker(&self, info: &ProcessInfo) -> bool {
        let is_started = WORKER_COMMANDS.iter().any(|by| info.command.contains(by));
        let is_forked = |(id, parent): (&ProcessId, &PeerProcess)| {
            id.pid == info.parent && parent.info.command == info.command
        };
        is_started || !info.command.is_empty() && self.processes.iter().any(is_forked)
    }

    pub(crate) fn happened(&mut self, event: &Event) {
        match event {
            Event::ProcessStarted { id, info } | Event::ProcessRenamed { id, info } => {
                // A new program in an old process is a new peer.
                let process = PeerProcess {
                    is_worker: self.is_worker(info),
                    info: info.clone(),
                    lows: SliceMinima::default(),
                };
                self.processes.insert(*id, process);
            }
            Event::ProcessEnded { id, .. } => {
                if let Some(process) = self.processes.get(id) {
                    let odd = self.odd_of(&self.peers_of(&process.info), None);
                    // The first of them to end saw them all.
                    let known =
                        |peer: &GrowingPeer| self.ended.iter().any(|known| known.pid == peer.pid);
                    let fresh: Vec<GrowingPeer> =
                        odd.into_iter().filter(|peer| !known(peer)).collect();
                    self.ended.extend(fresh);
                    self.ended.truncate(MOST_ENDED);
                }
                self.processes.remove(id);
            }
            _ => {}
        }
    }

    /// The same processes, of which nothing is known yet.
    pub(crate) fn restarted(&self) -> Peers {
        let mut restarted = self.clone();
        restarted.ended.clear();
        for process in restarted.processes.values_mut() {
            process.lows = SliceMinima::default();
        }
        restarted
    }

    pub(crate) fn take(&mut self, id: ProcessId, time_nanos: u64, rss_bytes: f64) {
        self.now_nanos = self.now_nanos.max(time_nanos);
        if let Some(process) = self.processes.get_mut(&id) {
            process.lows.put(time_nanos, rss_bytes);
            // Between fork and exec every child looks like its parent.
            let age_nanos = time_nanos.saturating_sub(process.lows.first_nanos);
            self.had_workers |= process.is_worker && age_nanos >= NANOS_PER_SEC;
        }
    }

    fn peers_of(&self, info: &ProcessInfo) -> Vec<(&ProcessId, &PeerProcess)> {
        let same = |process: &PeerProcess| {
            process.info.parent == info.parent && process.info.name == info.name
        };
        let peers = self.processes.iter();
        peers
            .filter(|(_, process)| same(process) && !process.lows.slices.is_empty())
            .collect()
    }

    /// How long a process has been read.
    pub(crate) fn age_nanos(&self, id: ProcessId) -> u64 {
        let known = self.processes.get(&id);
        let known = known.filter(|process| !process.lows.slices.is_empty());
        known.map_or(0, |process| {
            self.now_nanos.saturating_sub(process.lows.first_nanos)
        })
    }

    /// Those that grow by `least_bytes` or more while their peers stand still, the fastest first.
    /// Without it, growth counts from a share of the process's own level on.
    /// Those that have ended count only where the job `is_ending` with them: otherwise it has got their memory back.
    pub(crate) fn odd(&self, least_bytes: Option<f64>, is_ending: bool) -> Vec<GrowingPeer> {
        let mut groups: BTreeMap<(u32, &str), Vec<(&ProcessId, &PeerProcess)>> = BTreeMap::new();
        for (id, process) in &self.processes {
            if !process.lows.slices.is_empty() {
                let key = (process.info.parent, process.info.name.as_str());
                groups.entry(key).or_default().push((id, process));
            }
        }
        let mut found: Vec<GrowingPeer> = groups
            .into_values()
            .flat_map(|group| self.odd_of(&group, least_bytes))
            .collect();
        for peer in &self.ended {
            let told = found.iter().any(|known| known.pid == peer.pid);
            let lives = self.processes.keys().any(|id| id.pid == peer.pid);
            let is_large = least_bytes.is_none_or(|least| peer.grown_bytes >= least);
            if !told && is_large && (lives || is_ending) {
                found.push(peer.clone());
            }
        }
        found.sort_by(|a, b| b.bytes_per_sec.total_cmp(&a.bytes_per_sec));
        found
    }

    fn odd_of(
        &self,
        group: &[(&ProcessId, &PeerProcess)],
        least_bytes: Option<f64>,
    ) -> Vec<GrowingPeer> {
        if group.len() < PEERS_FOR_EACH_ODD {
            return Vec::new();
        }
        let begins = group.iter().map(|(_, process)| process.lows.first_nanos);
        let together = begins.max().unwrap_or(self.now_nanos);
        let from = together + (WARM_UP * self.now_nanos.saturating_sub(together) as f64) as u64;
        let compared = self.now_nanos.saturating_sub(from);
        if compared < SHORTEST_NANOS {
            return Vec::new();
        }
        let rises: Vec<BaselineRise> = group
            .iter()
            .map(|(_, process)| process.lows.rise(from, self.now_nanos))
            .collect();
        let grown = |rise: &BaselineRise| rise.bytes;
        let most = rises.iter().map(grown).fold(0.0, f64::max);
        let odd: Vec<usize> = (0..group.len())
            .filter(|place| rises[*place].bytes >= ALIKE * most)
            .collect();
        let others: Vec<f64> = rises
            .iter()
            .map(grown)
            .filter(|rise| *rise < ALIKE * most)
            .collect();
        let least = |process: &PeerProcess| {
            let usual = LEAST_BYTES.max(LEAST_OF_LEVEL * process.lows.held_bytes);
            least_bytes.unwrap_or(usual).max(1.0)
        };
        let others_most = others.iter().copied().fold(0.0, f64::max);
        let steady = odd.iter().all(|place| {
            let rise = &rises[*place];
            rise.slower_bytes_per_sec >= EACH_HALF * rise.bytes_per_sec
        });
        if odd
            .iter()
            .any(|place| rises[*place].bytes < least(group[*place].1))
            || odd.len() * PEERS_FOR_EACH_ODD > group.len()
            || others_most > STILL * most
            || !steady
        {
            return Vec::new();
        }
        let described = odd.into_iter().map(|place| {
            let (id, process) = group[place];
            let rise = &rises[place];
            GrowingPeer {
                pid: id.pid,
                name: process.info.name.clone(),
                rank: process.info.rank,
                bytes_per_sec: rise.bytes_per_sec,
                bytes_per_sec_low: rise.slower_bytes_per_sec,
                bytes_per_sec_high: rise.faster_bytes_per_sec,
                grown_bytes: rise.bytes,
                others_grown_bytes: others_most,
                compared_secs: to_secs(compared),
                others: others.len(),
            }
        });
        described.collect()
    }
}

/// How far a lowest level rose, and how fast in the slower and in the faster half of the time.
struct BaselineRise {
    bytes: f64,
    bytes_per_sec: f64,
    slower_bytes_per_sec: f64,
    faster_bytes_per_sec: f64,
}

/// The lowest level in each slice of time since the first reading.
#[derive(Debug, Clone)]
struct SliceMinima {
    first_nanos: u64,
    slice_nanos: u64,
    slices: Vec<f64>,
    /// Rows are written only when something changed: what was read last still holds.
    held_bytes: f64,
}

impl Default for SliceMinima {
    fn default() -> SliceMinima {
        SliceMinima {
            first_nanos: 0,
            slice_nanos: FIRST_SLICE_NANOS,
            slices: Vec::new(),
            held_bytes: 0.0,
        }
    }
}

impl SliceMinima {
    fn put(&mut self, time_nanos: u64, bytes: f64) {
        if self.slices.is_empty() {
            self.first_nanos = time_nanos;
            self.held_bytes = bytes;
        }
        let age = time_nanos.saturating_sub(self.first_nanos);
        while age / self.slice_nanos >= SLICES as u64 {
            let pairs = self.slices.chunks(2);
            self.slices = pairs
                .map(|pair| pair.iter().copied().fold(f64::INFINITY, f64::min))
                .collect();
            self.slice_nanos *= 2;
        }
        let slice = (age / self.slice_nanos) as usize;
        while self.slices.len() <= slice {
            self.slices.push(self.held_bytes);
        }
        self.slices[slice] = self.slices[slice].min(bytes);
        self.held_bytes = bytes;
    }

    /// Between the usual lows of the first, the middle and the last fifth of this time.
    fn rise(&self, from_nanos: u64, to_nanos: u64) -> BaselineRise {
        let fifth = to_nanos.saturating_sub(from_nanos) / 5;
        let [begin, middle, end] = [0, 2, 4].map(|number| {
            let part = from_nanos + fifth * number;
            self.usual_low(part, part + fifth)
        });
        let half_secs = to_secs(fifth * 2).max(f64::MIN_POSITIVE);
        let halves = [(middle - begin) / half_secs, (end - middle) / half_secs];
        let bytes_per_sec = (halves[0] + halves[1]) / 2.0;
        BaselineRise {
            bytes: (bytes_per_sec * to_secs(fifth * 5)).min(self.range(from_nanos, to_nanos)),
            bytes_per_sec,
            slower_bytes_per_sec: halves[0].min(halves[1]),
            faster_bytes_per_sec: halves[0].max(halves[1]),
        }
    }

    /// From the lowest to the highest level that is known of this time.
    fn range(&self, from_nanos: u64, to_nanos: u64) -> f64 {
        let known = || self.within(from_nanos, to_nanos).chain([self.held_bytes]);
        known().fold(0.0, f64::max) - known().fold(f64::INFINITY, f64::min)
    }

    fn within(&self, from_nanos: u64, to_nanos: u64) -> impl Iterator<Item = f64> {
        let slice_of =
            |time: u64| (time.saturating_sub(self.first_nanos) / self.slice_nanos) as usize;
        let (from, to) = (slice_of(from_nanos), slice_of(to_nanos));
        self.slices.iter().take(to + 1).skip(from).copied()
    }

    /// The median low of the slices of this time: the last one may be of a process that is giving its memory back as it ends.
    fn usual_low(&self, from_nanos: u64, to_nanos: u64) -> f64 {
        let mut lows: Vec<f64> = self.within(from_nanos, to_nanos).collect();
        lows.sort_unstable_by(f64::total_cmp);
        lows.get(lows.len() / 2).copied().unwrap_or(self.held_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = super::MIB as f64;

    /// Peers under one parent, read each half second for so long, each with a level in MiB over seconds.
    fn peers(secs: u64, levels: &[&dyn Fn(f64) -> f64]) -> Peers {
        let mut peers = Peers::default();
        for number in 0..levels.len() {
            let info = ProcessInfo {
                parent: 7,
                name: "python train.py".to_owned(),
                command: format!("python train.py {number}"),
                rank: Some(number as u32),
                ..ProcessInfo::default()
            };
            peers.happened(&Event::ProcessStarted {
                id: id(number),
                info,
            });
        }
        for half in 0..secs * 2 {
            for (number, level) in levels.iter().enumerate() {
                let bytes = level(half as f64 / 2.0) * MIB;
                peers.take(id(number), half * NANOS_PER_SEC / 2, bytes);
            }
        }
        peers
    }

    fn id(number: usize) -> ProcessId {
        ProcessId {
            pid: 100 + number as u32,
            start_ticks: 5,
        }
    }

    fn still(secs: f64) -> f64 {
        900.0 + 40.0 * (secs % 4.0)
    }

    #[test]
    fn one_rank_that_grows_among_peers_that_do_not_is_named() {
        let peers = peers(120, &[&still, &|t| still(t) + t, &still, &still]);
        let odd = peers.odd(Some(16.0 * MIB), false);
        assert_eq!(odd.len(), 1);
        assert_eq!((odd[0].pid, odd[0].rank, odd[0].others), (101, Some(1), 3));
        assert!((odd[0].bytes_per_sec / MIB - 1.0).abs() < 0.3, "{odd:?}");
    }

    #[test]
    fn peers_that_all_grow_are_no_odd_ones() {
        let growing = |t: f64| still(t) + t;
        assert!(
            peers(120, &[&growing, &growing, &growing])
                .odd(Some(16.0 * MIB), false)
                .is_empty()
        );
    }

    #[test]
    fn one_that_grows_faster_than_others_that_grow_too_is_no_odd_one() {
        let slow = |t: f64| still(t) + 0.35 * t;
        let peers = peers(120, &[&slow, &|t| still(t) + t, &slow, &slow]);
        assert!(peers.odd(Some(16.0 * MIB), false).is_empty());
    }

    #[test]
    fn two_peers_are_too_few_to_say_which_is_odd() {
        let peers = peers(120, &[&still, &|t| still(t) + t]);
        assert!(peers.odd(Some(16.0 * MIB), false).is_empty());
    }

    #[test]
    fn a_jump_of_one_rank_is_no_leak() {
        let saves = |t: f64| still(t) + if t > 80.0 { 300.0 } else { 0.0 };
        assert!(
            peers(120, &[&still, &saves, &still, &still])
                .odd(Some(16.0 * MIB), false)
                .is_empty()
        );
    }

    #[test]
    fn growth_that_ends_with_the_warm_up_is_none() {
        let loads = |t: f64| still(t) + 20.0 * t.min(20.0);
        assert!(
            peers(120, &[&still, &loads, &still])
                .odd(Some(16.0 * MIB), false)
                .is_empty()
        );
    }

    #[test]
    fn growth_is_never_told_as_more_than_the_level_rose() {
        let flat = |_: f64| 900.0;
        let stops = |t: f64| 900.0 + (t.min(108.0) - 36.0).max(0.0);
        let odd = peers(120, &[&flat, &stops, &flat, &flat]).odd(None, false);
        assert!(
            (60.0..=72.0).contains(&(odd[0].grown_bytes / MIB)),
            "{odd:?}"
        );
    }

    #[test]
    fn below_the_threshold_nothing_is_said() {
        let peers = peers(120, &[&still, &|t| still(t) + t, &still]);
        assert!(peers.odd(Some(1000.0 * MIB), false).is_empty());
    }

    #[test]
    fn what_was_odd_when_the_peers_ended_is_told_where_the_job_ended_with_them() {
        let mut peers = peers(120, &[&still, &|t| still(t) + t, &still]);
        for number in [2, 0, 1] {
            peers.happened(&Event::ProcessEnded {
                id: id(number),
                peak_rss_bytes: None,
                exit_code: None,
                signal: None,
            });
        }
        assert!(peers.processes.is_empty());
        assert_eq!(peers.odd(None, true)[0].others, 2);
        assert!(peers.odd(Some(1000.0 * MIB), true).is_empty());
        assert!(peers.odd(None, false).is_empty(), "the job went on");
    }

    #[test]
    fn a_process_that_becomes_another_program_begins_anew() {
        let mut peers = peers(120, &[&still, &|t| still(t) + t, &still]);
        let info = peers.processes[&id(1)].info.clone();
        peers.happened(&Event::ProcessRenamed { id: id(1), info });
        assert!(peers.odd(None, false).is_empty());
    }

    #[test]
    fn a_process_that_gives_its_memory_back_as_it_ends_has_grown_all_the_same() {
        let dies = |t: f64| if t < 29.0 { 100.0 + 10.0 * t } else { 20.0 };
        let peers = peers(30, &[&still, &still, &dies]);
        assert_eq!(peers.odd(None, false).len(), 1);
    }

    #[test]
    fn a_level_that_is_written_once_holds_until_the_next() {
        let mut lows = SliceMinima::default();
        lows.put(0, 10.0);
        lows.put(100 * NANOS_PER_SEC, 30.0);
        assert_eq!(lows.usual_low(50 * NANOS_PER_SEC, 60 * NANOS_PER_SEC), 10.0);
        assert!(lows.slices.len() <= SLICES);
        assert_eq!(lows.rise(0, 90 * NANOS_PER_SEC).bytes, 0.0);
    }
}
