//! The address that gets each alert by HTTP POST.
//!
//! Addresses of chat services contain their password, so an error never names one.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// From the first byte out to the last one in.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Before the second and the third attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// An address that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebhookError {
    /// Not an address at all.
    #[error("not a URL: {text:?}")]
    NotAnAddress {
        /// What was given.
        text: String,
    },
    /// An address of something else.
    #[error("not an http:// or https:// URL with a host: {text:?}")]
    NotHttp {
        /// What was given.
        text: String,
    },
}

/// Says before the job, not when it is in danger, that an address cannot be one.
pub fn check_webhook(text: &str) -> Result<(), WebhookError> {
    let uri: Uri = text.parse().map_err(|_| WebhookError::NotAnAddress {
        text: text.to_owned(),
    })?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    match uri.host() {
        Some(host) if known && !host.is_empty() => Ok(()),
        _ => Err(WebhookError::NotHttp {
            text: text.to_owned(),
        }),
    }
}

/// The way to one address.
pub(crate) struct Webhook {
    agent: ureq::Agent,
    address: String,
}

impl Webhook {
    pub(crate) fn new(address: &str) -> Webhook {
        let mut config =
            ureq::Agent::config_builder().user_agent(concat!("nilo/", env!("CARGO_PKG_VERSION")));
        if address.starts_with("https") {
            config = config.tls_config(encryption());
        }
        Webhook {
            agent: config.build().new_agent(),
            address: address.to_owned(),
        }
    }

    /// Posts the message, a few times if need be; a sentence when it did not arrive. Once `deadline` is known, nothing goes on after it.
    pub(crate) fn post(
        &self,
        message: &[u8],
        deadline: impl Fn() -> Option<Instant>,
    ) -> Result<(), String> {
        let time_left = || {
            let left = deadline().map(|end| end.saturating_duration_since(Instant::now()));
            left.unwrap_or(Duration::MAX)
        };
        let mut pauses = PAUSES.iter();
        loop {
            let answer = self
                .agent
                .post(&self.address)
                .config()
                .timeout_global(Some(TIME_LIMIT.min(time_left())))
                .build()
                .content_type("application/json")
                .send(message);
            let error = match answer {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            // An address that answers "no such thing" says the same the next time.
            let final_word = matches!(error, ureq::Error::StatusCode(400..=407 | 409..=428));
            match pauses.next() {
                Some(pause) if !final_word && *pause < time_left() => thread::sleep(*pause),
                _ => return Err(format!("the alert webhook cannot be reached: {error}")),
            }
        }
    }
}

/// The machine's own list of authorities, which knows those of the institution too.
fn encryption() -> TlsConfig {
    let known = rustls_native_certs::load_native_certs().certs;
    let authorities: Vec<Certificate<'static>> = known
        .iter()
        .map(|authority| Certificate::from_der(authority).to_owned())
        .collect();
    TlsConfig::builder()
        .root_certs(RootCerts::from(authorities))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    #[test]
    fn addresses_are_checked_before_they_are_needed() {
        for good in [
            "http://127.0.0.1:8080/x",
            "https://hooks.example.org/T/B?c=d",
        ] {
            assert_eq!(check_webhook(good), Ok(()));
        }
        for bad in [
            "",
            "example.org",
            "ftp://example.org",
            "http://",
            "not an address",
            "/x",
        ] {
            assert!(check_webhook(bad).is_err(), "{bad}");
        }
    }

    /// Answers each connection with the next status; gives the bodies.
    fn server(statuses: &'static [&'static str]) -> (String, thread::JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/alert", listener.local_addr().unwrap());
        let served = thread::spawn(move || {
            let answer = |status: &&str| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    let line = line.trim_end().to_ascii_lowercase();
                    if line.is_empty() {
                        break;
                    }
                    if let Some(number) = line.strip_prefix("content-length:") {
                        length = number.trim().parse().unwrap();
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let head =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(head.as_bytes()).unwrap();
                body
            };
            statuses.iter().map(answer).collect()
        });
        (address, served)
    }

    #[test]
    fn a_server_that_stumbles_is_asked_again() {
        let (address, served) = server(&["503 Busy", "200 OK"]);
        assert_eq!(Webhook::new(&address).post(b"{}", || None), Ok(()));
        assert_eq!(served.join().unwrap(), [b"{}", b"{}"]);
    }

    #[test]
    fn a_refusal_is_final_and_the_address_stays_secret() {
        let (address, served) = server(&["404 Not Found"]);
        let error = Webhook::new(&address).post(b"{}", || None).unwrap_err();
        assert!(
            error.contains("404") && !error.contains("/alert"),
            "{error}"
        );
        assert_eq!(served.join().unwrap().len(), 1);
    }

    #[test]
    fn a_server_that_does_not_answer_is_given_up_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/alert", listener.local_addr().unwrap());
        let deadline = Instant::now() + Duration::from_millis(300);
        let posted = Webhook::new(&address).post(b"{}", || Some(deadline));
        assert!(posted.unwrap_err().contains("timeout"));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_ok(), "it was asked once");
        assert!(listener.accept().is_err(), "and not again");
    }
}
