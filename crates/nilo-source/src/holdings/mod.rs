//! How much memory a tree holds: the number of distinct pages, each counted once and in full.
//!
//! A sum of RSS counts a page once for each process that maps it, and PSS divides it by strangers.
//! So the tree is followed by laws that hold whatever the processes do: a fork adds nothing, an exit removes only what
//! the process held alone, `exec` removes that and starts anew, new anonymous memory belongs to the process that grew.
//! What the laws leave open is kept as a *doubt*: copies of inherited pages (which show as page faults, not in RSS),
//! whose memory was freed, whether new file pages were in the tree already.
//! When the doubt is worth it, the processes are measured, and the estimate starts again from exact figures.
//!
//! Anonymous memory is shared inside a *family*: processes forked from one another without `exec`.
//! Pages of files and shared memory are shared by the whole tree.

mod bias;
mod birth_copies;
mod copied_share;
mod family;
mod file_holdings;
mod holding;
mod shared_set;

use std::collections::{HashMap, HashSet};

pub(crate) use file_holdings::{CountedFiles, LEAST_TWICE_BYTES, PlainFiles};
pub(crate) use holding::{Holding, Measured};

use family::Family;
pub(crate) use family::FamilyKey;
pub(crate) use shared_set::{Doubt, MemberShare};
use shared_set::{SharedBytes, SharedSet};

use crate::tracked_process::ProcessReading;

/// The laws of fork and exit are exact as far as we see them; one part in this many of the shared memory stays in doubt.
const CHANGE_PART: u64 = 500;
/// Where somebody joined or left during a measurement, one part in this many stays in doubt, so that it is repeated.
const INCOMPLETE_PART: u64 = 50;

/// What is left after sharing out is given to somebody from one part in this many of the family: four workers that copy
/// while they are measured one by one leave up to 4 %.
const SMALL_REST_PART: u64 = 20;

/// A process that joins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewProcess {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) family: FamilyKey,
    pub(crate) reading: ProcessReading,
    /// Minor faults since its birth.
    pub(crate) faults: u64,
    /// It was born since the last tick.
    pub(crate) is_newborn: bool,
    /// What it has mapped more than once, where that was counted.
    pub(crate) mapped_twice_bytes: Option<u64>,
}

/// A family when it began to be measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FamilyState {
    /// How often somebody had joined or left.
    changes: u64,
    doubt: Doubt,
    left_bytes: u64,
}

/// What the faults of a process say about copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FaultEvidence {
    /// What they may have copied, and is not counted.
    pub(crate) doubted_bytes: u64,
    /// What siblings of the process have copied with such faults, and is counted as its own.
    pub(crate) counted_bytes: u64,
}

/// What several processes copied, of what they might have.
#[derive(Debug, Clone, Copy, Default)]
struct CopiesSum {
    copied: u64,
    claimed: u64,
    /// By one of them.
    most: u64,
}

impl CopiesSum {
    fn add(&mut self, copied: u64, claimed: u64) {
        self.copied += copied;
        self.claimed += claimed;
        self.most = self.most.max(copied);
    }
}

/// What the tree holds, and how sure that is.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    processes: HashMap<u32, Holding>,
    families: HashMap<FamilyKey, Family>,
    files: SharedSet,
    page_bytes: u64,
}

impl Holdings {
    pub(crate) fn new(page_bytes: u64) -> Holdings {
        Holdings {
            page_bytes,
            ..Holdings::default()
        }
    }

