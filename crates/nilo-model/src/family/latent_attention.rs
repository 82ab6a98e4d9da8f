//! Multi-head latent attention, as in DeepSeek: keys and values of all heads are made from fewer numbers, and only these are cached.

use std::rc::Rc;

use super::attention::{AttentionOutput, attend};
use super::build::{Build, Place};
use super::decoder_layer::Pass;
use super::key_value_cache::LayerCache;
use super::normalization::Norm;
use super::rotary::RotaryTables;
use super::shape::{DecoderShape, LatentRotation, LatentShape};
use crate::dry_run::ops::attention::{EagerAttention, EagerScores};
use crate::dry_run::ops::{AttentionShape, LinearLayer};
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};

#[derive(Debug)]
enum Query {
    Direct(LinearLayer),
    /// By way of fewer numbers, which are normalized.
    Latent {
        down: LinearLayer,
        norm: Norm,
        up: LinearLayer,
    },
}

#[derive(Debug)]
pub(crate) struct LatentAttention {
    shape: Rc<DecoderShape>,
    latent: LatentShape,
    query: Query,
    key_value_down: LinearLayer,
    norm: Norm,
    key_value_up: LinearLayer,
    output: LinearLayer,
}

impl LatentAttention {
    pub(crate) fn new(build: &Build<'_>, shape: &Rc<DecoderShape>, latent: LatentShape) -> Self {
        let (hidden, heads, bias) = (shape.hidden, shape.heads, shape.has_qkv_bias);
        let linear = |inputs, outputs, bias| build.linear(inputs, outputs, bias, Place::Attention);
        let queries = heads * (latent.plain_dim + latent.rotary_dim);
        let query = match latent.query_rank {
            None => Query::Direct(linear(hidden, queries, false)),
            Some(rank) => Query::Latent {
                down: linear(hidden, rank, bias),
                norm: Norm::new(build, shape.norm, rank),
                up: linear(rank, queries, false),
            },
        };
        let rank = latent.key_value_rank;
        Self {
            query,
            key_value_down: linear(hidden, rank + latent.rotary_dim, bias),
            norm: Norm::new(build, shape.norm, rank),
            key_value_up: linear(rank, heads * (latent.plain_dim + latent.value_dim), false),
            output: linear(heads * latent.value_dim, hidden, shape.has_output_bias),
            shape: Rc::clone(shape),
            latent,
        }
    }

    pub(crate) fn forward(
        &self,
        s: &DryRun,
        x: &Tensor,
        pass: &Pass,
        cache: Option<&LayerCache>,
    ) -> AttentionOutput {
        let (heads, latent) = (self.shape.heads, &self.latent);
        let tokens = pass.batch * pass.length;
        let q = self.queries(s, x);
        let [q_plain, mut q_turned] = two_parts(
            s,
            &q,
            [latent.plain_dim, latent.rotary_dim].map(|numbers| tokens * heads * numbers),
        );
        let compressed = s.linear(&self.key_value_down, x);
        let [mut low, mut k_turned] = two_parts(
            s,
            &compressed,
            [latent.key_value_rank, latent.rotary_dim].map(|numbers| tokens * numbers),
        );
        low = self.norm.applied(s, &low);
        if let Some(tables) = &pass.rotary {
            [q_turned, k_turned] = self.rotated(s, [&q_turned, &k_turned], tables);
        }
        if let Some(cache) = cache {
            [low, k_turned] = cache.extended(s, [&low, &k_turned], pass.length);
        }
        let query = s.cat(&[&q_plain, &q_turned]);
        let keys = low.count / (pass.batch * latent.key_value_rank);
        let [key, value] = self.keys_and_values(s, &low, &k_turned, pass.batch * keys);
        let shape = AttentionShape {
            batch: pass.batch,
            heads,
            kv_heads: heads,
            head_dim: latent.plain_dim + latent.rotary_dim,
            value_dim: latent.value_dim,
            queries: pass.length,
            keys,
        };
        let eager = EagerAttention {
            mask: pass.masks.of_layer(false),
            dropout: self.shape.attention_dropout,
            has_softcap: false,
            scores: EagerScores::Wide,
            are_apart: [false, false, true],
            broadcast: 1,
        };
        let (attended, weights) = attend(s, [&query, &key, &value], shape, pass.kernel, eager);
        let output = s.linear(&self.output, &attended);
        drop(attended);
        // Names of the function hold these up to its end.
        drop((
            q, q_plain, q_turned, compressed, low, k_turned, query, key, value,
        ));
        AttentionOutput { output, weights }
    }

    fn queries(&self, s: &DryRun, x: &Tensor) -> Tensor {
        let q = match &self.query {
            Query::Direct(layer) => s.linear(layer, x),
            Query::Latent { down, norm, up } => {
                let low = {
                    let low = s.linear(down, x);
                    norm.applied(s, &low)
                };
                s.linear(up, &low)
            }
        };
        s.with_copied_gradient(q)
    }

    fn rotated(&self, s: &DryRun, both: [&Tensor; 2], tables: &RotaryTables) -> [Tensor; 2] {
        match self.latent.rotation {
            LatentRotation::Halves => both.map(|x| s.rotated(x, &tables.cosine, &tables.sine)),
            LatentRotation::Pairs => {
                both.map(|x| s.rotated_in_pairs(x, &tables.cosine, &tables.sine))
            }
            LatentRotation::Complex => {
                let wide = both.map(|x| s.cast(x, Dtype::F32));
                [0, 1].map(|index| {
                    let turned = s.mul(&wide[index], &tables.cosine);
                    s.cast(&turned, both[index].dtype)
                })
            }
        }
    }

    /// Keys and values of all heads, from what is cached.
    fn keys_and_values(
        &self,
        s: &DryRun,
        low: &Tensor,
        turned: &Tensor,
        tokens: u64,
    ) -> [Tensor; 2] {
        let (heads, latent) = (self.shape.heads, &self.latent);
        let both = s.with_copied_gradient(s.linear(&self.key_value_up, low));
        let [plain, value] = two_parts(
            s,
            &both,
            [latent.plain_dim, latent.value_dim].map(|numbers| tokens * heads * numbers),
        );
        let turned = s.expanded(turned, heads);
        let key = s.new_tensor(
            tokens * heads * (latent.plain_dim + latent.rotary_dim),
            both.dtype,
        );
        let key = s.filled(&key, &plain);
        [s.filled(&key, &turned), value]
    }
}

fn two_parts(s: &DryRun, x: &Tensor, counts: [u64; 2]) -> [Tensor; 2] {
    s.split(x, &counts).try_into().expect("two parts")
}
