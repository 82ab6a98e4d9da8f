//! The process that delivers alerts to commands and webhooks.
//!
//! Not a thread of the recorder, for two reasons. The recorder adopts and waits for every orphan of the job's tree, so a command that it started itself
//! would be counted as part of the job, and be waited for by the wrong one. And what hangs, grows or crashes here does so outside of the recorder.
//! It is handed over to the parent of all processes before the recorder becomes the tree's reaper, and has a session of its own.
//!
//! Nothing that it started outlives it, and it does not outlive the recorder: that shuts its end of the socket down and waits until the other end is closed.
//! What is under way then has a few seconds, and after them every process below this one is ended. It is the reaper of its own tree, so processes that moved
//! to another group or session are found as well. When the recorder is killed, the same follows without anybody who waits.
//!
//! Messages and reports travel over a socket pair that keeps packets apart.
//! An alert that does not arrive is counted in the run, whatever the reason.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use nilo_runfile::append_event;
use nilo_sample::Event;
use nilo_source::{Roots, descendants_of};

use super::command::{GRACE, TIME_LIMIT, run_alert_command};
use super::delivery_queue::DeliveryQueue;
use super::webhook::Webhook;
use crate::own_session::start_in_own_session;

/// No alert is this long.
const LARGEST_PACKET: usize = 64 << 10;
/// When the recording has ended, what is under way or waits gets this long; the rest is counted as not delivered.
const AFTER_THE_END: Duration = Duration::from_secs(5);
/// A process that is killed and still there after this long cannot be helped: it hangs in the kernel.
const UNKILLABLE: Duration = Duration::from_secs(1);
/// No answer comes after this long: the process that delivers is gone, or the machine is far too busy.
pub(crate) const LONGEST_FINISH: Duration =
    Duration::from_secs(AFTER_THE_END.as_secs() + GRACE.as_secs() + 2 * UNKILLABLE.as_secs());
/// How often it is asked whether processes have ended.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Where alerts are delivered to.
pub(crate) struct Destinations {
    pub(crate) command: Option<String>,
    pub(crate) webhook: Option<String>,
    pub(crate) run_dir: PathBuf,
}

/// The recorder's end.
pub(crate) struct AlertDelivery {
    socket: OwnedFd,
    session: u32,
}

impl AlertDelivery {
    /// Starts the process. To be called before the recorder has threads, descriptors of its own and the job.
    pub(crate) fn start(destinations: Destinations) -> io::Result<AlertDelivery> {
        let (socket, session) = start_in_own_session(c"nilo-alerts", |socket| {
            // Whatever a command leaves behind becomes our child, and is ended with us.
            // SAFETY: sets an attribute of this process; no memory is involved.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
            serve(socket, destinations);
        })?;
        Ok(AlertDelivery { socket, session })
    }

    /// The session that the process and every command of it are in; its leader has ended.
    pub(crate) fn session(&self) -> u32 {
        self.session
    }

    /// Hands a message over; false when there is no room for it, or nobody to take it.
    pub(crate) fn send(&self, message: &[u8]) -> bool {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        message.len() < LARGEST_PACKET && send(&self.socket, message, flags).is_ok()
    }

    /// What went wrong since the last call.
    pub(crate) fn reports(&self) -> Vec<String> {
        let mut reports = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok((length, _)) = recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            if length == 0 {
                break;
            }
            reports.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        reports
    }

    /// Waits until every alert is delivered or counted as not delivered, and every process that was started for one has ended.
    pub(crate) fn finish(self) -> Vec<String> {
        shutdown(&self.socket, Shutdown::Write).ok();
        let until = Instant::now() + LONGEST_FINISH;
        let mut reports = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            let Ok(rest) = Timespec::try_from(rest) else {
                return reports;
            };
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut ready, Some(&rest)) {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(1..) => {}
                _ => return reports,
            }
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) if length > 0 => {
                    reports.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
                }
                _ => return reports,
            }
        }
    }
}