    /// A process joined: by `fork` when a relative is in the tree, otherwise with memory of its own.
    pub(crate) fn join(&mut self, newcomer: NewProcess) {
        let key = newcomer.family;
        let family = self.families.entry(key).or_default();
        let relatives = self.processes.iter_mut();
        let relatives = relatives.filter(|(_, other)| other.family == key);
        // Where the parent has ended or was never seen, the relative with most stands for it.
        let parent =
            relatives.max_by_key(|(pid, other)| (**pid == newcomer.parent, other.anon.bytes));
        let mut holding = match parent {
            Some((_, parent)) => {
                let (holding, doubted) =
                    Holding::forked(&newcomer, parent, family, self.page_bytes);
                family.anon.add(holding.anon.alone);
                // What newborns usually copy is in what it holds already.
                let open = holding.anon.bytes / CHANGE_PART + doubted;
                family.anon.doubt_either_way(open);
                family.anon.doubt_is_about_copies(doubted);
                if family.measured_since_look {
                    family.anon.doubt_again(holding.anon.pooled() / 2);
                }
                holding
            }
            None => {
                let holding = Holding::fresh(key, newcomer.reading, newcomer.faults);
                family.anon.add(holding.anon.bytes);
                holding
            }
        };
        if !self.processes.is_empty() {
            self.files.doubt(holding.file.bytes / CHANGE_PART);
        }
        if let Some(twice) = newcomer.mapped_twice_bytes {
            holding.begin_with_mapped_twice(twice);
        }
        let raised = self.files.include(holding.file.bytes);
        match newcomer.mapped_twice_bytes {
            Some(_) => self.files.prove_raised(raised),
            // It may have mapped some of it twice.
            None => {
                self.files.doubt(raised);
                holding.raised_bytes = raised;
            }
        }
        family.enter();
        self.processes.insert(newcomer.pid, holding);
    }

    /// Everybody who could be found has joined.
    pub(crate) fn end_look(&mut self) {
        for family in self.families.values_mut() {
            family.measured_since_look = false;
        }
    }

    /// A process left: what it held alone is gone.
    pub(crate) fn leave(&mut self, pid: u32) {
        let Some(holding) = self.processes.remove(&pid) else {
            return;
        };
        self.files.remove(holding.file.alone);
        self.files.doubt(holding.file.pooled() / CHANGE_PART);
        self.leave_family(&holding);
    }

    fn leave_family(&mut self, holding: &Holding) {
        if let Some(family) = self.families.get_mut(&holding.family) {
            family.exit();
            family.anon.remove(holding.anon.alone);
            let pooled = holding.anon.pooled();
            // What it shared with those who left before may have been its own by now.
            let own_by_now = pooled.min(family.left_bytes) / 2;
            family.anon.doubt_either_way(pooled / CHANGE_PART);
            family.doubt(holding.copied_unproved / 2 + own_by_now);
            family.left_bytes = family.left_bytes.saturating_add(pooled);
            if family.members == 0 {
                self.families.remove(&holding.family);
            }
        }
    }

    /// A process replaced its memory by `exec`: it left its family and founds another.
    pub(crate) fn exec(&mut self, pid: u32, family: FamilyKey, faults: u64) {
        let Some(mut holding) = self.processes.remove(&pid) else {
            return;
        };
        if holding.family == family {
            self.processes.insert(pid, holding);
            return;
        }
        self.leave_family(&holding);
        holding.found_family(family, faults);
        let founded = self.families.entry(family).or_default();
        founded.enter();
        // Children that it had since then, before anybody noticed, share what it had at that time.
        let relatives = self.processes.values_mut();
        let relatives = relatives.filter(|other| other.family == family);
        if let Some(child) = relatives.max_by_key(|other| other.anon.bytes) {
            let shared = child.anon.bytes.min(holding.anon.bytes);
            holding.anon.alone -= shared;
            child.anon.alone = child.anon.alone.saturating_sub(shared);
            founded.doubt(shared / 2);
        }
        founded.anon.add(holding.anon.alone);
        self.processes.insert(pid, holding);
    }

