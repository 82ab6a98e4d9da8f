//! When the tree is measured, and whom that takes in.
//!
//! `smaps_rollup` walks every page table of the target: 7 ms for 400 MB in small pages, 190 ms for 8 GiB.
//! So nothing is measured while nothing is in doubt, and what is measured is paid from a budget of CPU time.
//! A round may stretch over several ticks; it counts when it is complete, because a page's share depends on who else holds it.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::holdings::{Doubt, FamilyKey, FamilyState, Holdings};
use crate::linux::budget::CpuBudget;
use crate::linux::cpu_clock::own_thread_nanos;
use crate::linux::file_pages::FilePages;
use crate::linux::proc_folder::{ProcFolder, STAT_BYTES};
use crate::linux::stat::Rollup;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Doubt of one part in this many of the tree's memory is worth a measurement.
const DOUBT_PART: u64 = 100;
/// Whatever the tree's size, less doubt than this is not.
const LEAST_DOUBT_BYTES: u64 = 1 << 20;
/// A tree that has been quiet for this long is measured.
const QUIET_NANOS: u64 = NANOS_PER_SEC * 15 / 100;
/// One that never is quiet is measured this long after the doubt arose, and sooner when it may hold more than ever before.
const PATIENCE_NANOS: u64 = NANOS_PER_SEC;
const PATIENCE_AT_A_PEAK_NANOS: u64 = NANOS_PER_SEC / 10;
/// Much doubt away from a peak waits as long as a process may be seen to copy.
const PATIENCE_WITH_MUCH_NANOS: u64 = NANOS_PER_SEC / 5;
/// A peak of which one part in this many of the tree is in doubt is measured at once: short-lived workers are gone on the next tick.
const URGENT_PART: u64 = 16;
/// ... but so often only while more than this part of the budget is left: quiet trees come first.
const PART_FOR_QUIET_TREES: f64 = 0.25;
/// A measurement that moves the tree by less than one part in this many has confirmed the laws: the next one waits,
/// twice as long each time, unless processes come or go. The more is in doubt, the shorter; with this part of the tree, not at all.
const CONFIRMED_PART: u64 = 200;
const PAUSE_NANOS: (u64, u64) = (NANOS_PER_SEC / 2, 10 * NANOS_PER_SEC);
const MUCH_DOUBT_PART: u64 = 10;
/// Faults that are hardly in doubt, because such have turned out to be no copies, are checked all the same where they might be so many times
/// the least and the tree has stood still for this long: one that works all the time has no such moments, and one that rests is cheap to measure once.
const UNLIKELY_TIMES: u64 = 2;
const SETTLED_NANOS: u64 = NANOS_PER_SEC / 2;
/// The first measurement, of a tree that has settled.
const FIRST_NANOS: u64 = NANOS_PER_SEC / 2;
/// A tree at rest is measured again this often, or so seldom that it takes one part in this many of a core.
const REST_NANOS: u64 = 30 * NANOS_PER_SEC;
const REST_COST_FACTOR: u64 = 2000;
/// One tick measures for at most this share of the time between two, and this long, unless a single read takes longer.
const SLICE_PART: u64 = 5;
const SLICE_NANOS: (u64, u64) = (2_000_000, 20_000_000);
const SLICE_AT_A_PEAK_NANOS: u64 = 60_000_000;
/// On a busy machine so much CPU time can take seconds, in which nothing would be recorded: a slice ends after so many times its length.
const HELD_UP_TIMES: u32 = 6;
/// What looking at a resident page costs until it was measured here: small pages, their descriptions not in the cache.
const NANOS_PER_PAGE: f64 = 20.0;
const PAGE_BYTES: f64 = 4096.0;

/// What the tree looks like on this tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeState {
    pub(crate) now_nanos: u64,
    pub(crate) since_last_tick_nanos: u64,
    /// The last time a process joined or left.
    pub(crate) last_coming_nanos: u64,
    pub(crate) processes: usize,
}

