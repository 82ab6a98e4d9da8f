//! Attention with queries, keys and values for each head.

use std::rc::Rc;

use super::build::{Build, Place};
use super::decoder_layer::Pass;
use super::key_value_cache::LayerCache;
use super::normalization::Norm;
use super::rotary::RotaryTables;
use super::shape::{AttentionLayout, DecoderShape, NormKind, PositionKind, QueryNorm};
use crate::dry_run::ops::attention::{EagerAttention, EagerScores};
use crate::dry_run::ops::{AttentionKernel, AttentionShape, LinearLayer};
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

#[derive(Debug)]
enum Projections {
    Separate([LinearLayer; 3]),
    Together(LinearLayer),
}

#[derive(Debug)]
pub(crate) struct DecoderAttention {
    shape: Rc<DecoderShape>,
    is_sliding: bool,
    projections: Projections,
    output: LinearLayer,
    query_norms: Option<[Norm; 2]>,
}

/// What attention returns: its output, and the weights of all pairs of tokens where these were computed.
pub(crate) struct AttentionOutput {
    pub(crate) output: Tensor,
    pub(crate) weights: Option<Tensor>,
}

/// Queries, keys and values, and the product that they are parts of.
struct Projected {
    qkv: [Tensor; 3],
    whole: Option<Tensor>,
}

/// Queries and keys with their positions, and what the names of the function hold up to its end.
struct PartlyRotated {
    both: [Tensor; 2],
    parts: Option<[(Tensor, [Tensor; 2]); 2]>,
}

impl DecoderAttention {
    pub(crate) fn new(build: &Build<'_>, shape: &Rc<DecoderShape>, is_sliding: bool) -> Self {
        let (hidden, bias) = (shape.hidden, shape.has_qkv_bias);
        let (query, key) = (
            shape.heads * shape.head_dim,
            shape.kv_heads * shape.head_dim,
        );
        let linear = |outputs| build.linear(hidden, outputs, bias, Place::Attention);
        let output = || build.linear(query, hidden, shape.has_output_bias, Place::Attention);
        let early = (shape.attention == AttentionLayout::Sliced).then(output);
        let projections = match shape.attention {
            AttentionLayout::Separate => {
                Projections::Separate([linear(query), linear(key), linear(key)])
            }
            AttentionLayout::Split | AttentionLayout::Sliced | AttentionLayout::Indexed => {
                Projections::Together(linear(query + 2 * key))
            }
        };
        let output = early.unwrap_or_else(output);
        let norm = |width| Norm::new(build, shape.norm, width);
        let query_norms = match shape.query_norm {
            QueryNorm::None => None,
            QueryNorm::Heads => Some([norm(shape.head_dim), norm(shape.head_dim)]),
            QueryNorm::Rows => Some([norm(query), norm(key)]),
        };
        Self {
            shape: Rc::clone(shape),
            is_sliding,
            projections,
            output,
            query_norms,
        }
    }

    pub(crate) fn forward(
        &self,
        s: &DryRun,
        x: &Tensor,
        pass: &Pass,
        cache: Option<&LayerCache>,
    ) -> AttentionOutput {
        let projected = self.projected(s, x, pass);
        let Projected {
            qkv: [mut q, mut k, mut v],
            whole,
        } = projected;
        let tables = match (&pass.window_rotary, self.is_sliding) {
            (Some(tables), true) => Some(tables),
            _ => pass.rotary.as_ref(),
        };
        let mut parts = None;
        match (self.shape.positions, tables) {
            (PositionKind::Rotary, Some(tables)) => {
                let turned = rotated(s, [&q, &k], tables);
                // Where positions are told in 32 bits, what they turn has its own type again.
                let turned = match self.shape.norm {
                    NormKind::RmsWide => {
                        let narrow = [s.cast(&turned[0], q.dtype), s.cast(&turned[1], k.dtype)];
                        drop(turned);
                        narrow
                    }
                    _ => turned,
                };
                [q, k] = turned;
            }
            (PositionKind::PartlyRotary(numbers), Some(tables)) => {
                let turned = self.partly_rotated(s, [&q, &k], tables, numbers);
                [q, k] = turned.both;
                parts = turned.parts;
            }
            _ => {}
        }
        if let Some(cache) = cache {
            [k, v] = cache.extended(s, [&k, &v], pass.length);
        }
        let shape = self.attention_shape(pass, &k);
        let mask = pass.masks.of_layer(self.is_sliding);
        let is_cached = cache.is_some();
        // What was turned and what was not are put together again, head by head.
        let is_joined = matches!(self.shape.positions, PositionKind::PartlyRotary(_));
        let eager = EagerAttention {
            mask,
            dropout: self.shape.attention_dropout,
            has_softcap: self.shape.has_attention_softcap,
            scores: match self.shape.attention {
                AttentionLayout::Split => EagerScores::Narrow,
                AttentionLayout::Indexed => EagerScores::NarrowInPlace,
                AttentionLayout::Separate | AttentionLayout::Sliced => EagerScores::Wide,
            },
            // Heads are columns of one matrix, until keys and values are put behind those of the cache.
            are_apart: match self.shape.attention {
                AttentionLayout::Indexed => [true, true, false],
                _ => [!is_joined, !is_joined && !is_cached, !is_cached],
            },
            broadcast: match self.shape.attention {
                AttentionLayout::Indexed => self.shape.heads / self.shape.kv_heads,
                _ => 1,
            },
        };
        let (attended, weights) = attend(s, [&q, &k, &v], shape, pass.kernel, eager);
        let output = s.linear(&self.output, &attended);
        drop(attended);
        // Names of the function hold these up to its end.
        drop(whole);
        drop((q, k, v));
        drop(parts);
        let output = s.dropout(&output, self.shape.dropout);
        AttentionOutput { output, weights }
    }

