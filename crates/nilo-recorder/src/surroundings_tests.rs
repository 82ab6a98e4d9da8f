//! What is written of the cgroup, the limit and the machine around a captured job.

use nilo_runfile::{RowBuffer, Update};
use nilo_sample::rows::{CgroupRow, HostRow};
use nilo_sample::{Event, Subject, is_absent};
use nilo_source::{ProcessTree, TreeOptions};

use super::*;
use crate::captured_job::{CGROUP, CapturedJob, JOB, TENTH, cgroup_subject, events, rows};

const START: u64 = 1_000 * SECOND;

/// The surroundings of a captured job, looked at ten times a second.
struct Looking {
    job: CapturedJob,
    tree: ProcessTree,
    surroundings: Surroundings,
    buffer: RowBuffer,
    now_nanos: u64,
}

impl Looking {
    fn new() -> Looking {
        let job = CapturedJob::at(0);
        let mut tree = ProcessTree::new(&job.roots(), TreeOptions::default()).unwrap();
        tree.add_root(JOB).unwrap();
        Looking {
            surroundings: Surroundings::of_own_process(job.roots(), START, JOB),
            job,
            tree,
            buffer: RowBuffer::new("recorder", START),
            now_nanos: START,
        }
    }

    fn tick_as(&mut self, last: bool) -> Update {
        self.tree.tick(self.now_nanos);
        let processes = self.tree.processes();
        self.surroundings
            .tick(&mut self.buffer, self.now_nanos, processes, last);
        self.now_nanos += TENTH;
        self.buffer.take()
    }

    fn tick(&mut self) -> Update {
        self.tick_as(false)
    }

    /// Everything of the next seconds.
    fn go_on(&mut self, secs: u64) -> Update {
        let mut all = Update::default();
        for _ in 0..secs * SECOND / TENTH {
            let update = self.tick();
            all.tables.extend(update.tables);
            all.events.extend(update.events);
        }
        all
    }
}

fn cgroup_rows(update: &Update) -> Vec<CgroupRow> {
    let rows = rows(update, &cgroup_subject());
    rows.into_iter().map(|(_, row)| row).collect()
}

fn limits(update: &Update) -> Vec<u64> {
    let limit = |event: &&Event| match event {
        Event::LimitChanged { limit } => limit.as_ref().map(|limit| limit.bytes),
        _ => None,
    };
    events(update).iter().filter_map(limit).collect()
}

#[test]
fn the_first_row_of_the_cgroup_is_what_its_files_say() {
    let mut looking = Looking::new();
    let found = cgroup_rows(&looking.tick());
    let job = &looking.job;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].usage_bytes, job.cgroup("memory.usage_in_bytes"));
    assert_eq!(found[0].peak_bytes, job.cgroup("memory.max_usage_in_bytes"));
    assert_eq!(found[0].limit_bytes, f64::from(512 << 20));
    assert_eq!(found[0].oom_kills, 0.0);
    assert!(is_absent(found[0].limit_hits), "version 1 does not tell");
    assert_eq!(found[0].owned, 1.0, "nobody else is in it");
    let stat = job.read(&format!("cgroup/memory{CGROUP}/memory.stat"));
    let stat = |name: &str| -> f64 {
        let value = stat.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap().trim().parse().unwrap()
    };
    assert_eq!(found[0].anon_bytes, stat("total_rss "));
    assert_eq!(found[0].file_bytes, stat("total_cache "));
    let inactive = stat("total_inactive_file ");
    assert_eq!(found[0].working_set_bytes, found[0].usage_bytes - inactive);
    assert_eq!(looking.surroundings.limit().unwrap().bytes, 512 << 20);
}

#[test]
fn a_cgroup_that_stands_still_is_written_once() {
    let mut looking = Looking::new();
    assert_eq!(cgroup_rows(&looking.go_on(7)).len(), 1);
}

#[test]
fn usage_is_read_on_each_tick_and_what_it_consists_of_once_a_second() {
    let mut looking = Looking::new();
    let first = cgroup_rows(&looking.tick())[0];
    let usage = first.usage_bytes + 8192.0;
    let mark = usage + 4096.0;
    looking
        .job
        .write_cgroup("memory.usage_in_bytes", &format!("{usage}\n"));
    looking
        .job
        .write_cgroup("memory.max_usage_in_bytes", &format!("{mark}\n"));
    let second = cgroup_rows(&looking.tick())[0];
    let expected = CgroupRow {
        usage_bytes: usage,
        working_set_bytes: first.working_set_bytes + 8192.0,
        // Not read, and never below what was.
        peak_bytes: first.peak_bytes.max(usage),
        ..first
    };
    assert_eq!(second, expected);
    let later = cgroup_rows(&looking.go_on(1));
    assert_eq!(later.last().unwrap().peak_bytes, mark);
}

