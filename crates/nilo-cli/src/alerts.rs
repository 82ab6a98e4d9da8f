//! Whom to tell when memory runs short: flags over `[alerts]` of `nilo.toml` over what is usual.

use nilo_recorder::alerts::{
    AlertCallback, AlertNotice, AlertSettings, check_webhook, signal_number,
};

use crate::args::{AlertArgs, WEBHOOK_VARIABLE};
use crate::failure::Failure;
use crate::settings::AlertTable;
use crate::text::deferred_warnings::DeferredWarnings;

const SIGNALS: &str = "use a name such as USR1, USR2, TERM or INT";
const ADDRESSES: &str = "write it in full, such as https://hooks.example.org/alerts";

fn known_signal(name: &str) -> Result<i32, String> {
    signal_number(name).ok_or_else(|| format!("no signal is called {name:?}"))
}

/// What the recorder is to do; nothing with `--no-alerts`.
pub(crate) fn settle_alerts(
    args: &AlertArgs,
    table: &AlertTable,
    quiet: bool,
    deferred: &DeferredWarnings,
) -> Result<Option<AlertSettings>, Failure> {
    if args.no_alerts {
        return Ok(None);
    }
    let signal = args.alert_signal.as_ref().or(table.signal.as_ref());
    let signal = signal
        .map(|name| known_signal(name))
        .transpose()
        .map_err(|error| Failure::new(format!("--alert-signal: {error}")).hint(SIGNALS))?;
    // An empty variable is the usual way to unset one.
    let flag = args.alert_webhook.as_ref().filter(|url| !url.is_empty());
    let webhook = flag.or(table.webhook.as_ref());
    if let Some(address) = webhook {
        check_webhook(address).map_err(|error| {
            Failure::new(format!("{}: {error}", named_by(address))).hint(ADDRESSES)
        })?;
    }
    Ok(Some(AlertSettings {
        rules: table.rules(),
        command: args.on_alert.clone().or_else(|| table.on_alert.clone()),
        webhook: webhook.cloned(),
        signal,
        callback: (!quiet).then(|| print_news(table.quiet.unwrap_or(false), deferred.clone())),
    }))
}

/// A line on standard error for each alert, unless the user wants none, and for trouble in telling of them.
fn print_news(quiet: bool, deferred: DeferredWarnings) -> AlertCallback {
    Box::new(move |news| match news {
        AlertNotice::Alert(alert) if !quiet => deferred.alert(alert),
        AlertNotice::Alert(_) => {}
        AlertNotice::Trouble(text) => deferred.warn(text),
    })
}

/// What an address comes from; those in settings files were checked when these were read.
fn named_by(address: &str) -> &'static str {
    match std::env::var_os(WEBHOOK_VARIABLE) {
        Some(value) if value == address => WEBHOOK_VARIABLE,
        _ => "--alert-webhook",
    }
}
