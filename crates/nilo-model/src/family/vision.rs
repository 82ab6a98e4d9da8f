//! ViT: patches of images as tokens, an encoder, and the scores of classes.

use std::rc::Rc;

use super::build::{Build, Place};
use super::encoder::{EncoderLayers, NormOrder};
use super::encoder_shape::ImageEncoderShape;
use super::network::{Batch, Network, RunSettings};
use super::normalization::Norm;
use super::shape::NormKind;
use crate::dry_run::memory::Purpose;
use crate::dry_run::ops::LinearLayer;
use crate::dry_run::ops::convolution::Convolution;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter, Tensor};

/// An encoder of images with its weights. It sees as many tokens as an image has patches, whatever the length of sequences is.
pub struct ImageEncoder {
    shape: ImageEncoderShape,
    run: RunSettings,
    class_token: Rc<Parameter>,
    positions: Rc<Parameter>,
    patches: Convolution,
    encoder: EncoderLayers,
    norm: Norm,
    scores: LinearLayer,
}

impl ImageEncoder {
    /// An encoder of a shape.
    pub fn new(build: &Build<'_>, shape: ImageEncoderShape, run: RunSettings) -> Self {
        let hidden = shape.layers.hidden;
        let pixels = shape.channels * shape.patch[0] * shape.patch[1];
        Self {
            patches: Convolution {
                weight: build.weight(hidden, pixels),
                bias: build.weight(1, hidden),
            },
            class_token: build.weight(1, hidden),
            positions: build.weight(shape.patches() + 1, hidden),
            encoder: EncoderLayers::new(build, &shape.layers, NormOrder::Before),
            norm: Norm::new(build, NormKind::LayerNorm, hidden),
            scores: build.linear(hidden, shape.classes, true, Place::Head),
            shape,
            run,
        }
    }

    fn embedded(&self, s: &DryRun, pixels: &Tensor) -> Tensor {
        let (batch, hidden) = (self.run.batch, self.shape.layers.hidden);
        let count = batch * self.shape.patches() * hidden;
        let mut tokens = {
            let patches = s.convolution(&self.patches, pixels, count);
            let first = s.expanded(&self.class_token.tensor(), batch);
            let patches = s.cast(&patches, patches.dtype.promoted(first.dtype));
            s.cat(&[&first, &patches])
        };
        tokens = s.add(&tokens, &self.positions.tensor());
        s.dropout(&tokens, self.shape.layers.dropout)
    }

    fn class_scores(&self, s: &DryRun, pixels: &Tensor) -> Tensor {
        let embedded = self.embedded(s, pixels);
        let length = self.shape.patches() + 1;
        let mut rows = self.encoder.forward(s, &embedded, length, &self.run);
        rows = self.norm.forward(s, &rows);
        drop(embedded);
        let first = s.slice(&rows, self.run.batch * self.shape.layers.hidden);
        s.part(Purpose::Loss, || s.linear(&self.scores, &first))
    }
}

impl Network for ImageEncoder {
    /// Images in the type of the weights, and a label for each.
    fn batch(&self, s: &DryRun, is_training: bool) -> Batch {
        let ImageEncoderShape {
            image: [height, width],
            channels,
            ..
        } = self.shape;
        let dtype = self.class_token.value.dtype;
        Batch {
            inputs: s.input(self.run.batch * channels * height * width, dtype),
            targets: is_training.then(|| s.input(self.run.batch, Dtype::I64)),
        }
    }

    fn loss(&self, s: &DryRun, batch: &Batch) -> Tensor {
        let scores = self.class_scores(s, &batch.inputs);
        let labels = batch.targets.as_ref().unwrap_or(&batch.inputs);
        s.part(Purpose::Loss, || {
            s.cross_entropy(&scores, labels, self.shape.classes)
        })
    }

    fn predict(&self, s: &DryRun, batch: &Batch) -> Vec<Tensor> {
        vec![self.class_scores(s, &batch.inputs)]
    }
}
