//! When a condition becomes an alarm: after three judgements in a row, and after a pending time where the rival has one.

/// Counts how long a condition has held.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rule {
    in_a_row: u32,
    held_since_secs: Option<f64>,
    pending_secs: f64,
}

const NEEDED_IN_A_ROW: u32 = 3;

impl Rule {
    /// With a pending time, as the `for` of an alerting rule.
    pub(super) fn pending(pending_secs: f64) -> Self {
        Self {
            pending_secs,
            ..Self::default()
        }
    }

    /// Takes in whether the condition holds; says whether there is an alarm. One judgement without it ends the alarm.
    pub(super) fn alarm(&mut self, now_secs: f64, condition: bool) -> bool {
        if !condition {
            self.in_a_row = 0;
            self.held_since_secs = None;
            return false;
        }
        self.in_a_row += 1;
        let since = *self.held_since_secs.get_or_insert(now_secs);
        self.in_a_row >= NEEDED_IN_A_ROW && now_secs - since >= self.pending_secs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_needs_three_judgements_in_a_row() {
        let mut rule = Rule::default();
        let conditions = [true, true, false, true, true, true, true, false];
        let alarms = conditions.map(|condition| rule.alarm(0.0, condition));
        assert_eq!(
            alarms,
            [false, false, false, false, false, true, true, false]
        );
    }

    #[test]
    fn a_pending_alarm_waits_its_time() {
        let mut rule = Rule::pending(180.0);
        let first = (0_u32..40).find(|judgement| rule.alarm(f64::from(judgement * 10), true));
        assert_eq!(first, Some(18));
    }
}
