//! The alerts of a run, a line each.

use std::io::Write;

use nilo_analysis::Summary;
use nilo_sample::printable::printable;
use nilo_sample::units::to_secs;

use crate::screen::Screen;

/// Writes the first `most` of them.
pub(crate) fn write_alerts(
    out: &mut dyn Write,
    screen: Screen,
    summary: &Summary,
    most: usize,
) -> std::io::Result<()> {
    if !summary.alerts.is_empty() {
        writeln!(out, "Alerts:")?;
    }
    for alert in summary.alerts.iter().take(most) {
        let kind = alert.kind.as_str();
        let over = if alert.raised { "" } else { " is over" };
        let text = printable(&alert.text);
        let secs = to_secs(alert.time_nanos);
        let kind = screen.paint(alert.severity.as_str(), &format!("{kind}{over}:"));
        writeln!(out, "  {secs:>9.1} s  {kind} {text}")?;
    }
    let rest = summary.alerts.len().saturating_sub(most);
    if rest > 0 {
        writeln!(out, "  and {rest} more")?;
    }
    for missed in &summary.alerts_not_delivered {
        let (were, count) = match missed.alerts {
            1 => ("alert was", 1),
            count => ("alerts were", count),
        };
        let reason = printable(&missed.reason);
        writeln!(out, "{count} {were} not delivered: {reason}")?;
    }
    Ok(())
}
