//! The throughput of a GPU, measured by PyTorch or CuPy in a Python of its own: a foreign program with a time limit, of which nothing stays behind.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nilo_answer::gpu::throughput::{GpuThroughput, ThroughputError};
use nilo_model::gpus::GpuKind;
use nilo_sample::printable::printable;
use nilo_sample::units::format_bytes;
use nilo_source::gpu::{GpuDevice, GpuMaker};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, set_parent_process_death_signal, waitid,
};

use super::stop_requests::StopRequests;

const SCRIPT: &str = include_str!("throughput.py");
/// Importing PyTorch from a cold network disk takes half of it.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// For tests: another limit, in seconds.
const TIME_LIMIT_VARIABLE: &str = "NILO_GPU_TIME_LIMIT";
/// The script stops measuring a while before it would be killed.
const SHARE_FOR_MEASURING: f64 = 0.75;
/// How often the program is asked whether it has ended.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// What is printed within this after the end is all there is.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// A result has some hundred bytes.
const LONGEST_RESULT: u64 = 64 << 10;
/// Larger matrices are no faster.
const MOST_BYTES: u64 = 1 << 30;
/// A CUDA context takes up to one of these GiB itself.
const LEAST_FREE_BYTES: u64 = 2 << 30;

/// Measures a GPU that has this much free memory.
pub(super) fn measure(
    device: &GpuDevice,
    place_of_maker: usize,
    free_bytes: Option<u64>,
    nominal: Option<&GpuKind>,
) -> Result<GpuThroughput, String> {
    if let Some(free) = free_bytes.filter(|free| *free < LEAST_FREE_BYTES) {
        let least = format_bytes(LEAST_FREE_BYTES as f64);
        return Err(format!(
            "only {} are free, and the measurement needs {least}",
            format_bytes(free as f64)
        ));
    }
    let most_bytes = MOST_BYTES.min(free_bytes.map_or(MOST_BYTES / 4, |free| free / 4));
    let python = std::env::var_os("NILO_PYTHON")
        .filter(|named| !named.is_empty())
        .unwrap_or_else(|| OsString::from("python3"));
    let limit = time_limit();
    let mut command = Command::new(&python);
    command
        .args(["-W", "ignore", "-c", SCRIPT, &most_bytes.to_string()])
        .arg((limit.as_secs_f64() * SHARE_FOR_MEASURING).to_string());
    show_only(&mut command, device, place_of_maker);
    let name = printable(&python.to_string_lossy());
    let printed = run_with_limit(command, &name, limit)?;
    GpuThroughput::parse(&printed, &name, nominal)
        .map_err(|error: ThroughputError| error.to_string())
}

fn time_limit() -> Duration {
    let named = std::env::var(TIME_LIMIT_VARIABLE).ok();
    let seconds = named.and_then(|text| text.parse::<f64>().ok());
    let shorter = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    shorter.map_or(TIME_LIMIT, |limit| limit.min(TIME_LIMIT))
}

/// Makes the GPU the only one that the program sees, whatever number it would have there.
fn show_only(command: &mut Command, device: &GpuDevice, place_of_maker: usize) {
    match device.maker {
        GpuMaker::Nvidia if device.uuid.is_empty() => command
            .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
            .env("CUDA_VISIBLE_DEVICES", device.index.to_string()),
        GpuMaker::Nvidia => command.env("CUDA_VISIBLE_DEVICES", &device.uuid),
        GpuMaker::Amd => command
            .env_remove("CUDA_VISIBLE_DEVICES")
            .env_remove("ROCR_VISIBLE_DEVICES")
            .env("HIP_VISIBLE_DEVICES", place_of_maker.to_string()),
    };
}

