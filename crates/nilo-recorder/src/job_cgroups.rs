//! Which cgroups the processes of the job are in: a child may have been moved into another one than its parent's, with a limit of its own.
//!
//! Asking every process on each tick would cost more than the rest of it. A process is asked when it appears, soon again while it is young
//! (whoever starts a program in a cgroup moves itself there and then becomes the program), and every two seconds after that; the largest more often.

use std::collections::HashMap;

use nilo_sample::ProcessId;
use nilo_sample::limit::is_cgroup_within;
use nilo_source::{Roots, TrackedProcess, memory_cgroup_path};

const MILLISECOND: u64 = 1_000_000;
/// Processes are gone through at most this often ...
const ROUND_NANOS: u64 = 100 * MILLISECOND;
/// ... and the less often, the more of them there are: once more of this time for so many.
const ROUND_PROCESSES: u64 = 256;
/// So many of them are asked in a round.
const MOST_READS: usize = 8;
/// A process is asked again after this long at first, then after twice that, and so on ...
const YOUNG_NANOS: u64 = 100 * MILLISECOND;
/// ... up to this.
const OLD_NANOS: u64 = 2000 * MILLISECOND;
/// The largest process is asked at least this often.
const LARGEST_NANOS: u64 = 500 * MILLISECOND;
/// A cgroup with this share of the job's memory is where the job is, and stays it down to the second.
const MOSTLY: f64 = 0.8;
const STILL: f64 = 0.5;

/// The cgroups of a job's processes.
#[derive(Default)]
pub(crate) struct JobCgroups {
    asked: HashMap<ProcessId, AskedProcess>,
    places: Vec<JobPlace>,
    next_round_nanos: u64,
    /// Where the next round begins, so that all have their turn.
    turn: usize,
    /// The cgroup besides that of the first process in which most of the job's memory is, or was last.
    main: Option<MainPlace>,
}

struct AskedProcess {
    path: Option<String>,
    next_nanos: u64,
    wait_nanos: u64,
}

/// A cgroup with processes of the job directly in it.
struct JobPlace {
    path: String,
    rss_bytes: u64,
    largest: (u64, u32),
}

struct MainPlace {
    path: String,
    peak_rss_bytes: u64,
}

/// Whose limits are the job's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitedProcess {
    /// Those of this process.
    Of(u32),
    /// Those that were: the processes that they held for are gone, and what is left holds little.
    AsBefore,
}

impl JobCgroups {
    /// Asks those that are due. Says whether a process was found in a cgroup that no other was in, or most of the job is in another one than before.
    pub(crate) fn look(
        &mut self,
        roots: &Roots,
        now_nanos: u64,
        processes: &[TrackedProcess],
    ) -> bool {
        let count = processes.len();
        if now_nanos < self.next_round_nanos || count == 0 {
            return false;
        }
        self.next_round_nanos = now_nanos + ROUND_NANOS * (1 + count as u64 / ROUND_PROCESSES);
        let largest = processes.iter().max_by_key(|it| it.reading.rss_bytes);
        let largest = largest.map(|process| process.id);
        let mut reads = 0;
        for step in 0..count {
            let process = &processes[(self.turn + step) % count];
            let asked = self.asked.entry(process.id);
            let asked = asked.or_insert_with(|| AskedProcess {
                path: None,
                next_nanos: 0,
                wait_nanos: YOUNG_NANOS,
            });
            if now_nanos < asked.next_nanos {
                continue;
            }
            if reads == MOST_READS {
                self.turn = (self.turn + step) % count;
                break;
            }
            reads += 1;
            let wait_nanos = asked.wait_nanos;
            asked.wait_nanos = (2 * wait_nanos).min(OLD_NANOS);
            let soon = largest == Some(process.id);
            asked.next_nanos = now_nanos
                + match soon {
                    true => wait_nanos.min(LARGEST_NANOS),
                    false => wait_nanos,
                };
            let found = memory_cgroup_path(roots, process.id.pid);
            // A dying process counts as a member of the root cgroup.
            let is_dying = found.as_deref() == Some("/") && asked.path.is_some();
            if !is_dying && found.is_some() {
                asked.path = found;
            }
        }
        self.forget_ended(processes);
        self.add_up(processes)
    }

