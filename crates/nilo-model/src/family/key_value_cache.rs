//! Keys and values of the tokens so far.

use std::cell::RefCell;

use crate::dry_run::memory::Purpose;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

/// What a layer keeps of earlier tokens: keys and values, or what these are made from.
#[derive(Debug, Default)]
pub(crate) struct LayerCache {
    kept: RefCell<Option<[Tensor; 2]>>,
    /// How many tokens it keeps, where these are not all.
    window: Option<u64>,
}

impl LayerCache {
    /// A cache of all tokens, or of those that a window of so many sees.
    pub(crate) fn new(window: Option<u64>) -> Self {
        Self {
            kept: RefCell::new(None),
            window,
        }
    }

    /// What is kept with that of `length` new tokens behind it, in new memory.
    pub(crate) fn extended(&self, s: &DryRun, new: [&Tensor; 2], length: u64) -> [Tensor; 2] {
        let before = self.kept.borrow_mut().take();
        // Keys and values are cached in the type of the keys.
        let dtype = new[0].dtype;
        let longer = |before: Option<&Tensor>, new: &Tensor| {
            let count = before.map_or(0, |before| before.count) + new.count;
            let converted = s.cast(new, dtype);
            let result = s.new_tensor_for(Purpose::KeyValueCache, count, dtype);
            drop(converted);
            result
        };
        let [old_keys, old_values] = match before {
            Some([keys, values]) => [Some(keys), Some(values)],
            None => [None, None],
        };
        let keys = longer(old_keys.as_ref(), new[0]);
        // A window is cut behind both, so that the old keys stand until then.
        let old_keys = old_keys.filter(|_| self.window.is_some());
        let values = longer(old_values.as_ref(), new[1]);
        drop(old_keys);
        drop(old_values);
        let kept = [
            self.within_window(&keys, new[0], length),
            self.within_window(&values, new[1], length),
        ];
        *self.kept.borrow_mut() = Some(kept);
        [keys, values]
    }

    /// The last tokens of a tensor. They share its memory, which stands as a whole until the next pass.
    fn within_window(&self, all: &Tensor, new: &Tensor, length: u64) -> Tensor {
        let per_token = new.count / length;
        let most = self.window.map_or(u64::MAX, |window| {
            per_token.saturating_mul(window.saturating_sub(1).max(1))
        });
        all.narrowed(all.count.min(most))
    }
}