/// What a program prints, in a process group of its own that is killed when the time is up, when we are told to stop, and when the program has ended.
fn run_with_limit(mut command: Command, name: &str, limit: Duration) -> Result<Vec<u8>, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    // SAFETY: one system call, which is safe between fork and exec.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let requests = StopRequests::listen();
    let mut child = command
        .spawn()
        .map_err(|error| format!("{name} cannot be started ({error})"))?;
    let printed = read_output(&mut child);
    let outcome = wait(&child, limit, &requests);
    let group = Pid::from_child(&child);
    // Also when the program has ended: what it started may not have. It was not waited for, so the number is still its.
    kill_process_group(group, Signal::KILL).ok();
    let status = child.wait();
    if outcome == Outcome::Stopped {
        requests.obey();
    }
    let printed = printed.recv_timeout(LAST_WAIT).unwrap_or_default();
    match (outcome, status) {
        (Outcome::Ended, Ok(status)) if status.success() => Ok(printed),
        (Outcome::Ended, Ok(status)) => {
            Err(format!("the benchmark in {name} {}", end_in_words(status)))
        }
        (Outcome::Ended, Err(error)) => Err(format!("{name} cannot be waited for ({error})")),
        (Outcome::TimedOut, _) => Err(format!(
            "the benchmark in {name} took longer than {} seconds and was killed",
            limit.as_secs_f64()
        )),
        (Outcome::Stopped, _) => Err("it was interrupted".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ended,
    TimedOut,
    Stopped,
}

fn wait(child: &Child, limit: Duration, requests: &StopRequests) -> Outcome {
    let deadline = Instant::now() + limit;
    let id = WaitId::Pid(Pid::from_child(child));
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        if !matches!(waitid(id.clone(), look), Ok(None)) {
            return Outcome::Ended;
        }
        if requests.came() {
            return Outcome::Stopped;
        }
        if Instant::now() >= deadline {
            return Outcome::TimedOut;
        }
        thread::sleep(ASK_EVERY);
    }
}

/// Reads on a thread: a program that prints more than a result is not waited for.
fn read_output(child: &mut Child) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(1);
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            let mut printed = Vec::new();
            output.take(LONGEST_RESULT).read_to_end(&mut printed).ok();
            sender.send(printed).ok();
        });
    }
    receiver
}

fn end_in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Result<Vec<u8>, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run_with_limit(command, "sh", limit)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_printed_is_given_and_ends_are_told() {
        assert_eq!(sh("echo said; echo more >&2", LONG), Ok(b"said\n".to_vec()));
        let failed = sh("exit 3", LONG).unwrap_err();
        assert_eq!(failed, "the benchmark in sh ended with exit status 3");
        let killed = sh("kill -SEGV $$", LONG).unwrap_err();
        assert_eq!(killed, "the benchmark in sh was killed by signal 11");
        let missing = run_with_limit(Command::new("/no/such/python"), "python", LONG);
        assert!(
            missing
                .unwrap_err()
                .starts_with("python cannot be started (No such file")
        );
    }

    #[test]
    fn output_without_end_is_cut_and_not_waited_for() {
        let printed = sh("exec yes", Duration::from_secs(2));
        assert!(
            printed.is_err(),
            "the reader is gone, so that it ends by the signal of a closed pipe"
        );
    }

    #[test]
    fn what_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!(
            "trap '' TERM INT; sleep 1000 & echo $! > {}; wait; sleep 1000",
            pid.display()
        );
        let error = sh(&script, Duration::from_millis(500)).unwrap_err();
        assert_eq!(
            error,
            "the benchmark in sh took longer than 0.5 seconds and was killed"
        );
        is_gone(&pid);
    }

    #[test]
    fn children_of_a_program_that_has_ended_are_killed() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; echo done", pid.display());
        assert_eq!(sh(&script, LONG), Ok(b"done\n".to_vec()));
        is_gone(&pid);
    }

    /// Waits until the process whose number is in the file is no longer there, or dead and not yet waited for.
    fn is_gone(pid: &std::path::Path) {
        let pid: u32 = std::fs::read_to_string(pid)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let until = Instant::now() + LONG;
        let listed = || {
            let processes = nilo_source::list_processes(&nilo_source::Roots::default());
            processes
                .iter()
                .any(|process| process.id.pid == pid && process.rss_bytes > 0)
        };
        while listed() {
            assert!(Instant::now() < until, "process {pid} is still there");
            thread::sleep(ASK_EVERY);
        }
    }
}