    /// A process that became another program may have moved just before.
    pub(crate) fn ask_again(&mut self, id: ProcessId) {
        if let Some(asked) = self.asked.get_mut(&id) {
            asked.next_nanos = 0;
            asked.wait_nanos = YOUNG_NANOS;
        }
    }

    /// A process of each cgroup that processes of the job are in.
    pub(crate) fn samples(&self) -> impl Iterator<Item = u32> {
        self.places.iter().map(|place| place.largest.1)
    }

    /// Whether a process of the job is in this cgroup or below.
    pub(crate) fn has_member_in(&self, path: &str) -> bool {
        let mut places = self.places.iter();
        places.any(|place| is_cgroup_within(&place.path, path))
    }

    /// Whose limits are the job's: those of its first process, unless nearly all of its memory is in another cgroup than that one is in.
    pub(crate) fn limited(&self, first: u32) -> LimitedProcess {
        let Some(main) = &self.main else {
            return LimitedProcess::Of(first);
        };
        let mut places = self.places.iter();
        match places.find(|place| place.path == main.path) {
            Some(place) => LimitedProcess::Of(place.largest.1),
            None => LimitedProcess::AsBefore,
        }
    }

    fn forget_ended(&mut self, processes: &[TrackedProcess]) {
        if self.asked.len() > processes.len() {
            let alive: std::collections::HashSet<ProcessId> =
                processes.iter().map(|process| process.id).collect();
            self.asked.retain(|id, _| alive.contains(id));
        }
    }

    fn add_up(&mut self, processes: &[TrackedProcess]) -> bool {
        let before = std::mem::take(&mut self.places);
        for process in processes {
            let asked = self.asked.get(&process.id);
            let Some(path) = asked.and_then(|asked| asked.path.as_ref()) else {
                continue;
            };
            let rss_bytes = process.reading.rss_bytes;
            let found = self.places.iter().position(|place| place.path == *path);
            let at = found.unwrap_or_else(|| {
                self.places.push(JobPlace {
                    path: path.clone(),
                    rss_bytes: 0,
                    largest: (0, process.id.pid),
                });
                self.places.len() - 1
            });
            let place = &mut self.places[at];
            place.rss_bytes += rss_bytes;
            place.largest = place.largest.max((rss_bytes, process.id.pid));
        }
        let is_new = |place: &JobPlace| before.iter().all(|known| known.path != place.path);
        let has_new = self.places.iter().any(is_new);
        let main_before = self.main.as_ref().map(|main| main.path.clone());
        self.choose_main(processes);
        let main = self.main.as_ref().map(|main| &main.path);
        has_new || main != main_before.as_ref()
    }

    fn choose_main(&mut self, processes: &[TrackedProcess]) {
        let first = processes.first().and_then(|it| self.asked.get(&it.id));
        let Some(home) = first.and_then(|first| first.path.clone()) else {
            return;
        };
        let all: u64 = self.places.iter().map(|place| place.rss_bytes).sum();
        let share = |bytes: u64| share_of(bytes, all);
        let mut elsewhere = self.places.iter().filter(|place| place.path != home);
        let most = elsewhere.clone().max_by_key(|place| place.rss_bytes);
        if let Some(most) = most.filter(|most| share(most.rss_bytes) >= MOSTLY) {
            let known = self.main.as_ref().filter(|main| main.path == most.path);
            let known = known.map_or(0, |main| main.peak_rss_bytes);
            self.main = Some(MainPlace {
                path: most.path.clone(),
                peak_rss_bytes: most.rss_bytes.max(known),
            });
            return;
        }
        self.main = self.main.take().filter(|main| {
            match elsewhere.find(|place| place.path == main.path) {
                Some(place) => share(place.rss_bytes) >= STILL,
                // A script that started the program may go on for a while.
                None => main.path != home && share_of(all, main.peak_rss_bytes) < STILL,
            }
        });
    }
}

fn share_of(bytes: u64, whole: u64) -> f64 {
    bytes as f64 / whole.max(1) as f64
}
