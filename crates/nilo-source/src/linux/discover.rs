//! Which processes joined the tree, without listing all of `/proc` on each tick.
//!
//! The last field of `/proc/loadavg` is the last PID that was handed out.
//! When it has not moved nothing was born, and that costs one read of a kept-open file.
//! When it has, only the PIDs in between are looked at; after a jump too wide for that, or backwards, everything is.
//! A slow sweep over `/proc`, a few dozen entries a tick, is the safety net.
//!
//! A process belongs to the tree when its parent does.
//! When its parent ended before it was seen, it still belongs if it was handed to us as the tree's reaper,
//! or if its session is led by a process of the tree: a session can only be entered by being born into it.

use std::collections::{HashSet, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::{RawDir, SeekFrom};

use crate::descriptors::{open_folder, read_record};
use crate::kernel_text::{number, words};
use crate::linux::cpu_clock::{own_thread_nanos, process_cpu_nanos};
use crate::linux::proc_folder::{ProcFolder, STAT_BYTES, pid_of_name};

/// A wider range of new PIDs than this is not walked: one look costs 0.2 µs, the full list about 5 µs a process.
const WIDEST_RANGE: u32 = 4096;
/// On how many later ticks a PID is looked at again that was handed out but not there yet.
const LOOKS: u8 = 3;
/// Where the last PID is not known, everything is listed this often.
const LIST_EVERY_NANOS: u64 = 500_000_000;
/// The sweep begins at most this often…
const SWEEP_EVERY_NANOS: u64 = 5_000_000_000;
/// …and at most so often that it takes one part in this many of a core.
const SWEEP_COST_FACTOR: u64 = 20_000;

/// Who belongs to the tree.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    pub(crate) pids: HashSet<u32>,
    /// Sessions that a process of the tree, alive or ended, leads.
    pub(crate) sessions: HashSet<u32>,
    /// Children of this process belong as well: it adopts the tree's orphans.
    pub(crate) reaper: Option<u32>,
    /// Never in the tree.
    pub(crate) excluded: Option<u32>,
}

/// A process that may belong.
#[derive(Debug, Clone, Copy)]
struct CandidateProcess {
    pid: u32,
    parent: u32,
    session: u32,
}

impl Membership {
    fn welcomes(&self, candidate: &CandidateProcess) -> bool {
        self.pids.contains(&candidate.parent)
            || self.reaper == Some(candidate.parent)
            || self.sessions.contains(&candidate.session)
    }

    fn needs_no_look(&self, pid: u32) -> bool {
        self.pids.contains(&pid) || self.excluded == Some(pid)
    }
}

/// The state of the search.
#[derive(Debug)]
pub(crate) struct Discovery {
    loadavg: Option<OwnedFd>,
    last_pid: Option<u32>,
    /// When the last PID was last seen to have moved; all the time where it is not known.
    last_birth_nanos: Option<u64>,
    next_listing_nanos: u64,
    /// Handed out, but not seen yet: between the two the kernel copies the parent.
    unborn: VecDeque<(u32, u8)>,
    candidates: Vec<CandidateProcess>,
    sweep: Sweep,
}

impl Discovery {
    pub(crate) fn new(proc: &ProcFolder) -> Discovery {
        let loadavg = if proc.is_live {
            proc.open_file(c"loadavg").ok().filter(is_the_kernels)
        } else {
            None
        };
        Discovery {
            loadavg,
            last_pid: None,
            last_birth_nanos: None,
            next_listing_nanos: 0,
            unborn: VecDeque::new(),
            candidates: Vec::new(),
            sweep: Sweep::new(proc),
        }
    }

    /// Puts the PIDs that joined into `found`, parents before their children, and into `members`.
    pub(crate) fn look(
        &mut self,
        proc: &ProcFolder,
        members: &mut Membership,
        now_nanos: u64,
        found: &mut Vec<u32>,
    ) {
        self.candidates.clear();
        self.look_again(proc, members);
        let newest = self.newest_pid();
        match (self.last_pid, newest) {
            (Some(last), Some(newest)) if newest == last => {}
            (Some(last), Some(newest))
                if newest > last && newest - last <= WIDEST_RANGE && proc.is_live =>
            {
                for pid in last + 1..=newest {
                    self.look_at(proc, members, pid, LOOKS);
                }
            }
            // Nobody says when something is born.
            (_, None) if proc.is_live && now_nanos < self.next_listing_nanos => {}
            _ => {
                self.list_everything(proc, members);
                self.next_listing_nanos = now_nanos.saturating_add(LIST_EVERY_NANOS);
            }
        }
        if newest.is_none() || newest != self.last_pid {
            self.last_birth_nanos = Some(now_nanos);
        }
        self.last_pid = newest;
        self.sweep
            .step(proc, members, now_nanos, &mut self.candidates);
        self.settle(members, found);
    }

