//! A dry run of some steps, and what the allocator makes of it.

use std::collections::BTreeMap;

use nilo_allocator::model::AllocatorSettings;
use nilo_allocator::replay::{TapeError, replay_tape};

use super::network_trial::try_network;
use super::phase_peaks::{PhasePeak, phase_peaks};
use super::settings::{EstimateSettings, LossKind, Work};
use super::size_limit::check_size;
use crate::config::ModelShape;
use crate::dry_run::memory::{Memory, Purpose, StepPhase};
use crate::dry_run::optimizer::OptimizerState;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Tensor};
use crate::family::{Build, BuildSettings, Decoder, DecoderShape};

/// The first step makes the optimizer's state, and the allocator has found its segments in the third.
pub(super) const STEPS: usize = 3;
/// Tokens are generated one by one; where they are many, some at a time, which take less than the prompt.
const PASSES: u64 = 32;
/// However many they are, so that an answer takes no longer than this many passes.
const MOST_PASSES: u64 = 1024;
/// From the third on, a batch whose gradients are added up takes what the one before took.
const MOST_BATCHES: u64 = 4;
/// Smaller parts of the scores save nothing more.
const MOST_CHUNKS: u64 = 1024;

/// What a dry run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The most that tensors took.
    pub allocated_bytes: u64,
    /// The most that PyTorch took from the driver.
    pub reserved_bytes: u64,
    /// When tensors took most.
    pub phase: StepPhase,
    /// What it was for, without what the allocator rounds up.
    pub parts: BTreeMap<Purpose, u64>,
    /// Weights, adapters among them.
    pub parameters: u64,
    /// Weights that are trained.
    pub trained_parameters: u64,
    /// The peak of each phase.
    pub phase_peaks: BTreeMap<StepPhase, PhasePeak>,
    /// How many allocations and frees there were.
    pub events: usize,
}

/// Runs a model without data.
pub fn try_model(shape: &ModelShape, settings: &EstimateSettings) -> Result<Trial, TapeError> {
    match shape {
        ModelShape::Decoder(shape) => try_decoder(shape, settings),
        ModelShape::TextEncoder(_)
        | ModelShape::ImageEncoder(_)
        | ModelShape::TextToText(_)
        | ModelShape::Speech(_) => try_network(shape, settings),
    }
}

/// Runs a decoder without data.
pub fn try_decoder(shape: &DecoderShape, settings: &EstimateSettings) -> Result<Trial, TapeError> {
    check_size(shape, settings)?;
    let memory = Memory::new(settings.workspace_bytes);
    let session = DryRun::new(std::rc::Rc::clone(&memory));
    let is_trained = settings.work == Work::Training;
    let build = Build::new(
        &session,
        BuildSettings {
            dtype: settings.precision.weights(),
            is_trained,
            adapters: settings.adapters.clone().filter(|_| is_trained),
            packing: settings.packing,
        },
    );
    let every = settings.checkpointing.every();
    let mut decoder = Decoder::new(&build, shape.clone(), settings.attention, every);
    memory.enter_phase(StepPhase::Forward);
    session.set_training(is_trained);
    match settings.work {
        Work::Training => train(&session, &decoder, &build, settings),
        Work::Inference => infer(&session, &mut decoder, settings),
        Work::Generation(count) => generate(&session, &mut decoder, settings, count),
    }
    let trained = build.trained();
    let trial = judge(&memory, settings)?;
    Ok(Trial {
        parameters: build.count(),
        trained_parameters: trained.iter().map(|(weight, _)| weight.count()).sum(),
        ..trial
    })
}

fn train(session: &DryRun, decoder: &Decoder, build: &Build<'_>, settings: &EstimateSettings) {
    let tokens = settings.tokens();
    let mut optimizer = OptimizerState::new(settings.optimizer, build.trained());
    let chunks = match settings.loss {
        LossKind::Standard => None,
        LossKind::Chunked(count) => Some(count.clamp(1, MOST_CHUNKS)),
    };
    // As in `for batch in loader`, the batch before stands until the next one is there; so does the loss.
    let mut before: Option<(Tensor, Tensor)> = None;
    for _ in 0..STEPS {
        for _ in 0..settings.accumulation.min(MOST_BATCHES) {
            let ids = session.input(tokens.count(), Dtype::I64);
            let old_loss = before.take().map(|(_, loss)| loss);
            let loss = session.under_autocast(settings.precision.autocast(), || {
                decoder.loss(session, &ids, tokens, chunks)
            });
            drop(old_loss);
            session.backward(&loss);
            before = Some((ids, loss));
        }
        optimizer.step(session);
        optimizer.zero_grad();
    }
}

fn infer(session: &DryRun, decoder: &mut Decoder, settings: &EstimateSettings) {
    let tokens = settings.tokens();
    let mut before: Option<Tensor> = None;
    for _ in 0..STEPS {
        let ids = session.input(tokens.count(), Dtype::I64);
        drop(before.take());
        session.without_grad(|| {
            session.under_autocast(settings.precision.autocast(), || {
                drop(decoder.predict(session, &ids, tokens, false));
            });
        });
        decoder.forget();
        before = Some(ids);
    }
}

fn generate(session: &DryRun, decoder: &mut Decoder, settings: &EstimateSettings, count: u64) {
    let tokens = settings.tokens();
    let at_once = count
        .div_ceil(PASSES)
        .min(tokens.length.max(64) / 8)
        .max(count.div_ceil(MOST_PASSES))
        .max(1);
    let ids = session.input(tokens.count(), Dtype::I64);
    session.without_grad(|| {
        session.under_autocast(settings.precision.autocast(), || {
            let mut output = decoder.predict(session, &ids, tokens, true);
            let mut left = count;
            while left > 0 {
                drop(output);
                let next = crate::family::TokenBatch {
                    length: at_once.min(left),
                    ..tokens
                };
                left -= next.length;
                let following = session.input(next.count(), Dtype::I64);
                output = decoder.predict(session, &following, next, true);
            }
            drop(output);
        });
    });
    decoder.forget();
}

pub(super) fn judge(memory: &Memory, settings: &EstimateSettings) -> Result<Trial, TapeError> {
    let allocator = AllocatorSettings {
        expandable_segments: settings.expandable_segments,
        ..AllocatorSettings::default()
    };
    let events = memory.events();
    let count = events.len();
    let peaks = replay_tape(events, allocator)?;
    Ok(Trial {
        allocated_bytes: peaks.allocated_bytes,
        reserved_bytes: peaks.reserved_bytes,
        phase: memory.phase_of_event(peaks.allocated_at),
        parts: memory.standing_after(peaks.allocated_at),
        phase_peaks: phase_peaks(memory),
        parameters: 0,
        trained_parameters: 0,
        events: count,
    })
}
