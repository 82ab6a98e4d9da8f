//! What a trial needs of a model that is not a decoder alone.

use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;

/// A model that takes batches of its own.
pub trait Network {
    /// A batch for a step of training, or one to predict from.
    fn batch(&self, session: &DryRun, is_training: bool) -> Batch;

    /// The loss of a batch.
    fn loss(&self, session: &DryRun, batch: &Batch) -> Tensor;

    /// One pass without labels. What it returns is what the program holds of it.
    fn predict(&self, session: &DryRun, batch: &Batch) -> Vec<Tensor>;
}

/// What a model is given.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Tokens, images or sound.
    pub(crate) inputs: Tensor,
    /// What is to be predicted, or the tokens so far of a decoder that predicts; none where the inputs are enough.
    pub(crate) targets: Option<Tensor>,
}

/// How a model is run.
#[derive(Debug, Clone, Copy)]
pub struct RunSettings {
    /// Sequences, images or recordings in a batch.
    pub batch: u64,
    /// Tokens of a sequence.
    pub length: u64,
    /// Tokens of a decoder that sees what an encoder made of the inputs.
    pub decoder_length: u64,
    /// Whether such a decoder predicts the word behind its last token only.
    pub predicts_last_only: bool,
    /// How attention is computed.
    pub attention: crate::dry_run::ops::AttentionKernel,
    /// Every so many layers are checkpointed.
    pub checkpoint_every: Option<u64>,
}

impl RunSettings {
    /// Whether a layer is computed again in backward.
    pub(crate) fn is_checkpointed(&self, session: &DryRun, layer: u64) -> bool {
        let is_training = session.is_grad_enabled.get();
        is_training
            && self
                .checkpoint_every
                .is_some_and(|every| layer.is_multiple_of(every))
    }
}
