//! Processes that went on when the recording ended, and which of them are still there.

use std::io::Write;

use nilo_runfile::boot_id;
use nilo_sample::{Event, ProcessId, Recording};
use nilo_source::{Roots, process_id};

/// Those of the left processes that are alive now: the very ones, not later ones with the same PID.
pub(crate) fn still_alive(recording: &Recording, left_running: &[u32]) -> Vec<u32> {
    let recorded_boot = &recording.description.boot_id;
    if recorded_boot.is_empty() || *recorded_boot != boot_id() {
        return Vec::new();
    }
    let is_alive = |id: ProcessId| process_id(&Roots::default(), id.pid).is_ok_and(|now| now == id);
    let ids = left_running.iter().filter_map(|pid| {
        recording
            .events
            .iter()
            .rev()
            .find_map(|timed| match timed.event {
                Event::ProcessStarted { id, .. } if id.pid == *pid => Some(id),
                _ => None,
            })
    });
    ids.filter(|id| is_alive(*id)).map(|id| id.pid).collect()
}

/// Names them; only who is alive can be followed.
pub(crate) fn write_left_running(
    out: &mut dyn Write,
    left_running: &[u32],
    alive: &[u32],
) -> std::io::Result<()> {
    let listed = |pids: &[u32]| {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        pids.join(", ")
    };
    if let Some(first) = alive.first() {
        writeln!(
            out,
            "still running: PID {}; follow with `nilo watch --pid {first}`",
            listed(alive)
        )?;
    }
    let ended = left_running.iter().filter(|pid| !alive.contains(pid));
    let ended: Vec<u32> = ended.copied().collect();
    if !ended.is_empty() {
        writeln!(
            out,
            "running when the recording ended, and ended since: PID {}",
            listed(&ended)
        )?;
    }
    Ok(())
}