/// When everything must be over: known once the recorder has ended.
#[derive(Clone, Default)]
struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Deadline {
    fn get(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }

    /// Sets it, unless an earlier one is set already.
    fn set(&self, deadline: Instant) -> Instant {
        let mut set = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        let earliest = set.map_or(deadline, |set| set.min(deadline));
        *set = Some(earliest);
        earliest
    }

    fn has_passed(&self) -> bool {
        self.get()
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Takes messages until the recorder ends, then lets the rest be done, ends what is left, and is gone.
fn serve(socket: OwnedFd, destinations: Destinations) -> ! {
    let socket = Arc::new(socket);
    let deadline = Deadline::default();
    end_on_signals(&socket, &deadline);
    let queues = start_queues(&destinations, &socket, &deadline);
    let mut buffer = vec![0; LARGEST_PACKET];
    loop {
        match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok((length, _)) if length > 0 => {
                for (name, queue) in &queues {
                    if !queue.push(buffer[..length].to_vec()) {
                        report(&socket, TOO_MANY);
                        let reason = format!("{name} was still busy with earlier alerts");
                        count_undelivered(&destinations.run_dir, 1, reason);
                    }
                }
            }
            _ => break,
        }
    }
    let end = deadline.set(Instant::now() + AFTER_THE_END);
    for (_, queue) in &queues {
        queue.close();
    }
    for (name, queue) in &queues {
        // Deliveries end by their own limits; this one is for a system that cannot end them.
        queue.wait_until_ended(end + GRACE + UNKILLABLE);
        let reason = format!("{name} was still busy when the recording ended");
        count_undelivered(&destinations.run_dir, queue.discard(), reason);
    }
    end_children(end);
    // The recorder, which waits for our end of the socket to close, goes on from here.
    // SAFETY: ends this process, whatever its threads do.
    unsafe { libc::_exit(0) }
}

/// A queue for each destination, with the name that users read.
fn start_queues(
    destinations: &Destinations,
    socket: &Arc<OwnedFd>,
    deadline: &Deadline,
) -> Vec<(&'static str, DeliveryQueue)> {
    let mut queues = Vec::new();
    if let Some(command) = destinations.command.clone() {
        let (run_dir, end) = (destinations.run_dir.clone(), deadline.clone());
        let deliver = move |message: &[u8]| {
            let own = Instant::now() + TIME_LIMIT;
            let until = || end.get().map_or(own, |end| own.min(end));
            run_alert_command(&command, message, &run_dir, until)
        };
        let queue = start_queue(deliver, destinations, socket, deadline);
        queues.push(("the alert command", queue));
    }
    if let Some(address) = destinations.webhook.clone() {
        let (mut webhook, end) = (None, deadline.clone());
        let deliver = move |message: &[u8]| {
            let webhook = webhook.get_or_insert_with(|| Webhook::new(&address));
            webhook.post(message, || end.get())
        };
        let queue = start_queue(deliver, destinations, socket, deadline);
        queues.push(("the webhook", queue));
    }
    queues
}

/// A queue whose failures are told to the recorder and counted in the run. Nothing is begun after the deadline.
fn start_queue(
    mut deliver: impl FnMut(&[u8]) -> Result<(), String> + Send + 'static,
    destinations: &Destinations,
    socket: &Arc<OwnedFd>,
    deadline: &Deadline,
) -> DeliveryQueue {
    let (socket, deadline) = (Arc::clone(socket), deadline.clone());
    let run_dir = destinations.run_dir.clone();
    DeliveryQueue::start(move |message| {
        if deadline.has_passed() {
            return false;
        }
        if let Err(text) = deliver(message) {
            report(&socket, &text);
            count_undelivered(&run_dir, 1, text);
        }
        true
    })
}

/// Writes into the run that alerts did not arrive. From here, because the recorder may have ended.
pub(crate) fn count_undelivered(run_dir: &Path, alerts: u64, reason: String) {
    if alerts > 0 {
        let event = Event::AlertsNotDelivered { alerts, reason };
        append_event(run_dir, &event).ok();
    }
}

/// Somebody who ends this process ends its commands too, and at once.
fn end_on_signals(socket: &Arc<OwnedFd>, deadline: &Deadline) {
    // SAFETY: an all-zero signal set is a valid one; the calls change it and the mask of this thread, which those started later inherit.
    let signals = unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
            libc::sigaddset(&raw mut signals, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
        signals
    };
    let (socket, deadline) = (Arc::clone(socket), deadline.clone());
    let wait = move || {
        let mut signal = 0;
        // SAFETY: both pointers are valid for the call.
        unsafe { libc::sigwait(&raw const signals, &raw mut signal) };
        deadline.set(Instant::now());
        // Wakes the thread that waits for messages.
        shutdown(&socket, Shutdown::Read).ok();
    };
    thread::Builder::new().spawn(wait).ok();
}

/// Waits until every child has ended. What is left at the deadline is told to end, and killed when it does not.
fn end_children(deadline: Instant) {
    let (kill_at, give_up_at) = (deadline + GRACE, deadline + GRACE + UNKILLABLE);
    let mut told = false;
    loop {
        // SAFETY: waits for children of this process that no thread of it waits for any more.
        match unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } {
            -1 => return,
            0 => {}
            _ => continue,
        }
        let now = Instant::now();
        if now >= give_up_at {
            return;
        } else if now >= kill_at {
            // Parents first: a process that dies cannot fork, and what it forked before becomes our child.
            signal_descendants(libc::SIGKILL);
        } else if now >= deadline && !told {
            told = true;
            signal_descendants(libc::SIGTERM);
        }
        thread::sleep(ASK_EVERY);
    }
}

fn signal_descendants(signal: i32) {
    for pid in descendants_of(&Roots::default(), std::process::id()) {
        // SAFETY: a process below this one; its number is not given away before its parent has waited for it.
        unsafe { libc::kill(pid as i32, signal) };
    }
}

/// Said when a destination is slower than the alerts.
const TOO_MANY: &str = "alerts come faster than they can be delivered; some are dropped";
fn report(socket: &OwnedFd, text: &str) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    send(socket, text.as_bytes(), flags).ok();
}
