//! Ids to texts.

use crate::model::Model;

/// What is done with an id that has no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownIds {
    /// It is an error.
    Refuse,
    /// It is left out.
    Skip,
}

/// An id without a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("id {id} at position {position} is not in the vocabulary of {size} tokens")]
pub struct UnknownId {
    /// The id.
    pub id: u32,
    /// Where it stands, counted from zero.
    pub position: usize,
    /// The size of the vocabulary.
    pub size: usize,
}

impl Model {
    /// The bytes that ids stand for. They need not be valid UTF-8: a character may be made of several tokens.
    pub fn decode(&self, ids: &[u32], unknown: UnknownIds) -> Result<Vec<u8>, UnknownId> {
        let mut bytes = Vec::with_capacity(ids.len() * 4);
        for (position, &id) in ids.iter().enumerate() {
            match self.token(id) {
                Some(token) => bytes.extend_from_slice(token),
                None if unknown == UnknownIds::Skip => {}
                None => {
                    return Err(UnknownId {
                        id,
                        position,
                        size: self.vocabulary_size(),
                    });
                }
            }
        }
        Ok(bytes)
    }
}
