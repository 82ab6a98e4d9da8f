//! BERT: embeddings, an encoder, and the scores of masked words or of classes.

use std::rc::Rc;

use super::build::{Build, Place};
use super::encoder::{EncoderLayers, NormOrder};
use super::encoder_shape::{TextEncoderHead, TextEncoderShape};
use super::feed_forward::activated;
use super::network::{Batch, Network, RunSettings};
use super::normalization::Norm;
use super::shape::NormKind;
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::LinearLayer;
use crate::dry_run::ops::elementwise::Unary;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// An encoder of text with its weights.
pub struct TextEncoder {
    shape: TextEncoderShape,
    run: RunSettings,
    words: Rc<Parameter>,
    positions: Rc<Parameter>,
    token_types: Rc<Parameter>,
    norm: Norm,
    /// Numbers of positions and kinds of tokens, which are all 0.
    buffers: [Tensor; 2],
    encoder: EncoderLayers,
    head: Head,
}

enum Head {
    MaskedWords(Box<MaskedWords>),
    Classes {
        pooler: LinearLayer,
        scores: LinearLayer,
        dropout: f64,
    },
}

struct MaskedWords {
    bias: Rc<Parameter>,
    transform: LinearLayer,
    norm: Norm,
    scores: Option<LinearLayer>,
}

impl TextEncoder {
    /// An encoder of a shape.
    pub fn new(build: &Build<'_>, shape: TextEncoderShape, run: RunSettings) -> Self {
        let hidden = shape.layers.hidden;
        let buffer = || {
            let s = build.session;
            s.new_tensor_for(Purpose::Weights, shape.positions, Dtype::I64)
        };
        let norm = || Norm::new(build, NormKind::LayerNorm, hidden);
        let linear = |outputs| build.linear(hidden, outputs, true, Place::Head);
        Self {
            words: build.weight(shape.vocabulary, hidden),
            positions: build.weight(shape.positions, hidden),
            token_types: build.weight(shape.token_types, hidden),
            norm: norm(),
            buffers: [buffer(), buffer()],
            encoder: EncoderLayers::new(build, &shape.layers, NormOrder::Behind),
            head: match shape.head {
                TextEncoderHead::MaskedWords { is_tied } => {
                    Head::MaskedWords(Box::new(MaskedWords {
                        transform: linear(hidden),
                        norm: norm(),
                        bias: build.weight(1, shape.vocabulary),
                        scores: (!is_tied).then(|| linear(shape.vocabulary)),
                    }))
                }
                TextEncoderHead::Classes { count, dropout } => Head::Classes {
                    pooler: linear(hidden),
                    scores: linear(count),
                    dropout,
                },
            },
            shape,
            run,
        }
    }

    fn embedded(&self, s: &DryRun, ids: &Tensor) -> Tensor {
        let hidden = self.shape.layers.hidden;
        let RunSettings { batch, length, .. } = self.run;
        let [numbers, _] = &self.buffers;
        let kinds = s.new_tensor(length, Dtype::I64);
        let words = s.embedding(&self.words, hidden, ids);
        let types = s.embedding(&self.token_types, hidden, &kinds.narrowed(batch * length));
        let both = s.add(&words, &types);
        let places = s.embedding(&self.positions, hidden, &numbers.narrowed(length));
        let all = s.add(&both, &places);
        drop(both);
        let normal = self.norm.forward(s, &all);
        drop(all);
        let result = s.dropout(&normal, self.shape.layers.dropout);
        drop(normal);
        drop((words, kinds, types, places));
        result
    }

    /// The scores of all words for each token, or of all classes for each sequence.
    fn scores(&self, s: &DryRun, ids: &Tensor) -> Tensor {
        let embedded = self.embedded(s, ids);
        let rows = self
            .encoder
            .forward(s, &embedded, self.run.length, &self.run);
        drop(embedded);
        s.part(Purpose::Loss, || match &self.head {
            Head::MaskedWords(head) => self.word_scores(s, head, &rows),
            Head::Classes {
                pooler,
                scores,
                dropout,
            } => {
                let first = s.slice(&rows, self.run.batch * self.shape.layers.hidden);
                let pooled = s.unary(Unary::OfResult, &s.linear(pooler, &first));
                s.linear(scores, &s.dropout(&pooled, *dropout))
            }
        })
    }

    fn word_scores(&self, s: &DryRun, head: &MaskedWords, rows: &Tensor) -> Tensor {
        let (hidden, words) = (self.shape.layers.hidden, self.shape.vocabulary);
        let normal = {
            let active = {
                let transformed = s.linear(&head.transform, rows);
                activated(s, self.shape.layers.activation, &transformed)
            };
            head.norm.forward(s, &active)
        };
        match &head.scores {
            Some(scores) => s.linear(scores, &normal),
            None => s.product(&normal, &self.words, Some(&head.bias), hidden, words),
        }
    }

    fn classes(&self) -> u64 {
        match self.shape.head {
            TextEncoderHead::MaskedWords { .. } => self.shape.vocabulary,
            TextEncoderHead::Classes { count, .. } => count,
        }
    }
}

impl Network for TextEncoder {
    fn batch(&self, s: &DryRun, is_training: bool) -> Batch {
        let inputs = s.input(self.run.batch * self.run.length, Dtype::I64);
        let targets = is_training.then(|| match self.head {
            // Labels and tokens are the same tensor.
            Head::MaskedWords(_) => inputs.clone(),
            Head::Classes { .. } => s.input(self.run.batch, Dtype::I64),
        });
        Batch { inputs, targets }
    }

    fn loss(&self, s: &DryRun, batch: &Batch) -> Tensor {
        let scores = self.scores(s, &batch.inputs);
        let labels = batch.targets.as_ref().unwrap_or(&batch.inputs);
        s.part(Purpose::Loss, || {
            s.cross_entropy(&scores, labels, self.classes())
        })
    }

    fn predict(&self, s: &DryRun, batch: &Batch) -> Vec<Tensor> {
        vec![self.scores(s, &batch.inputs)]
    }
}
