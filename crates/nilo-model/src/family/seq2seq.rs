//! T5: an encoder of text, a decoder that sees what it encoded, and the scores of all words.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::build::Build;
use super::multi_head::PassCache;
use super::network::{Batch, Network, RunSettings};
use super::seq2seq_layer::{Encoded, LayerInputs, LayerOutputs, TextToTextLayer};
use super::seq2seq_shape::TextToTextShape;
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::AttentionKernel;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// From text to text, with its weights. In training, encoder and decoder get as many tokens.
pub struct TextToText {
    shape: TextToTextShape,
    run: RunSettings,
    words: Rc<Parameter>,
    encoder: LayerStack,
    decoder: LayerStack,
}

struct LayerStack {
    layers: Vec<Rc<TextToTextLayer>>,
    norm: Rc<Parameter>,
    is_decoder: bool,
}

impl LayerStack {
    fn new(build: &Build<'_>, shape: &TextToTextShape, is_decoder: bool) -> Self {
        let count = match is_decoder {
            true => shape.decoder_layers,
            false => shape.encoder_layers,
        };
        let layer = |index| Rc::new(TextToTextLayer::new(build, shape, is_decoder, index == 0));
        Self {
            layers: (0..count).map(layer).collect(),
            norm: build.weight(1, shape.hidden),
            is_decoder,
        }
    }
}

impl TextToText {
    /// A model of a shape.
    pub fn new(build: &Build<'_>, shape: TextToTextShape, run: RunSettings) -> Self {
        Self {
            words: build.weight(shape.vocabulary, shape.hidden),
            encoder: LayerStack::new(build, &shape, false),
            decoder: LayerStack::new(build, &shape, true),
            shape,
            run,
        }
    }

    /// The rows behind the last layer of a stack.
    fn rows(
        &self,
        s: &DryRun,
        stack: &LayerStack,
        ids: &Tensor,
        encoded: Option<Encoded>,
        cache: Option<Rc<PassCache>>,
    ) -> Tensor {
        let embedded = s.embedding(&self.words, self.shape.hidden, ids);
        let length = match stack.is_decoder {
            true => self.run.decoder_length,
            false => self.run.length,
        };
        let has_mask = stack.is_decoder && self.run.attention == AttentionKernel::Eager;
        let mut inputs = LayerInputs {
            batch: self.run.batch,
            length,
            kernel: self.run.attention,
            mask: has_mask.then(|| s.new_tensor(self.run.batch * length * length, embedded.dtype)),
            bias: None,
            encoded,
            cache,
            is_checkpointed: false,
        };
        let mut hidden = s.dropout(&embedded, self.shape.dropout);
        for (index, layer) in stack.layers.iter().enumerate() {
            let outputs = match self.run.is_checkpointed(s, index as u64) {
                true => checkpointed(s, layer, &hidden, &inputs),
                false => layer.forward(s, &hidden, &inputs),
            };
            hidden = outputs.hidden;
            inputs.bias = Some(outputs.bias);
            if let Some(encoded) = &mut inputs.encoded {
                encoded.bias = outputs.encoded_bias;
            }
        }
        hidden = s.part(Purpose::Normalization, || {
            s.scaled_rms_norm(&hidden, &stack.norm)
        });
        hidden = s.dropout(&hidden, self.shape.dropout);
        drop((embedded, inputs));
        hidden
    }

    /// The scores of all words, and what the program holds beside them.
    fn scores(&self, s: &DryRun, ids: &Tensor, decoder_ids: &Tensor) -> (Tensor, Vec<Tensor>) {
        let rows = self.rows(s, &self.encoder, ids, None, None);
        self.decoded(s, rows, decoder_ids)
    }

    fn decoded(&self, s: &DryRun, rows: Tensor, ids: &Tensor) -> (Tensor, Vec<Tensor>) {
        let cache = Rc::new(PassCache::default());
        let encoded = Encoded {
            rows: rows.clone(),
            length: self.run.length,
            bias: None,
        };
        let hidden = self.rows(
            s,
            &self.decoder,
            ids,
            Some(encoded),
            Some(Rc::clone(&cache)),
        );
        let mut held = Rc::into_inner(cache).map_or_else(Vec::new, PassCache::into_tensors);
        let scores = s.part(Purpose::Loss, || {
            let rows = match self.run.predicts_last_only {
                true => s.slice(&hidden, self.run.batch * self.shape.hidden),
                false => hidden.clone(),
            };
            let scaled = match self.shape.has_scaled_output {
                true => s.mul_scalar(&rows),
                false => rows,
            };
            let (width, words) = (self.shape.hidden, self.shape.vocabulary);
            s.product(&scaled, &self.words, None, width, words)
        });
        held.extend([rows, hidden]);
        (scores, held)
    }
}

/// A layer under a checkpoint. The biases come from its first run.
fn checkpointed(
    s: &DryRun,
    layer: &Rc<TextToTextLayer>,
    hidden: &Tensor,
    inputs: &LayerInputs,
) -> LayerOutputs {
    let inputs = LayerInputs {
        cache: None,
        is_checkpointed: true,
        ..inputs.clone()
    };
    let biases = Rc::new(RefCell::new(None));
    let is_first_run = Cell::new(true);
    let (layer, input, given) = (Rc::clone(layer), hidden.clone(), Rc::clone(&biases));
    let hidden = s.checkpointed(Rc::new(move |s: &DryRun| {
        let outputs = layer.forward(s, &input, &inputs);
        if is_first_run.replace(false) {
            *given.borrow_mut() = Some((outputs.bias, outputs.encoded_bias));
        }
        outputs.hidden
    }));
    let (bias, encoded_bias) = biases.take().expect("the layer ran once");
    LayerOutputs {
        hidden,
        bias,
        encoded_bias,
    }
}

/// Labels moved by one token, which the decoder begins with.
pub(crate) fn shifted(s: &DryRun, labels: &Tensor, batch: u64) -> Tensor {
    let result = s.new_like(labels);
    let moved = s.new_tensor(labels.count.saturating_sub(batch), Dtype::I64);
    drop(moved);
    let is_ignored = s.new_tensor(labels.count, Dtype::U8);
    drop(is_ignored);
    result
}

impl Network for TextToText {
    fn batch(&self, s: &DryRun, is_training: bool) -> Batch {
        let run = self.run;
        let inputs = s.input(run.batch * run.length, Dtype::I64);
        // Labels, or tokens of the decoder, are the same tensor where they are as many.
        let targets = match is_training || run.decoder_length == run.length {
            true => inputs.clone(),
            false => s.input(run.batch * run.decoder_length, Dtype::I64),
        };
        Batch {
            inputs,
            targets: Some(targets),
        }
    }

    fn loss(&self, s: &DryRun, batch: &Batch) -> Tensor {
        let labels = batch.targets.as_ref().unwrap_or(&batch.inputs);
        let rows = self.rows(s, &self.encoder, &batch.inputs, None, None);
        let decoder_ids = shifted(s, labels, self.run.batch);
        let (scores, held) = self.decoded(s, rows, &decoder_ids);
        let loss = s.part(Purpose::Loss, || {
            s.cross_entropy(&scores, labels, self.shape.vocabulary)
        });
        drop((scores, held));
        loss
    }

    fn predict(&self, s: &DryRun, batch: &Batch) -> Vec<Tensor> {
        let decoder_ids = batch.targets.as_ref().unwrap_or(&batch.inputs);
        let (scores, mut held) = self.scores(s, &batch.inputs, decoder_ids);
        held.push(scores);
        held
    }
}
