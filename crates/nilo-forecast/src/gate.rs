//! No flapping: an alarm must be meant several times in a row before it is raised, and not be meant for longer before it is cleared.

/// Judgements in a row that raise an alarm ...
const RAISE: u32 = 3;
/// ... and that clear it.
const CLEAR: u32 = 6;
/// A judgement that the growth is over counts like this many.
const SEEN_TO_END: u32 = 3;

/// The state of one alarm.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gate {
    open: bool,
    against: u32,
}

impl Gate {
    /// Takes a judgement and says whether the alarm is on. One that rests on growth that was seen to end weighs more.
    pub(crate) fn pass(&mut self, meant: bool, is_over: bool) -> bool {
        if meant == self.open {
            self.against = 0;
            return self.open;
        }
        self.against += if is_over { SEEN_TO_END } else { 1 };
        if self.against >= if self.open { CLEAR } else { RAISE } {
            self.open = meant;
            self.against = 0;
        }
        self.open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_judgement_raises_nothing_and_clears_nothing() {
        let mut gate = Gate::default();
        let states: Vec<bool> = [
            true, false, true, true, false, true, true, true, false, true,
        ]
        .map(|meant| gate.pass(meant, false))
        .into();
        assert_eq!(
            states,
            [
                false, false, false, false, false, false, false, true, true, true
            ]
        );
    }

    #[test]
    fn six_calm_judgements_clear_it() {
        let mut gate = Gate::default();
        (0..3).for_each(|_| {
            gate.pass(true, false);
        });
        assert!((0..5).all(|_| gate.pass(false, false)));
        assert!(!gate.pass(false, false));
    }

    #[test]
    fn two_judgements_clear_it_when_the_growth_was_seen_to_end() {
        let mut gate = Gate::default();
        (0..3).for_each(|_| {
            gate.pass(true, false);
        });
        assert!(gate.pass(false, true));
        assert!(!gate.pass(false, true));
    }
}