    /// A process has this memory now. Says whether it gave back memory that relatives are taken to hold on to.
    pub(crate) fn update(&mut self, pid: u32, reading: ProcessReading) -> bool {
        let mut left_to_relatives = false;
        let Some(holding) = self.processes.get_mut(&pid) else {
            return left_to_relatives;
        };
        let (anon_before, file_before) = (holding.anon, holding.file);
        let is_proved = holding.has_seen_mapped_twice();
        let moved = holding.follow(reading);
        if let Some(family) = self.families.get_mut(&holding.family) {
            family.anon.follow(anon_before.alone, holding.anon.alone);
            if family.members > 1 {
                // No more can have been shared than was.
                let freed = anon_before.bytes.saturating_sub(holding.anon.bytes);
                family.doubt(freed.min(anon_before.pooled()) / 2);
                let unshared = anon_before.pooled().saturating_sub(holding.anon.pooled());
                left_to_relatives = unshared > family.anon.bytes() / SMALL_REST_PART;
            }
        }
        self.files.follow(file_before.alone, holding.file.alone);
        holding.raised_bytes += self.files.include(holding.file.bytes);
        if is_proved {
            self.files
                .prove_raised(std::mem::take(&mut holding.raised_bytes));
        }
        // Others may have the same pages; so may the process itself, which can map a file twice.
        self.files.doubt(moved);
        left_to_relatives
    }

    /// A process has had this many faults: those that its growth does not explain may have copied inherited pages.
    pub(crate) fn count_faults(&mut self, pid: u32, faults: u64, is_young: bool) -> FaultEvidence {
        let nothing = FaultEvidence::default();
        let Some(holding) = self.processes.get_mut(&pid) else {
            return nothing;
        };
        let Some(family) = self.families.get_mut(&holding.family) else {
            return nothing;
        };
        let shares = family.members > 1;
        let doubted = holding.count_faults(faults, shares, self.page_bytes);
        holding.is_young &= is_young;
        let expected = match holding.is_young && shares {
            true => holding.expect_copies(family.birth_copies),
            false => 0,
        };
        family.anon.add(expected);
        let doubted = doubted.saturating_sub(expected / 2);
        match holding.is_young {
            true => family.anon.doubt_either_way(doubted),
            false => family.doubt(doubted),
        }
        family.anon.doubt_is_about_copies(doubted);
        FaultEvidence {
            doubted_bytes: doubted,
            counted_bytes: expected,
        }
    }

    /// Brings every figure inside what is possible; call once a tick, after all updates.
    pub(crate) fn settle(&mut self) {
        self.files.begin_settling();
        for family in self.families.values_mut() {
            family.anon.begin_settling();
        }
        for holding in self.processes.values() {
            self.files.look_at(&holding.file);
            if let Some(family) = self.families.get_mut(&holding.family) {
                family.anon.look_at(&holding.anon);
            }
        }
        self.files.settle();
        for family in self.families.values_mut() {
            family.anon.settle();
        }
        // Who is alone shares with nobody.
        let alone = self.processes.len() == 1;
        for holding in self.processes.values_mut() {
            if alone {
                holding.file.alone = holding.file.bytes;
            }
            if self
                .families
                .get(&holding.family)
                .is_some_and(|family| family.members == 1)
            {
                holding.anon.alone = holding.anon.bytes;
                holding.copied_unproved = 0;
            }
        }
        for family in self
            .families
            .values_mut()
            .filter(|family| family.members == 1)
        {
            family.anon.be_certain();
        }
    }

    /// Bytes in distinct pages.
    pub(crate) fn bytes(&self) -> u64 {
        let anon: u64 = self
            .families
            .values()
            .map(|family| family.anon.bytes())
            .sum();
        anon + self.files.bytes()
    }

    /// Bytes by which anonymous memory of one family may be off.
    pub(crate) fn family_doubts(&self) -> impl Iterator<Item = (FamilyKey, u64)> {
        self.families
            .iter()
            .map(|(key, family)| (*key, family.anon.doubt_bytes()))
    }

    /// Bytes of one family that faults may have copied since it was measured, however unlikely measurements have made it.
    pub(crate) fn family_claims(&self) -> HashMap<FamilyKey, u64> {
        let mut claims = HashMap::new();
        let related = |holding: &&Holding| {
            let family = self.families.get(&holding.family);
            family.is_some_and(|family| family.members > 1)
        };
        for holding in self.processes.values().filter(related) {
            *claims.entry(holding.family).or_default() += holding.claimed_bytes();
        }
        claims
    }

    /// Bytes by which all of it may be off, as far as measurements have shown what the laws are worth here.
    pub(crate) fn likely_doubt_bytes(&self) -> u64 {
        let families = self.families.values();
        let anon: u64 = families
            .map(|family| family.anon.likely_doubt_bytes())
            .sum();
        anon + self.files.likely_doubt_bytes()
    }