#[test]
fn a_cgroup_that_moves_far_is_read_whole_before_its_time() {
    let mut looking = Looking::new();
    looking.tick();
    looking.job.move_to(2);
    let found: Vec<CgroupRow> = (0..3).flat_map(|_| cgroup_rows(&looking.tick())).collect();
    let last = found.last().unwrap();
    assert_eq!(
        last.usage_bytes,
        looking.job.cgroup("memory.usage_in_bytes")
    );
    assert!(last.anon_bytes > 100e6, "{}", last.anon_bytes);
    assert!(looking.surroundings.held_of_limit_bytes().unwrap() > 100_000_000);
}

#[test]
fn a_kill_is_told_when_the_counter_rises_and_not_for_what_it_was_before() {
    let mut looking = Looking::new();
    let control = |kills: u64| format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n");
    looking.job.write_cgroup("memory.oom_control", &control(3));
    let kills = |update: &Update| -> Vec<u64> {
        let kill = |event: &&Event| match event {
            Event::OomKill { cgroup, kills } if cgroup.as_deref() == Some(CGROUP) => Some(*kills),
            _ => None,
        };
        events(update).iter().filter_map(kill).collect()
    };
    assert_eq!(kills(&looking.go_on(2)), [0_u64; 0]);
    looking.job.write_cgroup("memory.oom_control", &control(5));
    assert_eq!(kills(&looking.go_on(2)), [5]);
    assert_eq!(looking.surroundings.counters(), [(CGROUP.to_owned(), 5)]);
}

#[test]
fn a_stranger_in_the_cgroup_is_seen_on_the_next_look_and_at_the_end() {
    let mut looking = Looking::new();
    looking.tick();
    looking.job.write_cgroup("cgroup.procs", "100\n999999\n");
    assert_eq!(cgroup_rows(&looking.go_on(4)), []);
    let found = cgroup_rows(&looking.go_on(2));
    assert_eq!(found.last().unwrap().owned, 0.0);
    looking.job.write_cgroup("cgroup.procs", "100\n");
    let found = cgroup_rows(&looking.tick_as(true));
    assert_eq!(found.last().unwrap().owned, 1.0);
}

#[test]
fn a_stranger_that_fills_the_cgroup_is_seen_at_once() {
    let mut looking = Looking::new();
    let first = cgroup_rows(&looking.go_on(2))[0];
    looking.job.write_cgroup("cgroup.procs", "100\n999999\n");
    let usage = first.usage_bytes + f64::from(100 << 20);
    let usage_file = "memory.usage_in_bytes";
    looking.job.write_cgroup(usage_file, &format!("{usage}\n"));
    let found = cgroup_rows(&looking.tick());
    assert_eq!((found[0].usage_bytes, found[0].owned), (usage, 0.0));
}

#[test]
fn a_tighter_limit_is_in_force_at_once_and_a_looser_one_must_be_seen_twice() {
    let mut looking = Looking::new();
    looking.go_on(1);
    let limit_file = "memory.limit_in_bytes";
    looking
        .job
        .write_cgroup(limit_file, &format!("{}\n", 256 << 20));
    assert_eq!(limits(&looking.go_on(2)), [256 << 20]);
    looking
        .job
        .write_cgroup(limit_file, &format!("{}\n", 1024 << 20));
    assert_eq!(
        limits(&looking.go_on(2)),
        [0_u64; 0],
        "it may be that of the dying"
    );
    assert_eq!(looking.surroundings.limit().unwrap().bytes, 256 << 20);
    assert_eq!(limits(&looking.go_on(6)), [1024 << 20]);
}

#[test]
fn a_limit_that_a_program_sets_itself_is_found_when_it_begins_and_later() {
    let mut looking = Looking::new();
    let sets = |looking: &Looking, bytes: u64| {
        let text = format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max address space         {bytes}            {bytes}            bytes     \n"
        );
        looking.job.write("proc/100/limits", &text);
    };
    looking.tick();
    sets(&looking, 400 << 20);
    assert_eq!(limits(&looking.tick()), [400 << 20]);
    looking.go_on(6);
    sets(&looking, 300 << 20);
    assert_eq!(limits(&looking.go_on(2)), [300 << 20]);
}

#[test]
fn a_job_that_moves_has_its_new_cgroup_watched() {
    let mut looking = Looking::new();
    looking.go_on(1);
    let folder = looking.job.roots().cgroup.join("memory/inner");
    std::fs::create_dir(&folder).unwrap();
    for name in ["usage_in_bytes", "limit_in_bytes"] {
        std::fs::write(folder.join(format!("memory.{name}")), "4096\n").unwrap();
    }
    looking.job.write("proc/100/cgroup", "4:memory:/inner\n");
    let update = looking.go_on(1);
    let path = "/inner".to_owned();
    let found: Vec<(u64, CgroupRow)> = rows(&update, &Subject::Cgroup { path });
    assert_eq!(found[0].1.usage_bytes, 4096.0);
    assert_eq!(limits(&update), [4096]);
}