    /// Whether any process or thread of the machine was born within this time, which ends now.
    pub(crate) fn saw_births(&self, now_nanos: u64, within_nanos: u64) -> bool {
        let since = |birth| now_nanos.saturating_sub(birth);
        self.last_birth_nanos
            .is_some_and(|birth| since(birth) < within_nanos)
    }

    /// Looks at this number on the next occasion: its process ended, and another may have it already.
    pub(crate) fn expect_again(&mut self, pid: u32) {
        self.unborn.push_back((pid, 0));
    }

    /// From here on births are told; says whether the kernel does so.
    pub(crate) fn begin(&mut self) -> bool {
        self.last_pid = self.newest_pid();
        self.last_pid.is_some()
    }

    /// Looks at every process there is, as for a new root.
    pub(crate) fn look_everywhere(
        &mut self,
        proc: &ProcFolder,
        members: &mut Membership,
        found: &mut Vec<u32>,
    ) {
        self.candidates.clear();
        let newest = self.newest_pid();
        self.list_everything(proc, members);
        self.last_pid = newest;
        self.settle(members, found);
    }

    fn newest_pid(&self) -> Option<u32> {
        let mut buffer = [0u8; 96];
        let text = read_record(self.loadavg.as_ref()?, &mut buffer).ok()?;
        parse_newest_pid(text)
    }

    fn look_at(&mut self, proc: &ProcFolder, members: &Membership, pid: u32, looks: u8) {
        if members.needs_no_look(pid) {
            return;
        }
        // Threads share the numbers and have no process clock; neither has what is not there yet.
        if process_cpu_nanos(pid).is_none() {
            if looks > 0 {
                self.unborn.push_back((pid, looks - 1));
            }
            return;
        }
        if !is_own_thread(pid) {
            // Who has ended already may still count with its CPU time.
            self.candidates.extend(candidate(proc, pid, Zombies::Too));
        }
    }

    /// Those of earlier ticks; who is still not there goes back to the end of the list.
    fn look_again(&mut self, proc: &ProcFolder, members: &Membership) {
        for _ in 0..self.unborn.len() {
            if let Some((pid, looks)) = self.unborn.pop_front() {
                self.look_at(proc, members, pid, looks);
            }
        }
    }

    fn list_everything(&mut self, proc: &ProcFolder, members: &Membership) {
        self.unborn.clear();
        for pid in proc.pids() {
            if !members.needs_no_look(pid) {
                self.candidates.extend(candidate(proc, pid, Zombies::No));
            }
        }
    }

    /// Admits candidates until no more belong: a child of a candidate may stand before its parent.
    fn settle(&mut self, members: &mut Membership, found: &mut Vec<u32>) {
        if self.candidates.is_empty() {
            return;
        }
        self.candidates
            .sort_unstable_by_key(|candidate| candidate.pid);
        self.candidates.dedup_by_key(|candidate| candidate.pid);
        loop {
            let before = found.len();
            self.candidates.retain(|candidate| {
                if members.pids.contains(&candidate.pid) {
                    return false;
                }
                let welcome = members.welcomes(candidate);
                if welcome {
                    members.pids.insert(candidate.pid);
                    found.push(candidate.pid);
                }
                !welcome
            });
            if found.len() == before {
                break;
            }
        }
        // A stranger with the number of an ended session leader: the session is over and the number says nothing any more.
        for stranger in &self.candidates {
            members.sessions.remove(&stranger.pid);
        }
    }
}

/// Whether this is the number of the thread that looks: to it alone, the kernel tells the process's clock by a thread's number.
fn is_own_thread(pid: u32) -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    pid == thread.cast_unsigned() && pid != std::process::id()
}

/// Whether processes that have ended, and that nobody has waited for, are somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zombies {
    Too,
    No,
}

/// Reads who the parent is; what cannot be read is nobody.
fn candidate(proc: &ProcFolder, pid: u32, zombies: Zombies) -> Option<CandidateProcess> {
    let mut buffer = [0; STAT_BYTES];
    let stat = proc.stat_of(pid, &mut buffer)?;
    let is_somebody = match stat.state {
        b'Z' => zombies == Zombies::Too || stat.threads > 1,
        b'X' | b'x' => stat.threads > 1,
        _ => true,
    };
    is_somebody.then_some(CandidateProcess {
        pid,
        parent: stat.parent,
        session: stat.session,
    })
}