    /// Whether a process has relatives with whom it may share anonymous memory.
    pub(crate) fn has_relatives(&self, pid: u32) -> bool {
        let family = self
            .processes
            .get(&pid)
            .and_then(|holding| self.families.get(&holding.family));
        family.is_some_and(|family| family.members > 1)
    }

    /// All that a process holds, shared or not.
    pub(crate) fn resident_bytes(&self, pid: u32) -> u64 {
        let holding = self.processes.get(&pid);
        holding.map_or(0, |holding| holding.anon.bytes + holding.file.bytes)
    }

    /// Whether there is more than one process.
    pub(crate) fn is_shared(&self) -> bool {
        self.processes.len() > 1
    }

    /// How a family is now.
    pub(crate) fn state_of(&self, key: FamilyKey) -> Option<FamilyState> {
        self.families.get(&key).map(|family| FamilyState {
            changes: family.changes,
            doubt: family.anon.open(),
            left_bytes: family.left_bytes,
        })
    }

    /// Whether nobody joined or left since then.
    pub(crate) fn has_same_members(&self, key: FamilyKey, then: &FamilyState) -> bool {
        let family = self.families.get(&key);
        family.is_some_and(|family| family.changes == then.changes)
    }

    pub(crate) fn family_of(&self, pid: u32) -> Option<FamilyKey> {
        self.processes.get(&pid).map(|holding| holding.family)
    }

    /// A process is seen to give back its memory.
    pub(crate) fn begin_leaving(&mut self, pid: u32) {
        if let Some(holding) = self.processes.get_mut(&pid) {
            holding.is_leaving = true;
        }
    }

    /// A family was measured. Proportional shares add up when nobody joined or left since it began, and nobody is about to.
    pub(crate) fn take_anon(
        &mut self,
        key: FamilyKey,
        begin: FamilyState,
        measured: &HashMap<u32, Measured>,
    ) {
        let Some(family) = self.families.get_mut(&key) else {
            return;
        };
        let mut members = self.processes.values();
        let nobody_leaves = !members.any(|holding| holding.family == key && holding.is_leaving);
        let complete = family.changes == begin.changes && nobody_leaves;
        let is_member = |pid: &u32| {
            self.processes
                .get(pid)
                .is_some_and(|holding| holding.family == key)
        };
        if !measured.keys().any(is_member) {
            // Nobody may be measured: doubting on would only cost.
            family.anon.be_certain();
            return;
        }
        let (mut alone, mut most_pooled, mut proportional) = (0, 0, 0);
        let mut has_strangers = false;
        let (mut copied, mut claimed) = (0, 0);
        let mut unproved = 0;
        let mut copied_meanwhile = 0;
        let mut at_birth = CopiesSum::default();
        let members = self.processes.iter_mut();
        for (pid, holding) in members.filter(|(_, holding)| holding.family == key) {
            match measured.get(pid).filter(|_| !holding.is_leaving) {
                Some(measured) => {
                    if complete && let Some(learned) = holding.learn(measured) {
                        copied += learned.0;
                        claimed += learned.1;
                        if holding.is_young {
                            at_birth.add(learned.0, learned.1);
                        }
                    }
                    unproved += holding.claimed_bytes();
                    let possible = measured.faults_since_begin * self.page_bytes;
                    copied_meanwhile += holding.doubted_copies(possible);
                    holding.take_anon(measured, self.page_bytes);
                    has_strangers |= measured.is_shared_by_more_than(family.members);
                    let grown = holding.anon.bytes.saturating_sub(measured.anon_bytes);
                    let freed = measured.anon_bytes.saturating_sub(holding.anon.bytes);
                    let freed = freed.min(measured.anon_alone_bytes);
                    proportional += (measured.anon_pss_bytes + grown).saturating_sub(freed);
                }
                // It joined meanwhile, or may not be measured: the laws are all there is.
                // What it shares is left out, because one that is about to go shares nothing any more.
                None => {
                    proportional += holding.anon.alone;
                    alone += holding.anon.alone;
                    continue;
                }
            }
            alone += holding.anon.alone;
            most_pooled = most_pooled.max(holding.anon.pooled());
        }
        if claimed > family::LEARN_FROM_BYTES {
            family.copied.learn(copied as f64 / claimed as f64);
        }
        if at_birth.claimed > family::LEARN_FROM_BYTES {
            let CopiesSum {
                copied,
                claimed,
                most,
            } = at_birth;
            family.birth_copies.learn(copied, claimed, most);
        }
        let nested = alone + most_pooled;
        // Where strangers share the pages too, proportional shares are too small, and nesting is the better guess.
        let bytes = if complete && !has_strangers {
            proportional
        } else {
            proportional.max(nested)
        };
        // Whoever was read before it forked held alone what its child has as well: no more than the laws leave open can be new.
        let possible = family.anon.bytes() + 2 * family.anon.doubt_bytes() + unproved;
        let bytes = match complete {
            true => bytes,
            false => bytes.min(possible),
        };
        family.anon.measured(bytes, begin.doubt);
        family.measured_since_look = true;
        family.left_bytes = family.left_bytes.saturating_sub(begin.left_bytes);
        family.anon.doubt_again(copied_meanwhile);
        if !complete {
            family.anon.doubt_again(bytes / INCOMPLETE_PART);
        }
    }

