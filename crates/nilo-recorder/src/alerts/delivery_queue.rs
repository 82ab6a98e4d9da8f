//! Alerts that wait for one destination, and the thread that delivers them, one at a time.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

/// Alerts that may wait for a command or a webhook that is busy.
const MOST_WAITING: usize = 16;

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Vec<u8>>,
    /// No more alerts come: the thread ends when none is waiting.
    closed: bool,
    ended: bool,
}

#[derive(Default)]
struct QueueInner {
    state: Mutex<QueueState>,
    changed: Condvar,
}

impl QueueInner {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    /// Waits until the state is as wanted, or the time is over.
    fn wait_for(&self, until: Instant, wanted: impl Fn(&QueueState) -> bool) {
        let mut state = self.lock();
        while !wanted(&state) {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            let woken = self.changed.wait_timeout(state, rest);
            state = woken.unwrap_or_else(|broken| broken.into_inner()).0;
        }
    }
}

/// Says that the thread has ended, also when it panics.
struct EndGuard(Arc<QueueInner>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_all();
    }
}

/// The queue of one destination.
pub(crate) struct DeliveryQueue {
    shared: Arc<QueueInner>,
}

impl DeliveryQueue {
    /// Starts delivering. `deliver` takes one alert, and sees to it that a failure is told; after `false` nothing more is delivered.
    pub(crate) fn start(mut deliver: impl FnMut(&[u8]) -> bool + Send + 'static) -> DeliveryQueue {
        let shared = Arc::new(QueueInner::default());
        let theirs = Arc::clone(&shared);
        let work = move || {
            let end = EndGuard(theirs);
            while let Some(message) = next(&end.0) {
                if !deliver(&message) {
                    end.0.lock().waiting.push_front(message);
                    return;
                }
            }
        };
        if thread::Builder::new().spawn(work).is_err() {
            shared.lock().ended = true;
        }
        DeliveryQueue { shared }
    }

    /// Adds an alert; `false` when too many wait already.
    pub(crate) fn push(&self, message: Vec<u8>) -> bool {
        let mut state = self.shared.lock();
        if state.waiting.len() >= MOST_WAITING {
            return false;
        }
        state.waiting.push_back(message);
        self.shared.changed.notify_all();
        true
    }

    /// No more alerts come.
    pub(crate) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }

    /// Waits until the last alert is delivered, or nothing is delivered any more.
    pub(crate) fn wait_until_ended(&self, until: Instant) {
        self.shared.wait_for(until, |state| state.ended);
    }

    /// Gives up on those that wait; their number.
    pub(crate) fn discard(&self) -> u64 {
        let mut state = self.shared.lock();
        let number = state.waiting.len() as u64;
        state.waiting.clear();
        number
    }
}

/// The next alert; `None` when there will be none.
fn next(shared: &QueueInner) -> Option<Vec<u8>> {
    let mut state = shared.lock();
    loop {
        if let Some(message) = state.waiting.pop_front() {
            shared.changed.notify_all();
            return Some(message);
        }
        if state.closed {
            return None;
        }
        let woken = shared.changed.wait(state);
        state = woken.unwrap_or_else(|broken| broken.into_inner());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn alerts_are_delivered_in_order_and_those_behind_a_busy_one_are_counted() {
        let (begun, beginnings) = channel();
        let (go, gone) = channel::<()>();
        let queue = DeliveryQueue::start(move |message| {
            begun.send(message.to_vec()).ok();
            gone.recv().ok();
            true
        });
        for message in [b"a", b"b", b"c"] {
            assert!(queue.push(message.to_vec()));
        }
        assert_eq!(beginnings.recv().unwrap(), b"a");
        go.send(()).unwrap();
        assert_eq!(beginnings.recv().unwrap(), b"b");
        queue.close();
        assert_eq!(queue.discard(), 1);
        go.send(()).unwrap();
        queue.wait_until_ended(later());
        assert!(beginnings.recv().is_err(), "the third was given up");
    }

    #[test]
    fn what_is_not_begun_any_more_counts_as_waiting() {
        let queue = DeliveryQueue::start(|_| false);
        assert!(queue.push(b"a".to_vec()) && queue.push(b"b".to_vec()));
        queue.close();
        queue.wait_until_ended(later());
        assert_eq!(queue.discard(), 2);
    }

    #[test]
    fn a_full_queue_refuses() {
        let (_keep, gone) = channel::<()>();
        let queue = DeliveryQueue::start(move |_| gone.recv().is_ok());
        let taken = (0..100).filter(|_| queue.push(Vec::new())).count();
        // One more where the thread has already taken the first.
        assert!(
            (MOST_WAITING..=MOST_WAITING + 1).contains(&taken),
            "{taken}"
        );
    }
}