/// The last PID handed out, of `/proc/loadavg`; systems that imitate the file write 0.
fn parse_newest_pid(text: &[u8]) -> Option<u32> {
    u32::try_from(number(words(text).nth(4)?)?)
        .ok()
        .filter(|pid| *pid > 0)
}

/// LXCFS lays a file of its own over `/proc/loadavg`, whose last field counts something else.
fn is_the_kernels(file: &OwnedFd) -> bool {
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type == PROC_SUPER_MAGIC)
}

/// The walk over `/proc`, a piece at a time.
#[derive(Debug)]
struct Sweep {
    folder: Option<OwnedFd>,
    is_running: bool,
    cost_nanos: u64,
    next_nanos: Option<u64>,
}

impl Sweep {
    fn new(proc: &ProcFolder) -> Sweep {
        Sweep {
            folder: open_folder(proc.path()).ok(),
            is_running: false,
            cost_nanos: 0,
            next_nanos: None,
        }
    }

    /// One buffer of entries, some eighty processes.
    fn step(
        &mut self,
        proc: &ProcFolder,
        members: &Membership,
        now_nanos: u64,
        candidates: &mut Vec<CandidateProcess>,
    ) {
        let Some(folder) = &self.folder else {
            return;
        };
        if !self.is_running {
            let due = *self
                .next_nanos
                .get_or_insert(now_nanos.saturating_add(SWEEP_EVERY_NANOS));
            if now_nanos < due || rustix::fs::seek(folder, SeekFrom::Start(0)).is_err() {
                return;
            }
            self.is_running = true;
            self.cost_nanos = 0;
        }
        let before = own_thread_nanos();
        let mut buffer = [MaybeUninit::<u8>::uninit(); 2048];
        let mut entries = RawDir::new(folder, &mut buffer);
        let mut at_end = true;
        while let Some(Ok(entry)) = entries.next() {
            at_end = false;
            if let Some(pid) = pid_of_name(entry.file_name().to_bytes())
                && !members.needs_no_look(pid)
            {
                candidates.extend(candidate(proc, pid, Zombies::No));
            }
            if entries.is_buffer_empty() {
                break;
            }
        }
        self.cost_nanos += own_thread_nanos().saturating_sub(before);
        if at_end {
            self.is_running = false;
            let pause = self
                .cost_nanos
                .saturating_mul(SWEEP_COST_FACTOR)
                .max(SWEEP_EVERY_NANOS);
            self.next_nanos = Some(now_nanos.saturating_add(pause));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_newest_pid_is_the_fifth_word() {
        assert_eq!(parse_newest_pid(b"0.12 0.19 0.09 2/103 4600\n"), Some(4600));
        assert_eq!(parse_newest_pid(b"0.12 0.19"), None);
        assert_eq!(parse_newest_pid(b"0.00 0.00 0.00 0/0 0\n"), None);
    }

    #[test]
    fn a_grandchild_that_stands_before_its_parent_is_admitted() {
        let mut members = Membership::default();
        members.pids.insert(50);
        let mut discovery = Discovery {
            loadavg: None,
            last_pid: None,
            last_birth_nanos: None,
            next_listing_nanos: 0,
            unborn: VecDeque::new(),
            candidates: vec![
                CandidateProcess {
                    pid: 7,
                    parent: 60,
                    session: 1,
                },
                CandidateProcess {
                    pid: 60,
                    parent: 50,
                    session: 1,
                },
                CandidateProcess {
                    pid: 61,
                    parent: 1,
                    session: 1,
                },
            ],
            sweep: Sweep {
                folder: None,
                is_running: false,
                cost_nanos: 0,
                next_nanos: None,
            },
        };
        let mut found = Vec::new();
        discovery.settle(&mut members, &mut found);
        assert_eq!(found, [60, 7]);
    }

    #[test]
    fn a_session_of_the_tree_welcomes_orphans_until_its_number_is_reused() {
        let mut members = Membership::default();
        members.sessions.insert(50);
        assert!(members.welcomes(&CandidateProcess {
            pid: 7,
            parent: 1,
            session: 50
        }));
        let mut discovery = Discovery {
            loadavg: None,
            last_pid: None,
            last_birth_nanos: None,
            next_listing_nanos: 0,
            unborn: VecDeque::new(),
            candidates: vec![CandidateProcess {
                pid: 50,
                parent: 1,
                session: 9,
            }],
            sweep: Sweep {
                folder: None,
                is_running: false,
                cost_nanos: 0,
                next_nanos: None,
            },
        };
        discovery.settle(&mut members, &mut Vec::new());
        assert!(members.sessions.is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse_newest_pid(&text);
        }
    }
}
