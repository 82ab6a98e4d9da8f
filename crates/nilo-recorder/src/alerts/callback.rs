//! A function of the caller that hears of alerts, on a thread of its own: it may take its time, hang or panic.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

use nilo_sample::Alert;

/// What there is to hear.
#[derive(Debug, Clone, PartialEq)]
pub enum AlertNotice {
    /// An alert was raised or cleared.
    Alert(Box<Alert>),
    /// Somebody could not be told; said once for each reason.
    Trouble(String),
}

/// The function.
pub type AlertCallback = Box<dyn FnMut(&AlertNotice) + Send>;

/// News that may wait for a function that is busy.
const MOST_WAITING: usize = 64;

/// Hands news over without waiting.
pub(crate) struct AlertNotifier {
    news: SyncSender<AlertNotice>,
    ended: Receiver<()>,
    dropped: u64,
}

impl AlertNotifier {
    pub(crate) fn start(mut callback: AlertCallback) -> Option<AlertNotifier> {
        let (news, waiting) = sync_channel(MOST_WAITING);
        let (ending, ended) = channel::<()>();
        let told = move || {
            // Dropped at the end or in a panic; either way nobody listens any more.
            let _ending = ending;
            waiting.iter().for_each(|news| callback(&news));
        };
        let thread = thread::Builder::new().name("nilo-alert-call".to_owned());
        thread.spawn(told).ok()?;
        Some(AlertNotifier {
            news,
            ended,
            dropped: 0,
        })
    }

    pub(crate) fn tell(&mut self, news: AlertNotice) {
        match self.news.try_send(news) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => self.dropped += 1,
        }
    }

    /// Waits this long for the function to hear the rest; gives the number of news for which there was no room.
    pub(crate) fn finish(self, limit: Duration) -> u64 {
        let AlertNotifier {
            news,
            ended,
            dropped,
        } = self;
        drop(news);
        ended.recv_timeout(limit).ok();
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(text: &str) -> AlertNotice {
        AlertNotice::Trouble(text.to_owned())
    }

    #[test]
    fn everything_is_heard_in_order_before_the_end() {
        let (heard, hearing) = channel();
        let mut teller = AlertNotifier::start(Box::new(move |news| {
            heard.send(news.clone()).ok();
        }))
        .unwrap();
        teller.tell(trouble("a"));
        teller.tell(trouble("b"));
        assert_eq!(teller.finish(Duration::from_secs(60)), 0);
        assert_eq!(
            hearing.iter().collect::<Vec<_>>(),
            [trouble("a"), trouble("b")]
        );
    }

    #[test]
    fn a_function_that_never_returns_holds_nobody_up() {
        let mut teller = AlertNotifier::start(Box::new(|_| {
            loop {
                thread::park();
            }
        }))
        .unwrap();
        for _ in 0..MOST_WAITING + 100 {
            teller.tell(trouble("x"));
        }
        assert!(teller.finish(Duration::from_millis(20)) >= 99);
    }

    #[test]
    fn a_function_that_panics_takes_nobody_along() {
        let mut teller = AlertNotifier::start(Box::new(|_| panic!("on purpose"))).unwrap();
        for _ in 0..10 {
            teller.tell(trouble("x"));
        }
        teller.finish(Duration::from_secs(60));
    }
}
