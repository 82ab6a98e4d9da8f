//! Attention: the kernels of CUDA, and one operation after another.

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};

/// How attention is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionKernel {
    /// `scaled_dot_product_attention`: flash attention in 16 bits without a mask, otherwise the memory-efficient kernel.
    Sdpa,
    /// The library's own flash attention.
    Flash,
    /// Scores and weights of all pairs of tokens.
    Eager,
}

/// The shape of a call.
#[derive(Debug, Clone, Copy)]
pub struct AttentionShape {
    /// Sequences.
    pub batch: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Numbers of a query and of a key.
    pub head_dim: u64,
    /// Numbers of a value.
    pub value_dim: u64,
    /// Tokens that ask.
    pub queries: u64,
    /// Tokens that are asked.
    pub keys: u64,
}

/// Flash attention knows heads of up to so many numbers.
const FLASH_HEAD_DIM: u64 = 256;

impl DryRun {
    /// `torch.nn.functional.scaled_dot_product_attention`, with keys and values for each group of heads.
    pub(crate) fn fused_attention(
        &self,
        [q, k, v]: [&Tensor; 3],
        shape: AttentionShape,
        has_mask: bool,
    ) -> Tensor {
        let type_of_kernel = self.autocast.get().unwrap_or(q.dtype);
        let is_flash = type_of_kernel.is_half()
            && !has_mask
            && shape.head_dim == shape.value_dim
            && shape.head_dim <= FLASH_HEAD_DIM;
        let times = match is_flash {
            true => 1,
            false => shape.heads / shape.kv_heads,
        };
        // Beside a mask, the model repeats keys and values; otherwise `scaled_dot_product_attention` does.
        let early = if has_mask { times } else { 1 };
        let repeated = [k, v].map(|x| self.repeated(x, early));
        let [q, k, v] = [q, &repeated[0], &repeated[1]].map(|x| self.in_autocast_type(x));
        let late = |x: Tensor| self.repeated(&x, times / early);
        let (k, v) = (late(k), late(v));
        let result = self.attention_kernel([&q, &k, &v], shape, is_flash);
        drop((q, k, v));
        drop(repeated);
        result
    }

    fn attention_kernel(&self, qkv: [&Tensor; 3], shape: AttentionShape, is_flash: bool) -> Tensor {
        let [q, k, v] = qkv;
        let result = self.new_tensor(
            shape.batch * shape.queries * shape.heads * shape.value_dim,
            q.dtype,
        );
        // The logarithm of the sum of each row of scores.
        let rows = match is_flash {
            true => shape.queries,
            false => shape.queries.next_multiple_of(32),
        };
        let log_sums = self.new_tensor(shape.batch * shape.heads * rows, Dtype::F32);
        if !self.is_recorded(&qkv) {
            return result;
        }
        let kept = self.keep(&[q, k, v, &result, &log_sums]);
        drop(log_sums);
        self.record(&qkv, kept, result, move |session, _, kept| match is_flash {
            true => session.flash_gradients(kept, shape),
            false => session.efficient_gradients(kept, shape),
        })
    }

    fn flash_gradients(&self, kept: &[Tensor], shape: AttentionShape) -> Vec<Option<Tensor>> {
        let rows = shape.queries.next_multiple_of(128);
        let columns = match shape.head_dim <= 128 {
            true => shape.head_dim.next_multiple_of(32),
            false => shape.head_dim.next_multiple_of(64),
        };
        let per_row = shape.batch * shape.heads * rows;
        let sums = self.new_tensor(per_row, Dtype::F32);
        let results: Vec<_> = kept[..3].iter().map(|x| Some(self.new_like(x))).collect();
        let accumulated = self.new_tensor(per_row * columns, Dtype::F32);
        // Gradients of each query's copy of keys and values, added up afterwards.
        let copies = (shape.kv_heads != shape.heads).then(|| {
            let count = shape.batch * shape.keys * shape.heads * shape.head_dim;
            [&kept[1], &kept[2]].map(|x| self.new_tensor(count, x.dtype))
        });
        // The last is freed first.
        drop(copies.map(|[keys, values]| (values, keys)));
        drop(accumulated);
        drop(sums);
        results
    }

