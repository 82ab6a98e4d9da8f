//! A dry run of models that take batches of their own: encoders of text and images, and models with an encoder and a decoder.

use std::rc::Rc;

use nilo_allocator::replay::TapeError;

use super::settings::{EstimateSettings, Work};
use super::trial::{STEPS, Trial, judge};
use crate::config::ModelShape;
use crate::dry_run::memory::{Memory, StepPhase};
use crate::dry_run::optimizer::OptimizerState;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::Tensor;
use crate::family::{
    Batch, Build, BuildSettings, ImageEncoder, Network, RunSettings, Speech, TextEncoder,
    TextToText,
};

/// Runs a model that takes batches of its own.
pub(super) fn try_network(
    shape: &ModelShape,
    settings: &EstimateSettings,
) -> Result<Trial, TapeError> {
    let memory = Memory::new(settings.workspace_bytes);
    let session = DryRun::new(Rc::clone(&memory));
    let build = Build::new(&session, build_settings(settings));
    if let Some(network) = network(&build, shape, settings) {
        run(&session, network.as_ref(), &build, settings);
    }
    let trained = match settings.work {
        Work::Training => build.trained(),
        Work::Inference | Work::Generation(_) => Vec::new(),
    };
    let trial = judge(&memory, settings)?;
    Ok(Trial {
        parameters: build.count(),
        trained_parameters: trained.iter().map(|(weight, _)| weight.count()).sum(),
        ..trial
    })
}

fn build_settings(settings: &EstimateSettings) -> BuildSettings {
    let is_training = settings.work == Work::Training;
    BuildSettings {
        dtype: settings.precision.weights(),
        // Weights ask for gradients unless they are told not to: autocast keeps what it converts of such ones, also where nothing is trained.
        is_trained: true,
        adapters: settings.adapters.clone().filter(|_| is_training),
        packing: settings.packing,
    }
}

fn network(
    build: &Build<'_>,
    shape: &ModelShape,
    settings: &EstimateSettings,
) -> Option<Box<dyn Network>> {
    // A decoder has a trial of its own.
    let run = RunSettings {
        batch: settings.batch,
        length: settings.length,
        decoder_length: match settings.work {
            // All new tokens at once take at least what they take one after the other.
            Work::Generation(count) => count.max(1),
            Work::Training | Work::Inference => settings.length,
        },
        predicts_last_only: matches!(settings.work, Work::Generation(_)),
        attention: settings.attention,
        checkpoint_every: settings.checkpointing.every(),
    };
    Some(match shape {
        ModelShape::Decoder(_) => return None,
        ModelShape::TextEncoder(shape) => Box::new(TextEncoder::new(build, (**shape).clone(), run)),
        ModelShape::ImageEncoder(shape) => {
            Box::new(ImageEncoder::new(build, (**shape).clone(), run))
        }
        ModelShape::TextToText(shape) => Box::new(TextToText::new(build, (**shape).clone(), run)),
        ModelShape::Speech(shape) => Box::new(Speech::new(build, (**shape).clone(), run)),
    })
}

fn run(session: &DryRun, network: &dyn Network, build: &Build<'_>, settings: &EstimateSettings) {
    let is_training = settings.work == Work::Training;
    session.memory.enter_phase(StepPhase::Forward);
    session.set_training(is_training);
    match is_training {
        true => train(session, network, build, settings),
        false => infer(session, network, settings),
    }
}

fn train(session: &DryRun, network: &dyn Network, build: &Build<'_>, settings: &EstimateSettings) {
    let mut optimizer = OptimizerState::new(settings.optimizer, build.trained());
    // As in `for batch in loader`, the batch before stands until the next one is there; so does the loss.
    let mut before: Option<(Batch, Tensor)> = None;
    for _ in 0..STEPS {
        for _ in 0..settings.accumulation {
            let batch = network.batch(session, true);
            let old_loss = before.take().map(|(_, loss)| loss);
            let loss = session.under_autocast(settings.precision.autocast(), || {
                network.loss(session, &batch)
            });
            drop(old_loss);
            session.backward(&loss);
            before = Some((batch, loss));
        }
        optimizer.step(session);
        optimizer.zero_grad();
    }
}

fn infer(session: &DryRun, network: &dyn Network, settings: &EstimateSettings) {
    let mut before: Option<Batch> = None;
    for _ in 0..STEPS {
        let batch = network.batch(session, false);
        drop(before.take());
        session.without_grad(|| {
            session.under_autocast(settings.precision.autocast(), || {
                drop(network.predict(session, &batch));
            });
        });
        before = Some(batch);
    }
}
