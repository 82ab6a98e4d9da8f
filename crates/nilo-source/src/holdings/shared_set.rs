//! Distinct pages that a group of processes holds together, followed between measurements.

use super::bias::Bias;

/// Corrections for the bias stay within one part in this many of the set: between measurements nothing proves them.
const MOST_CORRECTED_PART: u64 = 20;

/// What one process holds of a set: some of it alone, the rest with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct MemberShare {
    /// All that it holds.
    pub(crate) bytes: u64,
    /// What nobody else in the tree holds, as far as known.
    pub(crate) alone: u64,
}

impl MemberShare {
    /// What others hold too.
    pub(crate) fn pooled(&self) -> u64 {
        self.bytes.saturating_sub(self.alone)
    }

    /// Growth is new memory; what is freed is taken from its own first.
    pub(crate) fn grow_or_shrink(&mut self, bytes: u64) {
        let grown = bytes.saturating_sub(self.bytes);
        let shrunk = self.bytes.saturating_sub(bytes);
        self.alone = (self.alone + grown).saturating_sub(shrunk).min(bytes);
        self.bytes = bytes;
    }

    /// Growth is taken for pages that others have already: programs of one job map the same files.
    pub(crate) fn overlap(&mut self, bytes: u64) {
        let shrunk = self.bytes.saturating_sub(bytes);
        self.alone = self.alone.saturating_sub(shrunk).min(bytes);
        self.bytes = bytes;
    }
}

/// What several processes hold of a set, counted once, while it is handed out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SharedBytes {
    /// Held for certain by somebody.
    held: u64,
    /// Added for the bias: copies that somebody is likely to have made.
    expected: u64,
}

impl SharedBytes {
    /// Hands out at most so much of what is held.
    pub(crate) fn take(&mut self, most: u64) -> u64 {
        let taken = most.min(self.held);
        self.held -= taken;
        taken
    }

    /// Hands out no more where less than this is left.
    pub(crate) fn drop_less_than(&mut self, bytes: u64) {
        if self.held < bytes {
            self.held = 0;
        }
    }

    /// Hands out at most so much to a process that may have copied it.
    pub(crate) fn take_claimed(&mut self, most: u64) -> u64 {
        let expected = most.min(self.expected);
        self.expected -= expected;
        expected + self.take(most - expected)
    }
}

/// By how much a set may be off.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doubt {
    /// Left open by the laws.
    by_laws: u64,
    /// The part of it for which nothing speaks for one direction.
    either_way: u64,
    /// The part of it that is about copies: what these are worth, measurements teach by themselves.
    copies: u64,
    /// Left open by a measurement.
    by_measuring: u64,
}

/// The distinct pages of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SharedSet {
    bytes: u64,
    doubt: Doubt,
    bias: Bias,
    /// What was added for the bias since the last measurement.
    corrected_bytes: i64,
    /// By how much it rose since the last measurement because one member alone was seen to hold more.
    raised_bytes: u64,
    sum: u64,
    sum_alone: u64,
    most: u64,
}

