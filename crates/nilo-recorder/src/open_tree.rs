//! Opens the tree of processes that a recording is about.

use nilo_source::{ProcessTree, Roots, SourceError, TreeOptions};

/// Whom the tree holds beside the roots and their descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeScope {
    /// Not us.
    Others,
    /// Not us, but the processes that fall to us when their parents die.
    OthersAndOrphans,
    /// Us too: the job records itself.
    WithOurselves,
}

pub(crate) fn open_tree(roots: &Roots, included: TreeScope) -> Result<ProcessTree, SourceError> {
    let own_pid = std::process::id();
    let options = TreeOptions {
        include_orphans_of: (included == TreeScope::OthersAndOrphans).then_some(own_pid),
        exclude_pid: (included != TreeScope::WithOurselves).then_some(own_pid),
        ..TreeOptions::default()
    };
    ProcessTree::new(roots, options)
}
