//! The user's command for an alert: `sh -c`, the alert on its standard input, a process group of its own and a time limit.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What the command prints is kept here, in the run folder.
pub(crate) const LOG: &str = "alert-command.log";
/// A command that takes longer is ended ...
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);
/// ... by TERM, and by KILL when it still is there after this long.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// How often it is asked whether it has ended.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Runs the command to its end, or until `deadline` says that its time is up; a sentence when it did not go well.
pub(crate) fn run_alert_command(
    command: &str,
    message: &[u8],
    run_dir: &Path,
    deadline: impl Fn() -> Instant,
) -> Result<(), String> {
    let log = || -> Stdio {
        let path = run_dir.join(LOG);
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.or_else(|_| File::create("/dev/null"))
            .map_or(Stdio::null(), Stdio::from)
    };
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .env("NILO_RUN_DIR", run_dir)
        .stdin(Stdio::piped())
        .stdout(log())
        .stderr(log())
        .process_group(0);
    // SAFETY: one system call, which is safe between fork and exec.
    unsafe { shell.pre_exec(end_with_parent) };
    let mut child = shell
        .spawn()
        .map_err(|error| format!("the alert command cannot be started: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        // Smaller than a pipe holds, so this never waits; a command that does not read it is none the worse.
        input.write_all(message).ok();
    }
    match wait(&mut child, deadline) {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!(
            "the alert command failed ({status}); what it printed is in {LOG} of the run folder"
        )),
        None => Err("the alert command took too long and was killed".to_owned()),
    }
}

/// Makes the kernel kill the command when the thread that started it is gone, whatever ended that.
fn end_with_parent() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    // SAFETY: sets an attribute of this process; no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    Ok(())
}

/// Waits until the command has ended or its time is up. In the second case everything in its process group is ended with it.
fn wait(child: &mut Child, deadline: impl Fn() -> Instant) -> Option<ExitStatus> {
    let group = child.id() as i32;
    let signal_group = |signal| {
        // SAFETY: signals the group of our own child, which has not been waited for, so the number is still its.
        unsafe { libc::kill(-group, signal) };
    };
    if has_ended_by(group, &deadline) {
        return child.wait().ok();
    }
    signal_group(libc::SIGTERM);
    let last = Instant::now() + GRACE;
    has_ended_by(group, &|| last);
    // Also when the shell has ended: its children may ignore TERM.
    signal_group(libc::SIGKILL);
    child.wait().ok();
    None
}

/// Whether our child ends before the deadline. It is not waited for, so its number stays taken.
fn has_ended_by(pid: i32, deadline: &impl Fn() -> Instant) -> bool {
    loop {
        // SAFETY: an all-zero siginfo_t is valid, and the call only writes into it.
        let ended = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let result = libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, flags);
            result != 0 || info.si_pid() != 0
        };
        if ended {
            return true;
        }
        if Instant::now() >= deadline() {
            return false;
        }
        thread::sleep(ASK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilo_source::{Roots, list_processes, process_id};

    fn run(command: &str, limit: Duration) -> (Result<(), String>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let until = Instant::now() + limit;
        let outcome = run_alert_command(command, b"{\"a\":1}\n", folder.path(), || until);
        (outcome, folder)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_command_gets_the_message_and_the_folder() {
        let (outcome, folder) = run("cat > \"$NILO_RUN_DIR/got\"; echo said", LONG);
        assert_eq!(outcome, Ok(()));
        let got = std::fs::read_to_string(folder.path().join("got")).unwrap();
        assert_eq!(got, "{\"a\":1}\n");
        let log = std::fs::read_to_string(folder.path().join(LOG)).unwrap();
        assert_eq!(log, "said\n");
    }

    #[test]
    fn failing_and_missing_commands_are_told() {
        assert!(
            run("exit 3", LONG)
                .0
                .unwrap_err()
                .contains("exit status: 3")
        );
        let missing = run("/no/such/program", LONG).0.unwrap_err();
        assert!(missing.contains("exit status: 127"), "{missing}");
    }

    #[test]
    fn a_command_that_ignores_its_end_is_killed_with_its_children() {
        let (outcome, folder) = run(
            "trap '' TERM; echo $$ > \"$NILO_RUN_DIR/pid\"; (trap '' TERM; while :; do sleep 1; done) & wait; while :; do sleep 1; done",
            Duration::from_millis(300),
        );
        assert!(outcome.unwrap_err().contains("took too long"));
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        assert!(process_id(&Roots::default(), pid.trim().parse().unwrap()).is_err());
    }

    #[test]
    fn children_that_ignore_term_are_killed_when_the_shell_obeys_it() {
        let (outcome, folder) = run(
            "(trap '' TERM; echo ready > \"$NILO_RUN_DIR/ready\"; while :; do sleep 1; done) & echo $! > \"$NILO_RUN_DIR/pid\"; wait",
            Duration::from_secs(1),
        );
        assert!(outcome.unwrap_err().contains("took too long"));
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        assert!(
            ends(pid.trim().parse().unwrap()),
            "process {pid} is still there"
        );
    }

    /// Whether a process that is not our child ends soon: killed processes need a moment, and somebody else waits for them.
    fn ends(pid: u32) -> bool {
        let listed = || {
            let processes = list_processes(&Roots::default());
            processes.iter().any(|process| process.id.pid == pid)
        };
        let until = Instant::now() + LONG;
        while listed() && Instant::now() < until {
            thread::sleep(ASK_EVERY);
        }
        !listed()
    }
}
