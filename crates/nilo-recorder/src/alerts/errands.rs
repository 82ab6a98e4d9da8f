//! A process of its own for commands and webhooks.
//!
//! Not a thread of the recorder, for two reasons. The recorder adopts and waits for every orphan of the job's tree, so a command that it started itself
//! would be counted as part of the job, and be waited for by the wrong one. And what hangs, grows or crashes here does so outside of the recorder.
//! It is handed over to the parent of all processes before the recorder becomes the tree's reaper, has a session of its own, and ends when the recorder does.
//!
//! Messages and reports travel over a socket pair that keeps packets apart; what does not fit in it is counted as dropped.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

use super::command::{GRACE, TIME_LIMIT, run_alert_command};
use super::webhook::Webhook;

/// Alerts that may wait for a command or a webhook that is busy.
const MOST_WAITING: usize = 16;
/// No alert is this long.
const LARGEST_PACKET: usize = 64 << 10;
/// What still waits when the recorder has ended gets this long.
const AFTER_THE_END: Duration = Duration::from_secs(10);

/// Where the errands go.
pub(crate) struct Destinations {
    pub(crate) command: Option<String>,
    pub(crate) webhook: Option<String>,
    pub(crate) run_dir: PathBuf,
}

/// The recorder's end.
pub(crate) struct Errands {
    socket: OwnedFd,
    session: u32,
}

impl Errands {
    /// Starts the process. To be called before the recorder has threads, descriptors of its own and the job.
    pub(crate) fn start(destinations: Destinations) -> io::Result<Errands> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // SAFETY: plain system calls. The children run ordinary code after fork: the caller has no other threads whose locks they could inherit,
        // and the C library keeps its allocator usable in any case. They leave by `_exit`, so nothing of the parent is run twice.
        let session = unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
            match libc::fork() {
                -1 => return Err(io::Error::last_os_error()),
                0 => {
                    libc::setsid();
                    if libc::fork() == 0 {
                        let socket = settle_down(theirs.as_raw_fd());
                        serve(socket, destinations);
                    }
                    libc::_exit(0);
                }
                child => {
                    libc::waitpid(child, std::ptr::null_mut(), 0);
                    child as u32
                }
            }
        };
        Ok(Errands {
            socket: ours,
            session,
        })
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

    /// Waits this long for what is under way; the rest goes on without us for a while.
    pub(crate) fn finish(self, limit: Duration) -> Vec<String> {
        shutdown(&self.socket, Shutdown::Write).ok();
        let until = Instant::now() + limit;
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

/// Leaves everything of the recorder behind but the socket.
///
/// # Safety
/// For a process that has just been forked and uses no descriptor but this one.
unsafe fn settle_down(socket: RawFd) -> OwnedFd {
    use std::os::fd::FromRawFd;
    const PLACE: RawFd = 3;
    // SAFETY: descriptors of a process that nobody else runs in.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..PLACE {
            libc::dup2(null, standard);
        }
        if socket != PLACE {
            libc::dup2(socket, PLACE);
        }
        libc::fcntl(PLACE, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::syscall(
            libc::SYS_close_range,
            PLACE as libc::c_uint + 1,
            libc::c_uint::MAX,
            0,
        );
        libc::prctl(libc::PR_SET_NAME, c"nilo-alerts".as_ptr(), 0, 0, 0);
        OwnedFd::from_raw_fd(PLACE)
    }
}

/// When everything must be over; far away until the recorder ends.
type End = Arc<Mutex<Option<Instant>>>;

fn ends_at(end: &End) -> Option<Instant> {
    *end.lock().unwrap_or_else(|broken| broken.into_inner())
}

/// Takes messages until the recorder ends, then lets the rest be done, and is gone.
fn serve(socket: OwnedFd, destinations: Destinations) -> ! {
    let socket = Arc::new(socket);
    let end = End::default();
    let mut lanes = Vec::new();
    let (done, all_done) = channel::<()>();
    if let Some(command) = destinations.command {
        let (run_dir, end) = (destinations.run_dir, Arc::clone(&end));
        let errand = move |message: &[u8]| {
            let own = Instant::now() + TIME_LIMIT;
            let until = || ends_at(&end).map_or(own, |end| own.min(end));
            run_alert_command(&command, message, &run_dir, until)
        };
        lanes.push(lane(errand, &socket, done.clone()));
    }
    if let Some(address) = destinations.webhook {
        let mut webhook = None;
        let errand = move |message: &[u8]| {
            let webhook = webhook.get_or_insert_with(|| Webhook::new(&address));
            webhook.post(message)
        };
        lanes.push(lane(errand, &socket, done.clone()));
    }
    drop(done);
    let mut buffer = vec![0; LARGEST_PACKET];
    loop {
        match recv(&socket, &mut buffer[..], RecvFlags::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok((length, _)) if length > 0 => {
                for lane in &lanes {
                    if lane.try_send(buffer[..length].to_vec()).is_err() {
                        report(&socket, TOO_MANY);
                    }
                }
            }
            _ => break,
        }
    }
    lanes.clear();
    let deadline = Instant::now() + AFTER_THE_END;
    *end.lock().unwrap_or_else(|broken| broken.into_inner()) = Some(deadline);
    // Each lane holds a sender and lets go of it at its end.
    all_done.recv_timeout(AFTER_THE_END + 2 * GRACE).ok();
    // SAFETY: ends this process, whatever its threads do.
    unsafe { libc::_exit(0) }
}

/// Said when a destination is slower than the alerts.
pub(crate) const TOO_MANY: &str =
    "alerts come faster than they can be delivered; some are not delivered";

fn report(socket: &OwnedFd, text: &str) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    send(socket, text.as_bytes(), flags).ok();
}

/// A thread that runs one kind of errand, one at a time.
fn lane(
    mut errand: impl FnMut(&[u8]) -> Result<(), String> + Send + 'static,
    socket: &Arc<OwnedFd>,
    done: Sender<()>,
) -> SyncSender<Vec<u8>> {
    let (sender, messages): (_, Receiver<Vec<u8>>) = sync_channel(MOST_WAITING);
    let socket = Arc::clone(socket);
    let work = move || {
        let _done = done;
        for message in messages {
            if let Err(text) = errand(&message) {
                report(&socket, &text);
            }
        }
    };
    thread::Builder::new().spawn(work).ok();
    sender
}