    /// What each process adds to the tree, in the given order: shared pages count for the first that holds them.
    ///
    /// More than the first of a family can hold are copies that nobody has measured yet, or memory that a younger one shares with its children:
    /// the copies belong to those whose faults may have made them, the rest to the first that has children and can hold it.
    /// Where none has, somebody copied while the others were measured: the youngest, who has had the least time to be done with it.
    /// A correction for the bias is true of the family but of none of its processes: what no faults claim of it is nobody's.
    /// Nor is a rest so small that it comes from measuring one process after the other.
    pub(crate) fn share_out(
        &self,
        pids: impl Iterator<Item = u32>,
        is_parent: impl Fn(u32) -> bool,
        mut each: impl FnMut(usize, u64),
    ) {
        let pools = self.families.iter();
        let mut pools: HashMap<FamilyKey, SharedBytes> = pools
            .map(|(key, family)| (*key, family.anon.pool()))
            .collect();
        let mut file_pool = self.files.pool_bytes();
        let file_scale = self.files.scale_of_alone();
        let mut begun = HashSet::new();
        let mut shares = Vec::new();
        let mut has_children = Vec::new();
        for (index, pid) in pids.enumerate() {
            let Some(holding) = self.processes.get(&pid) else {
                continue;
            };
            let pool = pools.entry(holding.family).or_default();
            let scale = self.families.get(&holding.family);
            let scale = scale.map_or(1.0, |family| family.anon.scale_of_alone());
            let alone = (holding.anon.alone as f64 * scale) as u64;
            let pooled = holding.anon.bytes - alone;
            let taken = match begun.insert(holding.family) {
                true => pool.take(pooled),
                false => pool.take_claimed(pooled.min(holding.claimed_bytes())),
            };
            let file_alone = (holding.file.alone as f64 * file_scale) as u64;
            let file = (holding.file.bytes - file_alone).min(file_pool);
            file_pool -= file;
            let share = alone + taken + file_alone + file;
            shares.push((index, holding.family, share, pooled - taken));
            has_children.push(is_parent(pid));
        }
        for (key, pool) in &mut pools {
            let family_bytes = self
                .families
                .get(key)
                .map_or(0, |family| family.anon.bytes());
            pool.drop_less_than(family_bytes / SMALL_REST_PART);
        }
        let parents = (0..shares.len()).filter(|place| has_children[*place]);
        let others = (0..shares.len())
            .rev()
            .filter(|place| !has_children[*place]);
        for place in parents.chain(others) {
            let (index, family, share, room) = shares[place];
            let rest = pools.entry(family).or_default().take(room);
            each(index, share + rest);
        }
    }
}

#[cfg(test)]
#[path = "holdings_tests/mod.rs"]
mod tests;
