//! Processes that come from one another by `fork` without `exec`, and may share anonymous pages.

use super::birth_copies::BirthCopies;
use super::copied_share::CopiedShare;
use super::shared_set::SharedSet;

/// How much must have been claimed before a lesson is drawn from a measurement.
pub(crate) const LEARN_FROM_BYTES: u64 = 2 << 20;

/// Who belongs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FamilyKey {
    /// The layout of the address space, drawn at random on each `exec` and kept by `fork`.
    Layout(u64),
    /// The process that founded the family, where the layout may not be known.
    Founder(u32),
}

/// A family.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) members: usize,
    /// How often somebody joined or left.
    pub(crate) changes: u64,
    pub(crate) anon: SharedSet,
    /// What members that left since the last measurement shared with others: some of it is held by one alone now.
    pub(crate) left_bytes: u64,
    pub(crate) copied: CopiedShare,
    pub(crate) birth_copies: BirthCopies,
    /// It was measured since newcomers were last looked for: one that is found now may have been on its way already,
    /// so that shares were divided by one more than were known.
    pub(crate) measured_since_look: bool,
}

impl Family {
    pub(crate) fn enter(&mut self) {
        self.members += 1;
        self.changes += 1;
    }

    pub(crate) fn exit(&mut self) {
        self.members -= 1;
        self.changes += 1;
    }

    pub(crate) fn doubt(&mut self, bytes: u64) {
        self.anon.doubt(bytes);
    }
}