/// A captured job that has forked a worker, which is in a cgroup of its own with a limit of 200 MiB.
fn worker_in_cgroup() -> Looking {
    let looking = Looking::new();
    looking.job.move_to(1);
    let folder = looking.job.roots().cgroup.join("memory/inner");
    std::fs::create_dir(&folder).unwrap();
    for (name, bytes) in [("usage_in_bytes", 4096), ("limit_in_bytes", 200 << 20)] {
        std::fs::write(folder.join(format!("memory.{name}")), format!("{bytes}\n")).unwrap();
    }
    looking.job.write("proc/101/cgroup", "4:memory:/inner\n");
    looking
}

#[test]
fn the_cgroup_of_a_child_is_watched_as_soon_as_it_is_in_it() {
    let mut looking = worker_in_cgroup();
    let update = looking.go_on(1);
    let path = "/inner".to_owned();
    let found: Vec<(u64, CgroupRow)> = rows(&update, &Subject::Cgroup { path: path.clone() });
    let first = found[0].1;
    assert_eq!(
        (first.limit_bytes, first.holds_job),
        (f64::from(200 << 20), 1.0)
    );
    // The worker holds a part of the job's memory only: the job's limit stays that of its first process.
    assert_eq!(looking.surroundings.limit().unwrap().bytes, 512 << 20);
    looking.job.end(101);
    let found: Vec<(u64, CgroupRow)> = rows(&looking.go_on(2), &Subject::Cgroup { path });
    assert_eq!(found.last().unwrap().1.holds_job, 0.0);
}

#[test]
fn the_limit_is_that_of_the_cgroup_in_which_most_of_the_job_is() {
    let mut looking = worker_in_cgroup();
    looking.go_on(1);
    let mut go_on = |pids: &[(u32, u64)]| {
        let mut processes = looking.tree.processes().to_vec();
        processes.retain(|it| pids.iter().any(|(pid, _)| *pid == it.id.pid));
        for process in &mut processes {
            let (_, mib) = pids.iter().find(|(pid, _)| *pid == process.id.pid).unwrap();
            process.reading.rss_bytes = mib << 20;
        }
        for _ in 0..120 {
            looking
                .surroundings
                .tick(&mut looking.buffer, looking.now_nanos, &processes, false);
            looking.now_nanos += TENTH;
        }
        looking.surroundings.limit().unwrap().bytes >> 20
    };
    assert_eq!(go_on(&[(100, 50), (101, 60)]), 512);
    assert_eq!(go_on(&[(100, 3), (101, 60)]), 200);
    assert_eq!(go_on(&[(100, 3)]), 200, "what started it ends after it");
    assert_eq!(go_on(&[(100, 90)]), 512, "the job goes on elsewhere");
}

#[test]
fn limits_that_named_processes_do_not_share_are_not_the_jobs() {
    let mut looking = Looking::new();
    looking.job.move_to(1);
    looking.job.write("proc/101/cgroup", "4:memory:/\n");
    looking.surroundings.watch_named(&[100, 101]);
    let limit = looking.surroundings.limit().unwrap();
    assert_eq!(limit.source, LimitSource::Host);
    looking.surroundings.watch_named(&[100]);
    assert_eq!(looking.surroundings.limit().unwrap().bytes, 512 << 20);
}

#[test]
fn the_machine_is_read_every_two_seconds_and_written_when_it_changed() {
    let mut looking = Looking::new();
    let host = |update: &Update| -> Vec<HostRow> {
        let rows = rows(update, &Subject::Host);
        rows.into_iter().map(|(_, row)| row).collect()
    };
    let found = host(&looking.go_on(4));
    assert_eq!(found.len(), 1);
    assert_eq!(looking.surroundings.host_readings(), 2);
    let meminfo = looking.job.read("proc/meminfo");
    let kib = |name: &str| -> u64 {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    };
    assert_eq!(found[0].total_bytes, (kib("MemTotal:") * 1024) as f64);
    let available = kib("MemAvailable:") * 1024;
    assert_eq!(found[0].available_bytes, available as f64);
    assert_eq!(looking.surroundings.available_bytes(), Some(available));
    let pressure = looking.job.read("proc/pressure/memory");
    let total = pressure.lines().next().unwrap().rsplit_once("total=");
    let micros: f64 = total.unwrap().1.parse().unwrap();
    assert_eq!(found[0].pressure_some_nanos, micros * 1000.0);
    looking.job.write("proc/vmstat", "oom_kill 99\n");
    let found = host(&looking.go_on(2));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].oom_kills, 99.0);
}
