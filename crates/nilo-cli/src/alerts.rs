//! Whom to tell when memory runs short: flags over `[alerts]` of `nilo.toml` over what is usual.

use nilo_recorder::alerts::{
    AlertCallback, AlertNews, AlertRules, AlertSettings, check_webhook, signal_number,
};

use crate::args::AlertArgs;
use crate::failure::Failure;
use crate::settings::AlertTable;
use crate::text::held_back::HeldBack;

/// What may stand in the table.
pub(crate) const KNOWN: &str = "known in [alerts]: memory_warning = 0.75, memory_critical = 0.9, gpu_warning = 0.8, gpu_critical = 0.95, leak = true, oom_risk = true, on_alert = \"CMD\", webhook = \"https://...\", signal = \"USR1\", quiet = true";

const SIGNALS: &str = "use a name such as USR1, USR2, TERM or INT";
const ADDRESSES: &str = "write it in full, such as https://hooks.example.org/alerts";

/// A sentence when the table cannot be meant so.
pub(crate) fn check(table: &AlertTable) -> Result<(), String> {
    rules(table)
        .check()
        .map_err(|error| format!("[alerts] {error}"))?;
    if let Some(name) = &table.signal {
        known_signal(name).map_err(|error| format!("[alerts] signal: {error}"))?;
    }
    if let Some(address) = &table.webhook {
        check_webhook(address).map_err(|error| format!("[alerts] webhook: {error}"))?;
    }
    Ok(())
}

fn rules(table: &AlertTable) -> AlertRules {
    let usual = AlertRules::default();
    AlertRules {
        memory_warning: table.memory_warning.unwrap_or(usual.memory_warning),
        memory_critical: table.memory_critical.unwrap_or(usual.memory_critical),
        gpu_warning: table.gpu_warning.unwrap_or(usual.gpu_warning),
        gpu_critical: table.gpu_critical.unwrap_or(usual.gpu_critical),
        leak: table.leak.unwrap_or(usual.leak),
        oom_risk: table.oom_risk.unwrap_or(usual.oom_risk),
    }
}

fn known_signal(name: &str) -> Result<i32, String> {
    signal_number(name).ok_or_else(|| format!("no signal is called {name:?}"))
}

/// What the recorder is to do; nothing with `--no-alerts`.
pub(crate) fn settle_alerts(
    args: &AlertArgs,
    table: &AlertTable,
    quiet: bool,
    held_back: &HeldBack,
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
        check_webhook(address)
            .map_err(|error| Failure::new(format!("--alert-webhook: {error}")).hint(ADDRESSES))?;
    }
    Ok(Some(AlertSettings {
        rules: rules(table),
        command: args.on_alert.clone().or_else(|| table.on_alert.clone()),
        webhook: webhook.cloned(),
        signal,
        callback: (!quiet).then(|| print_news(table.quiet, held_back.clone())),
    }))
}

/// A line on standard error for each alert, unless the user wants none, and for trouble in telling of them.
fn print_news(quiet: bool, held_back: HeldBack) -> AlertCallback {
    Box::new(move |news| match news {
        AlertNews::Alert(alert) if !quiet => held_back.alert(alert),
        AlertNews::Alert(_) => {}
        AlertNews::Trouble(text) => held_back.warn(text),
    })
}