/// A measurement of the tree that is under way.
#[derive(Debug, Default)]
struct MeasuringRound {
    queue: Vec<u32>,
    /// Families as they were at the beginning.
    families: HashMap<FamilyKey, FamilyState>,
    /// Everybody is measured, to renew the figures of each process.
    all: bool,
    /// The tree may hold more than ever before.
    at_peak: bool,
    /// It did not wait for the tree to be quiet.
    is_urgent: bool,
    /// The tree is a single process.
    is_alone: bool,
    /// Minor faults of each process at the beginning.
    began: HashMap<u32, u64>,
    measured: HashMap<u32, MeasuredProcess>,
    files: Option<FilePages>,
    file_doubt: Doubt,
    cost_nanos: u64,
    resident_bytes: u64,
}

impl MeasuringRound {
    /// Reads how many faults the processes have had that may share memory with others.
    fn count_faults(&mut self, proc: &ProcFolder, holdings: &Holdings) {
        for &pid in &self.queue {
            if holdings.has_relatives(pid)
                && let Some(faults) = read_faults(proc, pid)
            {
                self.began.insert(pid, faults);
            }
        }
    }

    /// How long a tick may measure, when the last one was so long ago: a peak waits for nobody.
    fn slice_nanos(&self, since_last_tick_nanos: u64) -> u64 {
        if self.at_peak {
            return SLICE_AT_A_PEAK_NANOS;
        }
        let (least, most) = SLICE_NANOS;
        (since_last_tick_nanos / SLICE_PART).clamp(least, most)
    }
}

/// Whether a slice is over, when so much CPU time was spent and so much time has passed.
fn is_over(slice_nanos: u64, spent_nanos: u64, passed: Duration) -> bool {
    spent_nanos > slice_nanos || passed > HELD_UP_TIMES * Duration::from_nanos(slice_nanos)
}

/// What was read of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeasuredProcess {
    pub(crate) rollup: Rollup,
    /// Minor faults when the round began, and when its turn came.
    pub(crate) faults_at_begin: Option<u64>,
    pub(crate) faults: Option<u64>,
}

/// A finished round.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) measured: HashMap<u32, MeasuredProcess>,
    /// Families that were measured, as they were at the beginning.
    pub(crate) families: HashMap<FamilyKey, FamilyState>,
    pub(crate) files: Option<FilePages>,
    /// What was in doubt of file pages at the beginning.
    pub(crate) file_doubt: Doubt,
    /// Measured in the middle of births and deaths.
    is_urgent: bool,
}

impl Findings {
    /// Whether they tell of the tree as it is. Where a process was forked between two reads, memory that both have is taken for one's own;
    /// a tree that has come to rest can be measured again, but one in motion would show a peak that never was.
    pub(crate) fn hold(&self, holdings: &Holdings) -> bool {
        let mut families = self.families.iter();
        !self.is_urgent || families.all(|(key, begin)| holdings.has_same_members(*key, begin))
    }
}

/// The state between ticks.
#[derive(Debug)]
pub(crate) struct Measuring {
    budget: CpuBudget,
    round: Option<MeasuringRound>,
    /// Why one should begin on this tick.
    why: Option<MeasureReason>,
    refused: HashSet<u32>,
    last_doubt: u64,
    doubt_rose_nanos: u64,
    last_claims: u64,
    claims_rose_nanos: u64,
    next_claims_nanos: u64,
    doubted_since_nanos: Option<u64>,
    last_round_nanos: Option<u64>,
    last_cost_nanos: u64,
    /// The last round was urgent, and told of a tree that had changed meanwhile: the next one counts whatever changes.
    was_dropped: bool,
    /// How long moderate doubts wait since then.
    pause_nanos: u64,
    /// What a resident page of this tree costs to look at.
    nanos_per_page: f64,
    /// The most that the tree has held for certain.
    peak_bytes: u64,
}

impl Measuring {
    pub(crate) fn new(budget: CpuBudget) -> Measuring {
        Measuring {
            budget,
            round: None,
            why: None,
            refused: HashSet::new(),
            last_doubt: 0,
            doubt_rose_nanos: 0,
            last_claims: 0,
            claims_rose_nanos: 0,
            next_claims_nanos: 0,
            doubted_since_nanos: None,
            last_round_nanos: None,
            last_cost_nanos: 0,
            was_dropped: false,
            pause_nanos: 0,
            nanos_per_page: NANOS_PER_PAGE,
            peak_bytes: 0,
        }
    }

