//! A decoder: embeddings, layers, and the scores of all words.

use std::rc::Rc;

use super::build::{Build, Place};
use super::decoder_layer::{DecoderLayer, Pass};
use super::key_value_cache::LayerCache;
use super::masks::AttentionMasks;
use super::normalization::Norm;
use super::rotary::RotaryTables;
use super::shape::{DecoderShape, NormKind, PositionKind};
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::elementwise::Unary;
use crate::dry_run::ops::{AttentionKernel, LinearLayer};
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// A decoder with its weights.
pub struct Decoder {
    shape: Rc<DecoderShape>,
    embeddings: Rc<Parameter>,
    positions: Option<Rc<Parameter>>,
    layers: Vec<Rc<DecoderLayer>>,
    norm: Norm,
    head: Option<LinearLayer>,
    kernel: AttentionKernel,
    checkpoint_every: Option<u64>,
    caches: Vec<LayerCache>,
    past: std::cell::Cell<u64>,
}

/// A batch of sequences of tokens.
#[derive(Debug, Clone, Copy)]
pub struct TokenBatch {
    /// Sequences.
    pub batch: u64,
    /// Tokens of each.
    pub length: u64,
}

impl TokenBatch {
    /// All tokens.
    pub fn count(self) -> u64 {
        self.batch * self.length
    }
}

impl Decoder {
    /// A decoder of a shape; every so many layers are checkpointed.
    pub fn new(
        build: &Build<'_>,
        shape: DecoderShape,
        kernel: AttentionKernel,
        checkpoint_every: Option<u64>,
    ) -> Self {
        let shape = Rc::new(shape);
        let embeddings = build.weight(shape.vocabulary, shape.hidden);
        let positions = match shape.positions {
            PositionKind::Table(count) => Some(build.weight(count, shape.hidden)),
            _ => None,
        };
        let layers = (0..shape.layers)
            .map(|index| Rc::new(DecoderLayer::new(build, &shape, index)))
            .collect();
        let norm = Norm::new(build, shape.norm, shape.hidden);
        let head = (!shape.is_tied).then(|| {
            build.linear(
                shape.hidden,
                shape.vocabulary,
                shape.has_head_bias,
                Place::Head,
            )
        });
        let kernel = match shape.has_attention_softcap && kernel == AttentionKernel::Sdpa {
            true => AttentionKernel::Eager,
            false => kernel,
        };
        Self {
            caches: empty_caches(&shape),
            past: std::cell::Cell::new(0),
            shape,
            embeddings,
            positions,
            layers,
            norm,
            head,
            kernel,
            checkpoint_every,
        }
    }

    /// The rows behind the last layer.
    fn hidden(&self, s: &DryRun, ids: &Tensor, tokens: TokenBatch, has_cache: bool) -> Tensor {
        let shape = &self.shape;
        let mut hidden = s.embedding(&self.embeddings, shape.hidden, ids);
        if shape.has_scaled_embeddings {
            hidden = s.mul_scalar(&hidden);
        }
        // Names of the function hold these up to its end.
        let embedded = hidden.clone();
        let mut placed = None;
        let numbers = s.new_tensor(tokens.length, Dtype::I64);
        if let Some(table) = &self.positions {
            let positions = s.embedding(table, shape.hidden, &numbers);
            hidden = s.add(&hidden, &positions);
            placed = Some(positions);
        }
        hidden = s.dropout(&hidden, shape.dropout);
        let pass = self.pass(s, &hidden, tokens);
        for (index, layer) in self.layers.iter().enumerate() {
            hidden = match self.is_checkpointed(index as u64) && !has_cache {
                true => {
                    let (layer, pass, input) = (Rc::clone(layer), pass.clone(), hidden.clone());
                    s.checkpointed(Rc::new(move |s: &DryRun| {
                        layer.forward(s, &input, &pass, None)
                    }))
                }
                false => layer.forward(s, &hidden, &pass, has_cache.then(|| &self.caches[index])),
            };
        }
        let result = self.norm.forward(s, &hidden);
        drop(hidden);
        drop((embedded, placed));
        result
    }

    fn is_checkpointed(&self, layer: u64) -> bool {
        self.checkpoint_every
            .is_some_and(|every| layer.is_multiple_of(every))
    }

