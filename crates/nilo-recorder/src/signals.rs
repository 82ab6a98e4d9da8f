//! Signals as messages: a handler writes each into a pipe, and the loop reads them between two ticks.
//!
//! Handlers instead of a blocked mask, because handlers vanish at `exec`: the command starts with the mask and dispositions it would have without us.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    pub(crate) signal: i32,
    /// It came from the kernel, as for a key on the terminal.
    pub(crate) from_kernel: bool,
}

/// The end of the pipe that handlers write to; -1 while nobody listens.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// We were stopped and go on. Kept beside the pipe: the loop has to know it before its next tick, not after.
static CONTINUED: AtomicBool = AtomicBool::new(false);

/// Signals that arrive, until dropped.
pub(crate) struct SignalPipe {
    reader: OwnedFd,
    _writer: OwnedFd,
    before: Vec<(i32, libc::sigaction)>,
}

extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler installed with SA_SIGINFO.
    let code = unsafe { (*info).si_code };
    let from_kernel = u8::from(code == 0x80); // SI_KERNEL
    if signal == libc::SIGCONT {
        CONTINUED.store(true, Ordering::Relaxed);
    }
    let message = [signal as u8, from_kernel];
    let pipe = PIPE.load(Ordering::Relaxed);
    if pipe >= 0 {
        // SAFETY: write(2) is async-signal-safe, and errno is restored for the interrupted code.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(pipe, message.as_ptr().cast(), message.len());
            *libc::__errno_location() = errno;
        }
    }
}

impl SignalPipe {
    /// Listens to these signals. Those that were ignored (`nohup`) stay ignored, save SIGCHLD.
    pub(crate) fn listen(signals: &[i32]) -> io::Result<SignalPipe> {
        SignalPipe::listen_as(signals, false)
    }

    /// Listens to these signals, also where they were ignored: a command may handle what a background job's shell made it inherit.
    pub(crate) fn listen_even_if_ignored(signals: &[i32]) -> io::Result<SignalPipe> {
        SignalPipe::listen_as(signals, true)
    }

    /// Whether a signal was ignored before we listened: it is not for us to end by it.
    pub(crate) fn was_ignored(&self, signal: i32) -> bool {
        let known = self.before.iter().find(|(number, _)| *number == signal);
        known.is_some_and(|(_, old)| old.sa_sigaction == libc::SIG_IGN)
    }

    fn listen_as(signals: &[i32], even_if_ignored: bool) -> io::Result<SignalPipe> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        PIPE.store(writer.as_raw_fd(), Ordering::Relaxed);
        let mut before = Vec::new();
        for &signal in signals {
            // SAFETY: plain sigaction calls with zero-initialised structures, which is their documented empty state.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut old);
                let stays_ignored = !even_if_ignored && signal != libc::SIGCHLD;
                if old.sa_sigaction == libc::SIG_IGN && stays_ignored {
                    continue;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = note as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NOCLDSTOP;
                // One after the other: a handler that interrupts another would turn their order round.
                libc::sigfillset(&mut new.sa_mask);
                if libc::sigaction(signal, &new, std::ptr::null_mut()) != 0 {
                    return Err(io::Error::last_os_error());
                }
                before.push((signal, old));
            }
        }
        Ok(SignalPipe {
            reader,
            _writer: writer,
            before,
        })
    }

    /// Whether SIGCONT, one of the signals listened to, came since the last call.
    pub(crate) fn was_continued(&self) -> bool {
        CONTINUED.swap(false, Ordering::Relaxed)
    }

    /// Keeps signals from threads that are started meanwhile; those of the caller come afterwards.
    ///
    /// With two threads that take signals their order would be lost.
    pub(crate) fn keep_from_new_threads<T>(&self, start: impl FnOnce() -> T) -> T {
        // SAFETY: changes the mask of this thread, and restores it below.
        let before = unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            before
        };
        let started = start();
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
        started
    }

    /// What arrived since the last call.
    pub(crate) fn take(&self) -> Vec<ReceivedSignal> {
        let mut arrived = Vec::new();
        let mut buffer = [0u8; 64];
        while let Ok(length) = rustix::io::read(&self.reader, &mut buffer) {
            if length == 0 {
                break;
            }
            arrived.extend(
                buffer[..length]
                    .chunks_exact(2)
                    .map(|message| ReceivedSignal {
                        signal: i32::from(message[0]),
                        from_kernel: message[1] == 1,
                    }),
            );
        }
        arrived
    }
}

impl AsFd for SignalPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Drop for SignalPipe {
    fn drop(&mut self) {
        for (signal, old) in &self.before {
            // SAFETY: restores what `listen` found.
            unsafe { libc::sigaction(*signal, old, std::ptr::null_mut()) };
        }
        PIPE.store(-1, Ordering::Relaxed);
    }
}
