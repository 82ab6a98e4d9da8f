//! Texts stored once. A snapshot repeats a few thousand of them in millions of places.

use std::borrow::Cow;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::keys::KNOWN_TEXTS;

/// All texts of a snapshot, by number.
#[derive(Debug)]
pub struct TextPool {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Default for TextPool {
    /// The keys and actions of snapshots come first, so that their numbers are constants.
    fn default() -> Self {
        let hasher = DefaultHashBuilder::default();
        let mut pool = Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher,
        };
        for text in KNOWN_TEXTS {
            pool.intern(text.as_bytes());
        }
        pool
    }
}

impl TextPool {
    pub(crate) fn intern(&mut self, text: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(text);
        let (bytes, ends, hasher) = (&self.bytes, &self.ends, &self.hasher);
        if let Some(id) = self
            .index
            .find(hash, |id| text_at(bytes, ends, *id) == text)
        {
            return Some(*id);
        }
        let id = u32::try_from(self.ends.len()).ok()?;
        self.index
            .insert_unique(hash, id, |id| hasher.hash_one(text_at(bytes, ends, *id)));
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        Some(id)
    }

    /// The text of a number; bytes that are no UTF-8 are replaced.
    pub fn get(&self, id: u32) -> Cow<'_, str> {
        if (id as usize) < self.ends.len() {
            String::from_utf8_lossy(text_at(&self.bytes, &self.ends, id))
        } else {
            Cow::Borrowed("")
        }
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Never: the keys of snapshots are always there.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

fn text_at<'a>(bytes: &'a [u8], ends: &[usize], id: u32) -> &'a [u8] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &bytes[start..ends[id]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_stored_once_and_comes_back() {
        let mut pool = TextPool::default();
        let first = pool.intern(b"train.py").unwrap();
        let second = pool.intern(b"model.py").unwrap();
        assert_ne!(first, second);
        assert_eq!(pool.intern(b"train.py"), Some(first));
        assert_eq!(pool.get(second), "model.py");
        assert_eq!(pool.get(u32::MAX), "");
    }
}
