//! The stacks of a run on reading: those of all writers in one tree, and the rows that name them.

use std::collections::{BTreeMap, HashMap};

use nilo_sample::{ABSENT, RecordedTable, STACK_COLUMN, StackId, StackTree, Subject, TableSpec};

use crate::stack_record::DeclaredStack;

/// Stacks as they are gathered.
#[derive(Debug, Clone, Default)]
pub(crate) struct StackCollector {
    tree: StackTree,
    /// What each writer's numbers are called in the tree.
    by_writer: BTreeMap<String, HashMap<u32, StackId>>,
}

impl StackCollector {
    pub(crate) fn tree(&self) -> &StackTree {
        &self.tree
    }

    pub(crate) fn into_tree(self) -> StackTree {
        self.tree
    }

    /// Takes in a declaration; each segment repeats those that it needs.
    pub(crate) fn declare(
        &mut self,
        writer: &str,
        stack: &DeclaredStack<'_>,
    ) -> Result<(), &'static str> {
        if !self.by_writer.contains_key(writer) {
            self.by_writer.insert(writer.to_owned(), HashMap::new());
        }
        let known = self.by_writer.get_mut(writer).ok_or("no such writer")?;
        let parent = match stack.parent {
            None => None,
            Some(number) => Some(*known.get(&number).ok_or("its caller is not declared")?),
        };
        let added = self.tree.add_child(parent, &stack.frame);
        let id = added.ok_or("it is too deep")?;
        match *known.entry(stack.number).or_insert(id) == id {
            true => Ok(()),
            false => Err("another one has its number"),
        }
    }

    /// Puts the tree's numbers in the place of the writers'. A stack that is not declared was lost, and its rows have none.
    pub(crate) fn rename_in(&self, tables: &mut [RecordedTable]) {
        for table in tables {
            let known = self.by_writer.get(&table.writer);
            rename(table, |number| known?.get(&number).copied());
        }
    }
}

/// Adds the stacks of another recording, and renames them in the tables that come from there.
pub(crate) fn add_stacks(into: &mut StackTree, from: &StackTree, tables: &mut [RecordedTable]) {
    if from.is_empty() {
        return;
    }
    let renamed = into.add_all(from);
    for table in tables {
        rename(table, |number| *renamed.get(number as usize)?);
    }
}

fn rename(table: &mut RecordedTable, new_id: impl Fn(u32) -> Option<StackId>) {
    let Some(column) = stack_column(&table.spec) else {
        return;
    };
    for value in &mut table.columns[column] {
        let number = *value as u32;
        let is_number = f64::from(number) == *value;
        let id = is_number.then(|| new_id(number)).flatten();
        *value = id.map_or(ABSENT, StackId::value);
    }
}

/// The column of a table that names stacks. A metric of the user may be called anything.
fn stack_column(spec: &TableSpec) -> Option<usize> {
    match spec.subject {
        Subject::Metrics { .. } => None,
        _ => spec.column(STACK_COLUMN),
    }
}
