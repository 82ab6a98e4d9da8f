//! Whisper: an encoder of sound, a decoder that sees what it encoded, and the scores of all words.

use std::rc::Rc;

use super::build::{Build, Place};
use super::multi_head::PassCache;
use super::network::{Batch, Network, RunSettings};
use super::normalization::Norm;
use super::seq2seq::shifted;
use super::shape::NormKind;
use super::speech_layer::{SpeechInputs, SpeechLayer};
use super::speech_shape::SpeechShape;
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::convolution::Convolution;
use crate::dry_run::ops::elementwise::Unary;
use crate::dry_run::ops::{AttentionKernel, LinearLayer};
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// From sound to text, with its weights. Every recording is as long; only the decoder's tokens are counted by the length of a sequence.
pub struct Speech {
    shape: SpeechShape,
    run: RunSettings,
    convolutions: [Convolution; 2],
    sound_positions: Rc<Parameter>,
    encoder: Vec<Rc<SpeechLayer>>,
    encoder_norm: Norm,
    words: Rc<Parameter>,
    text_positions: Rc<Parameter>,
    decoder: Vec<Rc<SpeechLayer>>,
    decoder_norm: Norm,
    scores: Option<LinearLayer>,
}

/// Numbers that a convolution sees of each frequency.
const KERNEL: u64 = 3;
/// Moments of sound that become a token.
const STRIDE: u64 = 2;

impl Speech {
    /// A model of a shape.
    pub fn new(build: &Build<'_>, shape: SpeechShape, run: RunSettings) -> Self {
        let hidden = shape.encoder.hidden;
        let convolution = |inputs: u64| Convolution {
            weight: build.weight(hidden, inputs * KERNEL),
            bias: build.weight(1, hidden),
        };
        let norm = || Norm::new(build, NormKind::LayerNorm, hidden);
        let dropout = shape.activation_dropout;
        let layers = |layers: &super::encoder_shape::LayerShape, is_decoder| {
            let sizes = Rc::new(layers.clone());
            (0..sizes.layers)
                .map(|_| Rc::new(SpeechLayer::new(build, &sizes, dropout, is_decoder)))
                .collect()
        };
        let scores = || build.linear(hidden, shape.vocabulary, false, Place::Head);
        Self {
            convolutions: [convolution(shape.frequencies), convolution(hidden)],
            sound_positions: build.frozen_weight(shape.sound_positions, hidden),
            encoder: layers(&shape.encoder, false),
            encoder_norm: norm(),
            words: build.weight(shape.vocabulary, hidden),
            text_positions: build.weight(shape.text_positions, hidden),
            decoder: layers(&shape.decoder, true),
            decoder_norm: norm(),
            scores: (!shape.is_tied).then(scores),
            shape,
            run,
        }
    }

    fn encoded(&self, s: &DryRun, sound: &Tensor) -> Tensor {
        let (hidden, length) = (self.shape.encoder.hidden, self.shape.sound_positions);
        let count = self.run.batch * length * hidden;
        let [first, second] = &self.convolutions;
        let mut tokens = {
            let raw = s.convolution(first, sound, STRIDE * count);
            s.unary(Unary::OfInput, &raw)
        };
        tokens = {
            let raw = s.convolution(second, &tokens, count);
            s.unary(Unary::OfInput, &raw)
        };
        let numbers = s.new_tensor(length, Dtype::I64);
        let mut rows = {
            let places = s.embedding(&self.sound_positions, hidden, &numbers);
            s.add(&tokens, &places)
        };
        rows = s.dropout(&rows, self.shape.encoder.dropout);
        let inputs = SpeechInputs {
            batch: self.run.batch,
            length,
            kernel: self.run.attention,
            mask: None,
            encoded: None,
            cache: None,
        };
        rows = self.through(s, &self.encoder, rows, &inputs);
        rows = self.encoder_norm.forward(s, &rows);
        drop((tokens, numbers));
        rows
    }

