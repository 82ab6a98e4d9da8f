//! Which share of faults without growth turn out to be copies of shared pages, as measurements teach it.

/// In doubt until measured: half of what may have been copied.
const UNKNOWN_DOUBT: f64 = 0.5;
/// The doubt that stays where measurements found no copies: less with each that confirms it, and never none.
const FIRST_DOUBT: f64 = 0.25;
const LEAST_DOUBT: f64 = 0.02;
/// Fewer copies than this are none.
const NONE: f64 = 0.05;

/// What is known of copies.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CopiedShare {
    share: Option<f64>,
    /// Measurements in a row that found none.
    confirmations: u32,
}

impl CopiedShare {
    /// A measurement found that this share of the faults were copies.
    pub(crate) fn learn(&mut self, share: f64) {
        self.share = Some(self.share.map_or(share, |known| (known + share) / 2.0));
        self.confirmations = match share < NONE {
            true => self.confirmations.saturating_add(1),
            false => 0,
        };
    }

    /// How much of what may have been copied is in doubt.
    pub(crate) fn doubt(&self) -> f64 {
        let floor = FIRST_DOUBT / f64::from(self.confirmations.max(1));
        self.share.map_or(UNKNOWN_DOUBT, |share| {
            (share / 2.0).max(floor).max(LEAST_DOUBT)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_fades_only_while_measurements_find_no_copies() {
        let mut known = CopiedShare::default();
        assert_eq!(known.doubt(), UNKNOWN_DOUBT);
        let doubts: Vec<f64> = (0..20)
            .map(|_| {
                known.learn(0.0);
                known.doubt()
            })
            .collect();
        assert_eq!((doubts[0], doubts[4], doubts[19]), (0.25, 0.05, 0.02));
        known.learn(0.5);
        assert_eq!(known.doubt(), 0.25);
    }
}