    /// The tree was said to hold so much before a measurement, and does so after it.
    pub(crate) fn learn(&mut self, before_bytes: u64, after_bytes: u64) {
        let (least, most) = PAUSE_NANOS;
        let confirmed = before_bytes.abs_diff(after_bytes) < after_bytes / CONFIRMED_PART;
        self.pause_nanos = match confirmed {
            true => (2 * self.pause_nanos).clamp(least, most),
            false => 0,
        };
    }

    /// Whether findings count; the doubt of those that do not is as old as it was.
    pub(crate) fn keeps(&mut self, findings: &Findings, holdings: &Holdings) -> bool {
        self.was_dropped = !findings.hold(holdings);
        if self.was_dropped {
            self.doubted_since_nanos = Some(0);
        }
        !self.was_dropped
    }

    /// A process left; its number may be somebody else's soon.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.refused.remove(&pid);
        if let Some(round) = &mut self.round {
            round.measured.remove(&pid);
        }
    }

    /// Does something that looks at so much resident memory, and pays for it, if it can be afforded.
    pub(crate) fn look<T>(&mut self, resident_bytes: u64, look: impl FnOnce() -> T) -> Option<T> {
        let price = resident_bytes as f64 / PAGE_BYTES * self.nanos_per_page;
        if !self.budget.affords(price as u64) {
            return None;
        }
        let began = own_thread_nanos();
        let seen = look();
        self.budget.spend(own_thread_nanos().saturating_sub(began));
        Some(seen)
    }

    /// Whether a round is under way, or begins with this tick.
    pub(crate) fn is_due(&mut self, holdings: &Holdings, scene: TreeState) -> bool {
        self.budget.refill(scene.now_nanos);
        self.why = match self.round {
            None => self.reason(holdings, scene),
            Some(_) => None,
        };
        self.round.is_some() || self.why.is_some()
    }

    /// Goes on with a round, or begins the one that [`Measuring::is_due`] has found due, for part of the time between two ticks.
    ///
    /// `refused` is told of processes that may not be measured.
    pub(crate) fn step(
        &mut self,
        proc: &ProcFolder,
        holdings: &Holdings,
        pids: impl Iterator<Item = u32>,
        scene: TreeState,
        mut refused: impl FnMut(u32),
    ) -> Option<Findings> {
        let mut began_now = false;
        if self.round.is_none() {
            let round = self.begin(holdings, pids, self.why?);
            // What the savings do not pay for waits, or is left to the laws for good.
            let price = round.resident_bytes as f64 / PAGE_BYTES * self.nanos_per_page;
            if !self.budget.affords(price as u64) {
                return None;
            }
            self.round = Some(round);
            began_now = true;
        }
        let round = self.round.as_mut()?;
        let slice_nanos = round.slice_nanos(scene.since_last_tick_nanos);
        let began_at = Instant::now();
        let began = own_thread_nanos();
        let mut spent = 0;
        if began_now {
            round.count_faults(proc, holdings);
        }
        while let Some(pid) = round.queue.pop() {
            let family = holdings.family_of(pid);
            let wanted = round.all || family.is_some_and(|key| round.families.contains_key(&key));
            if wanted {
                // Before its memory, so that what it copies in between is doubted rather than missed.
                let faults = read_faults(proc, pid);
                match proc.rollup_of(pid) {
                    Ok(Some(rollup)) => {
                        let measured = MeasuredProcess {
                            rollup,
                            faults_at_begin: round.began.get(&pid).copied(),
                            faults,
                        };
                        round.measured.insert(pid, measured);
                    }
                    Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
                        self.refused.insert(pid);
                        refused(pid);
                        continue;
                    }
                    // About to go.
                    Ok(None) | Err(_) => {}
                }
            }
            if let Some(files) = &mut round.files {
                // Whose pages cannot be listed still counts with the largest part of one process.
                match round.is_alone {
                    true => files.add_alone(proc, pid).ok(),
                    false => files.add(proc, pid).ok(),
                };
            }
            spent = own_thread_nanos().saturating_sub(began);
            if is_over(slice_nanos, spent, began_at.elapsed()) {
                break;
            }
        }
        self.budget.spend(spent);
        round.cost_nanos += spent;
        if !round.queue.is_empty() {
            return None;
        }
        let round = self.round.take()?;
        let pages = (round.resident_bytes as f64 / PAGE_BYTES).max(1000.0);
        self.nanos_per_page = (self.nanos_per_page + round.cost_nanos as f64 / pages) / 2.0;
        self.last_round_nanos = Some(scene.now_nanos);
        self.last_cost_nanos = round.cost_nanos;
        self.doubted_since_nanos = None;
        Some(Findings {
            measured: round.measured,
            families: round.families,
            files: round.files,
            file_doubt: round.file_doubt,
            is_urgent: round.is_urgent,
        })
    }

    fn begin(
        &mut self,
        holdings: &Holdings,
        pids: impl Iterator<Item = u32>,
        why: MeasureReason,
    ) -> MeasuringRound {
        let (least, urgency) = match why {
            MeasureReason::Doubt {
                least_bytes,
                urgency,
            } => (least_bytes, urgency),
            MeasureReason::Claims { least_bytes } => (least_bytes, Urgency::Usual),
            MeasureReason::First | MeasureReason::Rest => (0, Urgency::Usual),
        };
        let all = matches!(why, MeasureReason::First | MeasureReason::Rest);
        // One round for both, where there is time.
        let claims = match why {
            _ if urgency != Urgency::Usual => HashMap::new(),
            _ => holdings.family_claims(),
        };
        let open =
            |(key, doubt): (FamilyKey, u64)| (key, doubt + claims.get(&key).copied().unwrap_or(0));
        let doubted = holdings.family_doubts().map(open);
        let families: HashMap<FamilyKey, FamilyState> = doubted
            .filter(|(_, open)| all || *open > least)
            .filter_map(|(key, _)| Some((key, holdings.state_of(key)?)))
            .collect();
        let files = all || holdings.file_doubt_bytes() > least;
        let wanted = pids.filter(|pid| {
            let family = || holdings.family_of(*pid);
            let measured = all || files || family().is_some_and(|key| families.contains_key(&key));
            measured && !self.refused.contains(pid)
        });
        let queue: Vec<u32> = wanted.collect();
        // Where files alone are in doubt, anonymous memory is not walked.
        let resident = queue.iter().map(|pid| match families.is_empty() && !all {
            true => holdings.file_bytes(*pid),
            false => holdings.resident_bytes(*pid),
        });
        MeasuringRound {
            resident_bytes: resident.sum(),
            is_alone: !holdings.is_shared(),
            queue,
            families,
            all,
            at_peak: urgency != Urgency::Usual,
            is_urgent: urgency == Urgency::AtOnce,
            files: files.then(FilePages::default),
            file_doubt: holdings.file_doubt(),
            ..MeasuringRound::default()
        }
    }

    /// Whether the laws were confirmed not long ago, for the processes that are there. Doubt of so many times the least shortens the pause.
    fn is_pausing(&self, scene: TreeState, times_the_least: u64) -> bool {
        let pause_nanos = self.pause_nanos / times_the_least.max(1);
        self.last_round_nanos.is_some_and(|last| {
            scene.last_coming_nanos <= last && scene.now_nanos.saturating_sub(last) < pause_nanos
        })
    }

    /// Whether a tree that stands still may hold more copies than are in doubt.
    fn has_unlikely_claims(&mut self, holdings: &Holdings, scene: TreeState, least: u64) -> bool {
        if scene.now_nanos < self.next_claims_nanos {
            return false;
        }
        self.next_claims_nanos = scene.now_nanos.saturating_add(SETTLED_NANOS / 2);
        let claims: u64 = holdings.family_claims().values().sum();
        if claims > self.last_claims {
            self.claims_rose_nanos = scene.now_nanos;
        }
        self.last_claims = claims;
        let moved = scene.last_coming_nanos.max(self.claims_rose_nanos);
        claims > UNLIKELY_TIMES * least
            && self.budget.saved_part() > PART_FOR_QUIET_TREES
            && scene.now_nanos.saturating_sub(moved) >= SETTLED_NANOS
            && !self.is_pausing(scene, claims / least)
    }

    /// Why a round should begin now, if it should.
    fn reason(&mut self, holdings: &Holdings, scene: TreeState) -> Option<MeasureReason> {
        let now = scene.now_nanos;
        let doubt: u64 = holdings.family_doubts().map(|(_, doubt)| doubt).sum();
        let doubt = doubt + holdings.file_doubt_bytes();
        if doubt > self.last_doubt {
            self.doubt_rose_nanos = now;
        }
        self.last_doubt = doubt;
        let least = (holdings.bytes() / DOUBT_PART).max(LEAST_DOUBT_BYTES);
        if doubt <= least {
            self.doubted_since_nanos = None;
            self.peak_bytes = self.peak_bytes.max(holdings.bytes());
        }
        if !self.budget.allows() || scene.processes == 0 {
            return None;
        }
        let since = |then: u64| now.saturating_sub(then);
        if doubt > least {
            let likely = holdings.likely_doubt_bytes();
            // What one process maps a second time would be a peak that never was, however often the laws were right.
            let may_be_twice = holdings.raised_file_bytes() > least;
            if self.is_pausing(scene, doubt / least)
                && likely < holdings.bytes() / MUCH_DOUBT_PART
                && !may_be_twice
            {
                return None;
            }
            let doubted_since = *self.doubted_since_nanos.get_or_insert(now);
            let quiet = since(scene.last_coming_nanos.max(self.doubt_rose_nanos)) >= QUIET_NANOS;
            // Half of what may have been copied is in doubt.
            let at_peak = holdings.bytes() + 2 * doubt > self.peak_bytes;
            let is_much = likely > holdings.bytes() / URGENT_PART || may_be_twice;
            let urgency = match at_peak {
                true if !quiet && is_much && !self.was_dropped => Urgency::AtOnce,
                true => Urgency::Peak,
                false => Urgency::Usual,
            };
            let patience = match urgency {
                Urgency::AtOnce => 0,
                Urgency::Peak => PATIENCE_AT_A_PEAK_NANOS,
                Urgency::Usual if is_much => PATIENCE_WITH_MUCH_NANOS,
                Urgency::Usual => PATIENCE_NANOS,
            };
            // Where ticks are rare, the doubt may be as old as the last one, and would stand until the next.
            let is_old =
                since(doubted_since) >= patience || scene.since_last_tick_nanos >= PATIENCE_NANOS;
            let unquiet = (likely > least || may_be_twice)
                && is_old
                && self.budget.saved_part() > PART_FOR_QUIET_TREES;
            if quiet || unquiet {
                return Some(MeasureReason::Doubt {
                    least_bytes: least / 8,
                    urgency,
                });
            }
            return None;
        }
        if self.has_unlikely_claims(holdings, scene, least) {
            return Some(MeasureReason::Claims {
                least_bytes: least / 8,
            });
        }
        match self.last_round_nanos {
            None => (since(scene.last_coming_nanos) >= FIRST_NANOS).then_some(MeasureReason::First),
            Some(last) => {
                let pause = REST_NANOS.max(self.last_cost_nanos.saturating_mul(REST_COST_FACTOR));
                (since(last) >= pause).then_some(MeasureReason::Rest)
            }
        }
    }
}

/// How soon a doubt is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Usual,
    /// The tree may hold more than ever before.
    Peak,
    /// ... and much more: who holds it may be gone on the next tick.
    AtOnce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeasureReason {
    /// Faults of a tree that stands still may have copied more than is in doubt; sets with less than this are left alone.
    Claims { least_bytes: u64 },
    /// Nothing was measured yet.
    First,
    /// The estimate may be off; sets in which less than this is in doubt are left alone.
    Doubt { least_bytes: u64, urgency: Urgency },
    /// The last measurement is old.
    Rest,
}

/// Reads how many minor faults a process has had.
fn read_faults(proc: &ProcFolder, pid: u32) -> Option<u64> {
    let mut buffer = [0; STAT_BYTES];
    proc.stat_of(pid, &mut buffer).map(|stat| stat.minor_faults)
}

#[cfg(test)]
#[path = "measuring_tests.rs"]
mod tests;
