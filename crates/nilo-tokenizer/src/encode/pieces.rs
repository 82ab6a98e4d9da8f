//! A text in pieces that can be encoded one by one: cut at special tokens, and where the pattern allows it.

use std::ops::Range;

use super::{Encoder, SpecialTokens};

/// A part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextPiece {
    /// Text.
    Text(Range<usize>),
    /// A special token's id.
    Special(u32),
}

impl Encoder {
    /// The pieces of a text, about `bytes` each.
    pub(super) fn pieces(
        &self,
        text: &[u8],
        specials: SpecialTokens,
        bytes: usize,
    ) -> Vec<TextPiece> {
        let mut pieces = Vec::new();
        let mut start = 0;
        let finder = self
            .specials
            .as_ref()
            .filter(|_| specials == SpecialTokens::Recognise);
        for found in finder.iter().flat_map(|finder| finder.find_iter(text)) {
            self.cut(text, start..found.start(), bytes, &mut pieces);
            pieces.push(TextPiece::Special(
                self.special_ids[found.pattern().as_usize()],
            ));
            start = found.end();
        }
        self.cut(text, start..text.len(), bytes, &mut pieces);
        pieces
    }

    fn cut(&self, text: &[u8], mut range: Range<usize>, bytes: usize, pieces: &mut Vec<TextPiece>) {
        while range.len() > bytes {
            let Some(length) = self.pattern.safe_cut_before(&text[range.clone()], bytes) else {
                break;
            };
            pieces.push(TextPiece::Text(range.start..range.start + length));
            range.start += length;
        }
        if !range.is_empty() {
            pieces.push(TextPiece::Text(range));
        }
    }
}