impl SharedSet {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What several processes hold, counted once.
    pub(crate) fn pool_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.sum_alone)
    }

    /// The same, to be handed out.
    pub(crate) fn pool(&self) -> SharedBytes {
        let bytes = self.pool_bytes();
        let expected = u64::try_from(self.corrected_bytes).unwrap_or(0).min(bytes);
        SharedBytes {
            held: bytes - expected,
            expected,
        }
    }

    /// By how much it may be off.
    pub(crate) fn doubt_bytes(&self) -> u64 {
        self.doubt.by_laws + self.doubt.by_measuring
    }

    /// The same, as far as measurements have shown what the laws are worth here.
    pub(crate) fn likely_doubt_bytes(&self) -> u64 {
        let others = self.doubt.by_laws - self.doubt.copies;
        let copies = self.doubt.copies + self.doubt.by_measuring;
        (others as f64 * self.bias.weight()) as u64 + copies
    }

    /// What is open now.
    pub(crate) fn open(&self) -> Doubt {
        self.doubt
    }

    /// The laws leave this much open, and nothing speaks for one direction.
    pub(crate) fn doubt_either_way(&mut self, bytes: u64) {
        self.doubt.either_way = self.doubt.either_way.saturating_add(bytes);
        self.doubt.by_laws = self.doubt.by_laws.saturating_add(bytes);
    }

    /// The laws leave this much open; what measurements have taught of such cases is added.
    pub(crate) fn doubt(&mut self, bytes: u64) {
        self.doubt.by_laws = self.doubt.by_laws.saturating_add(bytes);
        let most = (self.bytes / MOST_CORRECTED_PART) as i64;
        let before = self.corrected_bytes;
        self.corrected_bytes = (before + self.bias.of(bytes)).clamp(-most, most);
        let moved = self.corrected_bytes - before;
        self.bytes = self.bytes.saturating_add_signed(moved);
    }

    /// So much of what was said to be in doubt is about copies.
    pub(crate) fn doubt_is_about_copies(&mut self, bytes: u64) {
        let copies = self.doubt.copies.saturating_add(bytes);
        self.doubt.copies = copies.min(self.doubt.by_laws);
    }

    /// A measurement left this much open: it should be repeated.
    pub(crate) fn doubt_again(&mut self, bytes: u64) {
        self.doubt.by_measuring = self.doubt.by_measuring.saturating_add(bytes);
    }

    pub(crate) fn be_certain(&mut self) {
        self.doubt = Doubt::default();
        self.corrected_bytes = 0;
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    pub(crate) fn remove(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// A process's own part changed.
    pub(crate) fn follow(&mut self, before: u64, after: u64) {
        self.bytes = (self.bytes + after).saturating_sub(before);
    }

    /// Somebody holds this much, so the set has at least that. Says by how much that raised it.
    pub(crate) fn include(&mut self, bytes: u64) -> u64 {
        let raised = bytes.saturating_sub(self.bytes);
        self.bytes += raised;
        self.raised_bytes = self.raised_bytes.saturating_add(raised);
        raised
    }

    /// So much of what one member alone has raised it by turned out to be pages of their own.
    pub(crate) fn prove_raised(&mut self, bytes: u64) {
        self.raised_bytes = self.raised_bytes.saturating_sub(bytes);
    }

    /// What one member alone has raised it by since the last measurement, and nobody has proved.
    pub(crate) fn raised_bytes(&self) -> u64 {
        self.raised_bytes
    }

    /// The set was counted; what came into doubt after counting began stays so.
    pub(crate) fn measured(&mut self, bytes: u64, at_begin: Doubt) {
        let by_laws = self.bytes.saturating_add_signed(-self.corrected_bytes);
        // Where births and deaths left more open than anything else, they are what was off.
        if at_begin.either_way <= at_begin.by_laws / 2 {
            self.bias.learn(by_laws, bytes, at_begin.by_laws);
        }
        self.bytes = bytes;
        self.corrected_bytes = 0;
        self.raised_bytes = 0;
        self.doubt.by_laws = self.doubt.by_laws.saturating_sub(at_begin.by_laws);
        self.doubt.either_way = self.doubt.either_way.saturating_sub(at_begin.either_way);
        self.doubt.copies = self.doubt.copies.saturating_sub(at_begin.copies);
        self.doubt.by_measuring -= self.doubt.by_measuring.min(at_begin.by_measuring);
    }

    /// How much of what members are said to hold alone fits in: less than 1 where that is out of date.
    pub(crate) fn scale_of_alone(&self) -> f64 {
        if self.sum_alone > self.bytes {
            self.bytes as f64 / self.sum_alone as f64
        } else {
            1.0
        }
    }

    pub(crate) fn begin_settling(&mut self) {
        self.sum = 0;
        self.sum_alone = 0;
        self.most = 0;
    }

    pub(crate) fn look_at(&mut self, part: &MemberShare) {
        self.sum += part.bytes;
        self.sum_alone += part.alone;
        self.most = self.most.max(part.bytes);
    }

    /// A set has at least what its largest member holds, and at most the sum.
    pub(crate) fn settle(&mut self) {
        self.bytes = self.bytes.clamp(self.most, self.sum);
        self.doubt.by_laws = self.doubt.by_laws.min(self.sum);
        self.doubt.either_way = self.doubt.either_way.min(self.doubt.by_laws);
        self.doubt.copies = self.doubt.copies.min(self.doubt.by_laws);
        self.doubt.by_measuring = self.doubt.by_measuring.min(self.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn laws_that_were_right_say_nothing_of_copies() {
        let mut set = SharedSet::default();
        set.add(400 * MIB);
        for _ in 0..9 {
            set.doubt(20 * MIB);
            set.measured(400 * MIB, set.open());
        }
        set.doubt(20 * MIB);
        assert!(set.likely_doubt_bytes() < 2 * MIB);
        set.doubt(20 * MIB);
        set.doubt_is_about_copies(20 * MIB);
        assert!(set.likely_doubt_bytes() >= 20 * MIB);
        set.measured(420 * MIB, set.open());
        assert_eq!(set.likely_doubt_bytes(), 0);
    }
}