    fn efficient_gradients(&self, kept: &[Tensor], shape: AttentionShape) -> Vec<Option<Tensor>> {
        let per_row = shape.batch * shape.heads * shape.queries;
        let sums = self.new_tensor(per_row, Dtype::F32);
        let results: Vec<_> = kept[..3].iter().map(|x| Some(self.new_like(x))).collect();
        let accumulated = kept[0]
            .dtype
            .is_half()
            .then(|| self.new_tensor(per_row * shape.head_dim, Dtype::F32));
        drop(accumulated);
        drop(sums);
        results
    }

    /// Scores, softmax and the sum of values, each with memory of its own. Returns the result and the weights of all pairs.
    pub(crate) fn eager_attention(
        &self,
        [q, k, v]: [&Tensor; 3],
        shape: AttentionShape,
        settings: EagerAttention<'_>,
    ) -> (Tensor, Tensor) {
        let times = shape.heads / shape.kv_heads;
        let (keys, values) = (self.repeated(k, times), self.repeated(v, times));
        // A product of batches of matrices wants the rows of each head together; repeated ones are.
        let together = |x: &Tensor, is_apart: bool, is_key: bool| {
            let x = &self.in_autocast_type(x);
            match is_key && settings.broadcast > 1 && shape.batch > 1 {
                true => self.repeated(x, settings.broadcast),
                false if is_apart && !(is_key && times > 1) && shape.batch > 1 => self.copied(x),
                false => x.clone(),
            }
        };
        let [q_apart, k_apart, v_apart] = settings.are_apart;
        let pairs = shape.batch * shape.heads * shape.queries * shape.keys;
        let scores = {
            let (q, k) = (together(q, q_apart, false), together(&keys, k_apart, true));
            self.batched_product(&q, &k, pairs)
        };
        let scores = self.bounded_scores(scores, settings);
        let wide = match settings.scores {
            EagerScores::Wide => self.softmax_in(&scores, Dtype::F32),
            EagerScores::Narrow => match self.autocast.get() {
                Some(_) => self.softmax_in(&scores, Dtype::F32),
                None => self.softmax_in(&scores, scores.dtype),
            },
            EagerScores::NarrowInPlace => self.softmax_in(&scores, q.dtype),
        };
        // Where softmax and conversion are one line, the name of the scores holds them up to its end.
        let scores = (settings.scores == EagerScores::Wide).then_some(scores);
        let weights = match settings.scores {
            EagerScores::Wide => self.cast(&wide, q.dtype),
            EagerScores::Narrow | EagerScores::NarrowInPlace => self.cast(&wide, v.dtype),
        };
        drop(wide);
        drop(scores);
        let weights = match settings.scores {
            EagerScores::NarrowInPlace => weights,
            _ => self.dropout(&weights, settings.dropout),
        };
        let result = {
            let values = together(&values, v_apart, true);
            let count = shape.batch * shape.heads * shape.queries * shape.value_dim;
            self.batched_product(&weights, &values, count)
        };
        let result = match shape.queries > 1 {
            true => self.copied(&self.with_copied_gradient(result)),
            false => result,
        };
        drop((keys, values));
        (result, weights)
    }

    /// Scores scaled, capped and masked.
    fn bounded_scores(&self, scores: Tensor, settings: EagerAttention<'_>) -> Tensor {
        let mut bounded = match settings.scores {
            EagerScores::NarrowInPlace => self.mul_scalar_in_place(&scores),
            _ => self.mul_scalar(&scores),
        };
        drop(scores);
        if settings.has_softcap {
            bounded = self.mul_scalar(&bounded);
            bounded = self.unary(super::elementwise::Unary::OfResult, &bounded);
            bounded = self.mul_scalar(&bounded);
        }
        if let Some(mask) = settings.mask {
            bounded = self.add(&bounded, mask);
        }
        bounded
    }
}

/// What differs between models that compute attention step by step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EagerAttention<'a> {
    pub(crate) mask: Option<&'a Tensor>,
    pub(crate) dropout: f64,
    pub(crate) has_softcap: bool,
    pub(crate) scores: EagerScores,
    /// Whether the rows of one head of queries, keys and values lie apart.
    pub(crate) are_apart: [bool; 3],
    /// For how many heads the product itself repeats a head of keys and values.
    pub(crate) broadcast: u64,
}

/// In which type the weights of attention are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EagerScores {
    /// In 32 bits.
    Wide,
    /// In that of the scores.
    Narrow,
    /// In that of the scores, which are scaled where they are.
    NarrowInPlace,
}