    fn pass(&self, s: &DryRun, hidden: &Tensor, tokens: TokenBatch) -> Pass {
        let numbers = match self.shape.positions {
            PositionKind::Table(_) => None,
            PositionKind::Rotary => {
                let latent = self.shape.latent.as_ref();
                Some(latent.map_or(self.shape.head_dim, |latent| latent.rotary_dim))
            }
            PositionKind::PartlyRotary(numbers) => Some(numbers),
        };
        let past = self.past.get();
        let dtype = match self.shape.norm {
            NormKind::RmsWide => Dtype::F32,
            _ => hidden.dtype,
        };
        let tables = |is_needed: bool| {
            let numbers = numbers.filter(|_| is_needed)?;
            Some(RotaryTables::new(s, tokens.length, numbers, dtype))
        };
        let masks = AttentionMasks::new(s, &self.shape, self.kernel, tokens, past, hidden.dtype);
        Pass {
            batch: tokens.batch,
            length: tokens.length,
            kernel: self.kernel,
            rotary: tables(true),
            window_rotary: tables(self.shape.has_window_positions),
            masks,
        }
    }

    fn scores(&self, s: &DryRun, hidden: &Tensor) -> Tensor {
        let mut scores = match &self.head {
            Some(head) => s.linear(head, hidden),
            None => s.product(
                hidden,
                &self.embeddings,
                None,
                self.shape.hidden,
                self.shape.vocabulary,
            ),
        };
        if self.shape.has_final_softcap {
            scores = s.mul_scalar(&scores);
            scores = s.unary(Unary::OfResult, &scores);
            scores = s.mul_scalar(&scores);
        }
        scores
    }

    /// The loss of a batch whose labels are its tokens.
    pub fn loss(
        &self,
        s: &DryRun,
        ids: &Tensor,
        tokens: TokenBatch,
        chunks: Option<u64>,
    ) -> Tensor {
        let hidden = self.hidden(s, ids, tokens, false);
        s.part(Purpose::Loss, || match chunks {
            None => {
                let scores = self.scores(s, &hidden);
                let loss = self.loss_of(s, &scores, ids, tokens);
                drop(hidden);
                drop(scores);
                loss
            }
            Some(chunks) => self.loss_in_chunks(s, &hidden, ids, tokens, chunks),
        })
    }

    fn loss_of(&self, s: &DryRun, scores: &Tensor, ids: &Tensor, tokens: TokenBatch) -> Tensor {
        let wide = s.cast(scores, Dtype::F32);
        let padded = s.new_tensor(tokens.count() + tokens.batch, ids.dtype);
        let labels = s.new_tensor(tokens.count(), ids.dtype);
        let loss = s.cross_entropy(&wide, &labels, self.shape.vocabulary);
        drop(wide);
        drop(padded);
        loss
    }

    /// The rows in so many parts, each of which computes its scores again in backward.
    fn loss_in_chunks(
        &self,
        s: &DryRun,
        hidden: &Tensor,
        ids: &Tensor,
        tokens: TokenBatch,
        chunks: u64,
    ) -> Tensor {
        let rows = tokens.count().div_ceil(chunks);
        let weight = match &self.head {
            Some(head) => Rc::clone(&head.weight),
            None => Rc::clone(&self.embeddings),
        };
        let (width, words) = (self.shape.hidden, self.shape.vocabulary);
        let mut total: Option<Tensor> = None;
        let mut left = tokens.count();
        while left > 0 {
            let count = rows.min(left);
            left -= count;
            let part = s.slice(hidden, count * width);
            let labels = ids.narrowed(count);
            let weight = Rc::clone(&weight);
            let loss = s.checkpointed(Rc::new(move |s: &DryRun| {
                let scores = s.product(&part, &weight, None, width, words);
                let wide = s.cast(&scores, Dtype::F32);
                drop(scores);
                s.cross_entropy(&wide, &labels, words)
            }));
            total = Some(match total {
                None => loss,
                Some(sum) => s.add(&sum, &loss),
            });
        }
        s.mean(&total.expect("a batch has tokens"))
    }

    /// One pass without labels: the scores of all tokens, or of the last one of each sequence.
    pub fn predict(&self, s: &DryRun, ids: &Tensor, tokens: TokenBatch, last_only: bool) -> Tensor {
        let hidden = self.hidden(s, ids, tokens, true);
        self.past.set(self.past.get() + tokens.length);
        let rows = match last_only {
            true => s.slice(&hidden, tokens.batch * self.shape.hidden),
            false => hidden.clone(),
        };
        s.part(Purpose::Loss, || self.scores(s, &rows))
    }

    /// Forgets keys and values.
    pub fn forget(&mut self) {
        self.caches = empty_caches(&self.shape);
        self.past.set(0);
    }
}

fn empty_caches(shape: &DecoderShape) -> Vec<LayerCache> {
    let window = |layer| shape.sliding_window.filter(|_| shape.is_sliding(layer));
    (0..shape.layers)
        .map(|layer| LayerCache::new(window(layer)))
        .collect()
}