    fn projected(&self, s: &DryRun, x: &Tensor, pass: &Pass) -> Projected {
        let normalized = |index: usize, x: Tensor| match &self.query_norms {
            Some(norms) => norms[index].applied(s, &x),
            None => x,
        };
        // Step by step, and through the rotation of positions, gradients come head by head.
        let is_eager = pass.kernel == AttentionKernel::Eager;
        let is_rotary = !matches!(self.shape.positions, PositionKind::Table(_));
        let by_heads = |x: Tensor, comes_by_heads: bool| match comes_by_heads {
            true => s.with_copied_gradient(x),
            false => x,
        };
        match &self.projections {
            Projections::Separate([query, key, value]) => {
                // A norm of heads stands right behind its projection, or behind all three.
                let is_late = self.shape.norm == NormKind::RmsPlusOne;
                let q = by_heads(s.linear(query, x), is_eager || is_rotary);
                let q = if is_late { q } else { normalized(0, q) };
                let k = by_heads(s.linear(key, x), is_rotary && self.shape.kv_heads > 1);
                let k = if is_late { k } else { normalized(1, k) };
                let v = by_heads(s.linear(value, x), is_eager);
                let qkv = match is_late {
                    true => [normalized(0, q), normalized(1, k), v],
                    false => [q, k, v],
                };
                Projected { qkv, whole: None }
            }
            Projections::Together(projection) => {
                let all = s.linear(projection, x);
                let groups = self.shape.heads + 2 * self.shape.kv_heads;
                let query = all.count / groups * self.shape.heads;
                let key = (all.count - query) / 2;
                match self.shape.attention {
                    AttentionLayout::Sliced => {
                        let [q, k, v] = [query, key, key].map(|count| s.slice(&all, count));
                        let has_heads = self.shape.kv_heads > 1;
                        Projected {
                            qkv: [
                                by_heads(q, true),
                                by_heads(k, has_heads),
                                by_heads(v, is_eager),
                            ],
                            whole: Some(all),
                        }
                    }
                    AttentionLayout::Indexed => {
                        let q = s.slice(&all, query);
                        let k = s.copied_part(&all, key);
                        let v = s.copied_part(&all, key);
                        Projected {
                            qkv: [q, k, v],
                            whole: Some(all),
                        }
                    }
                    AttentionLayout::Split | AttentionLayout::Separate => {
                        let parts = s.split(&all, &[query, key, key]);
                        let [q, k, v] = parts.try_into().expect("three parts");
                        Projected {
                            qkv: [by_heads(q, is_eager), k, by_heads(v, is_eager)],
                            whole: None,
                        }
                    }
                }
            }
        }
    }

    /// The first numbers of each head are turned, the others stay.
    fn partly_rotated(
        &self,
        s: &DryRun,
        both: [&Tensor; 2],
        tables: &RotaryTables,
        numbers: u64,
    ) -> PartlyRotated {
        let parts = both.map(|x| {
            let turned = x.count / self.shape.head_dim * numbers;
            [s.slice(x, turned), s.slice(x, x.count - turned)]
        });
        let turned = |x: &Tensor| s.rotated(x, &tables.cosine, &tables.sine);
        if self.shape.attention == AttentionLayout::Sliced {
            let both = parts.map(|[first, rest]| s.cat(&[&turned(&first), &rest]));
            return PartlyRotated { both, parts: None };
        }
        let first = [turned(&parts[0][0]), turned(&parts[1][0])];
        let both = [0, 1].map(|index| s.cat(&[&first[index], &parts[index][1]]));
        let ([q, k], [q_parts, k_parts]) = (first, parts);
        PartlyRotated {
            both,
            parts: Some([(q, q_parts), (k, k_parts)]),
        }
    }

    fn attention_shape(&self, pass: &Pass, keys: &Tensor) -> AttentionShape {
        let per_token = pass.batch * self.shape.kv_heads * self.shape.head_dim;
        AttentionShape {
            batch: pass.batch,
            heads: self.shape.heads,
            kv_heads: match self.shape.attention {
                // The kernel is given one head of keys and values for all.
                AttentionLayout::Indexed => self.shape.heads,
                _ => self.shape.kv_heads,
            },
            head_dim: self.shape.head_dim,
            value_dim: self.shape.head_dim,
            queries: pass.length,
            keys: keys.count / per_token,
        }
    }
}

/// Attention by a kernel, or step by step.
pub(crate) fn attend(
    s: &DryRun,
    qkv: [&Tensor; 3],
    shape: AttentionShape,
    kernel: AttentionKernel,
    eager: EagerAttention<'_>,
) -> (Tensor, Option<Tensor>) {
    match kernel {
        AttentionKernel::Eager => {
            let (result, weights) = s.eager_attention(qkv, shape, eager);
            (result, Some(weights))
        }
        AttentionKernel::Sdpa => (s.fused_attention(qkv, shape, eager.mask.is_some()), None),
        AttentionKernel::Flash => (s.fused_attention(qkv, shape, false), None),
    }
}

fn rotated(s: &DryRun, both: [&Tensor; 2], tables: &RotaryTables) -> [Tensor; 2] {
    both.map(|x| s.rotated(x, &tables.cosine, &tables.sine))
}