    fn through(
        &self,
        s: &DryRun,
        layers: &[Rc<SpeechLayer>],
        mut rows: Tensor,
        inputs: &SpeechInputs,
    ) -> Tensor {
        for (index, layer) in layers.iter().enumerate() {
            rows = match self.run.is_checkpointed(s, index as u64) {
                true => {
                    let (layer, input) = (Rc::clone(layer), rows.clone());
                    let inputs = inputs.clone();
                    s.checkpointed(Rc::new(move |s: &DryRun| layer.forward(s, &input, &inputs)))
                }
                false => layer.forward(s, &rows, inputs),
            };
        }
        rows
    }

    fn decoded(
        &self,
        s: &DryRun,
        encoded: &Tensor,
        ids: &Tensor,
        cache: Option<Rc<PassCache>>,
    ) -> Tensor {
        let (batch, length) = (self.run.batch, self.run.decoder_length);
        let hidden = self.shape.decoder.hidden;
        let embedded = s.embedding(&self.words, hidden, ids);
        let numbers = {
            let numbers = s.new_tensor(length, Dtype::I64);
            let moved = s.new_like(&numbers);
            drop(numbers);
            let repeated = s.new_tensor(batch * length, Dtype::I64);
            drop(moved);
            repeated
        };
        let places = s.indexed(&self.text_positions, hidden, &numbers);
        let mut rows = s.add(&embedded, &places);
        rows = s.dropout(&rows, self.shape.decoder.dropout);
        let has_mask = self.run.attention == AttentionKernel::Eager;
        let inputs = SpeechInputs {
            batch,
            length,
            kernel: self.run.attention,
            mask: has_mask.then(|| s.new_tensor(batch * length * length, rows.dtype)),
            encoded: Some((encoded.clone(), self.shape.sound_positions)),
            cache,
        };
        rows = self.through(s, &self.decoder, rows, &inputs);
        rows = self.decoder_norm.forward(s, &rows);
        drop((embedded, numbers, places, inputs));
        rows
    }

    fn word_scores(&self, s: &DryRun, rows: &Tensor) -> Tensor {
        s.part(Purpose::Loss, || match &self.scores {
            Some(scores) => s.linear(scores, rows),
            None => {
                let (width, words) = (self.shape.decoder.hidden, self.shape.vocabulary);
                s.product(rows, &self.words, None, width, words)
            }
        })
    }
}

impl Network for Speech {
    /// Sound in the type of the weights, and labels or the tokens of the decoder.
    fn batch(&self, s: &DryRun, _is_training: bool) -> Batch {
        let moments = STRIDE * self.shape.sound_positions;
        let count = self.run.batch * self.shape.frequencies * moments;
        Batch {
            inputs: s.input(count, self.words.value.dtype),
            targets: Some(s.input(self.run.batch * self.run.decoder_length, Dtype::I64)),
        }
    }

    fn loss(&self, s: &DryRun, batch: &Batch) -> Tensor {
        let labels = batch.targets.as_ref().unwrap_or(&batch.inputs);
        let ids = shifted(s, labels, self.run.batch);
        let encoded = self.encoded(s, &batch.inputs);
        let rows = self.decoded(s, &encoded, &ids, None);
        let scores = self.word_scores(s, &rows);
        let loss = s.part(Purpose::Loss, || {
            s.cross_entropy(&scores, labels, self.shape.vocabulary)
        });
        drop((scores, rows, encoded, ids));
        loss
    }

    fn predict(&self, s: &DryRun, batch: &Batch) -> Vec<Tensor> {
        let ids = batch.targets.as_ref().unwrap_or(&batch.inputs);
        let cache = Rc::new(PassCache::default());
        let encoded = self.encoded(s, &batch.inputs);
        let rows = self.decoded(s, &encoded, ids, Some(Rc::clone(&cache)));
        let last = match self.run.predicts_last_only {
            true => s.slice(&rows, self.run.batch * self.shape.decoder.hidden),
            false => rows.clone(),
        };
        let scores = self.word_scores(s, &last);
        drop((last, rows));
        let mut held = Rc::into_inner(cache).map_or_else(Vec::new, PassCache::into_tensors);
        held.extend([encoded, scores]);
        held
    }
}
