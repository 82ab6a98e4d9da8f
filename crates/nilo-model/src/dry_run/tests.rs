//! Known answers of the engine and the operations, event by event.

use std::rc::Rc;

use nilo_allocator::replay::TapeEvent;

use super::memory::{Memory, StepPhase};
use super::ops::LinearLayer;
use super::ops::elementwise::Unary;
use super::optimizer::{Optimizer, OptimizerState, Shape};
use super::session::DryRun;
use super::tensor::{Dtype, Parameter, Tensor};

fn session() -> DryRun {
    let session = DryRun::new(Memory::new(0));
    session.memory.enter_phase(StepPhase::Forward);
    session
}

/// What happened from an event on: bytes that were allocated, and freed ones below 0.
fn events_from(session: &DryRun, first: usize) -> Vec<i64> {
    let mut sizes = std::collections::BTreeMap::new();
    let signed = |event: TapeEvent| match event {
        TapeEvent::Allocate { id, bytes } => {
            sizes.insert(id, bytes as i64);
            bytes as i64
        }
        TapeEvent::Free { id } => -sizes[&id],
    };
    let all: Vec<i64> = session.memory.events().into_iter().map(signed).collect();
    all[first..].to_vec()
}

fn linear(session: &DryRun, inputs: u64, outputs: u64) -> LinearLayer {
    LinearLayer {
        weight: session.parameter(inputs * outputs, Dtype::F32, true),
        bias: None,
        inputs,
        outputs,
        adapter: None,
    }
}

fn gradient_bytes(parameter: &Rc<Parameter>) -> Option<u64> {
    let gradient = parameter.gradient.borrow();
    gradient
        .as_ref()
        .map(|gradient| gradient.count * gradient.dtype.bytes())
}

#[test]
fn a_linear_layer_allocates_its_result_and_then_the_gradient_of_its_weight() {
    let s = session();
    let layer = linear(&s, 10, 20);
    let x = s.input(5 * 10, Dtype::F32);
    let from = s.memory.len();
    let y = s.linear(&layer, &x);
    let loss = s.mean(&y);
    drop(y);
    s.backward(&loss);
    drop(loss);
    // The result, its mean, the gradient of that, of the result, and of the weight; the input needs none.
    assert_eq!(
        events_from(&s, from),
        [400, 4, -400, 4, 400, -4, 800, -400, -4]
    );
    assert_eq!(gradient_bytes(&layer.weight), Some(800));
}

#[test]
fn the_input_of_a_second_layer_gets_a_gradient_behind_that_of_the_weight() {
    let s = session();
    let (first, second) = (linear(&s, 10, 20), linear(&s, 20, 30));
    let x = s.input(5 * 10, Dtype::F32);
    let hidden = s.linear(&first, &x);
    let y = s.linear(&second, &hidden);
    drop(hidden);
    let loss = s.mean(&y);
    drop(y);
    let from = s.memory.len();
    s.backward(&loss);
    let expected = [4, 600, -4, 2400, 400, -600, -400, 800, -400];
    assert_eq!(events_from(&s, from), expected);
}

#[test]
fn gradients_of_a_shared_weight_are_added_in_the_memory_of_the_first() {
    let s = session();
    let layer = linear(&s, 10, 10);
    let x = s.input(100, Dtype::F32);
    let hidden = s.linear(&layer, &x);
    let y = s.linear(&layer, &hidden);
    drop(hidden);
    let loss = s.mean(&y);
    drop(y);
    let from = s.memory.len();
    s.backward(&loss);
    // Of the second use, the weight and the input; of the first the weight, which is added and freed.
    let expected = [4, 400, -4, 400, 400, -400, -400, 400, -400, -400];
    assert_eq!(events_from(&s, from), expected);
    assert_eq!(gradient_bytes(&layer.weight), Some(400));
}

#[test]
fn a_gradient_that_somebody_else_has_is_added_in_new_memory() {
    let s = session();
    let weight = s.parameter(100, Dtype::F32, true);
    let doubled = s.add(&weight.tensor(), &weight.tensor());
    let loss = s.mean(&doubled);
    drop(doubled);
    let from = s.memory.len();
    s.backward(&loss);
    // Both summands have the one gradient of the sum, so that their own sum cannot be put there.
    assert_eq!(events_from(&s, from), [4, 400, -4, 400, -400]);
}

#[test]
fn gradients_of_a_second_batch_are_added_in_place() {
    let s = session();
    let layer = linear(&s, 10, 20);
    let x = s.input(5 * 10, Dtype::F32);
    let step = || {
        let loss = s.mean(&s.linear(&layer, &x));
        s.backward(&loss);
    };
    step();
    let from = s.memory.len();
    step();
    let standing: i64 = events_from(&s, from).iter().sum();
    assert_eq!(standing, 0);
}

/// Three functions one after the other, each of which keeps its input.
fn chain(s: &DryRun, x: &Tensor) -> Tensor {
    let a = s.unary(Unary::OfInput, x);
    let b = s.unary(Unary::OfInput, &a);
    s.unary(Unary::OfInput, &b)
}

#[test]
fn a_checkpointed_region_keeps_its_input_and_computes_the_rest_again() {
    let s = session();
    let weight = s.parameter(100, Dtype::F32, true);
    let x = s.mul_scalar(&weight.tensor());
    let from = s.memory.len();
    let input = x.clone();
    let y = s.checkpointed(Rc::new(move |s: &DryRun| chain(s, &input)));
    assert_eq!(events_from(&s, from), [400, 400, 400, -400, -400]);
    drop(x);
    let loss = s.mean(&y);
    drop(y);
    let from = s.memory.len();
    s.backward(&loss);
    // The second run allocates the two that are kept, and ends there: the last function does not run.
    let [seed, of_y, first, second] = [4, 400, 400, 400];
    assert_eq!(
        events_from(&s, from)[..5],
        [seed, of_y, -seed, first, second]
    );
    let again = events_from(&s, from)
        .iter()
        .filter(|bytes| **bytes == 400)
        .count();
    // The gradient of the result, two tensors again, the gradients of three functions, and that of the product.
    assert_eq!(again, 1 + 2 + 3 + 1);
}

#[test]
fn without_a_checkpoint_the_same_region_keeps_everything() {
    let s = session();
    let weight = s.parameter(100, Dtype::F32, true);
    let x = s.mul_scalar(&weight.tensor());
    let from = s.memory.len();
    let y = chain(&s, &x);
    assert_eq!(events_from(&s, from), [400, 400, 400]);
    drop((x, y));
}

#[test]
fn weights_that_autocast_converted_are_used_again_and_freed_at_its_end() {
    let s = session();
    let layer = linear(&s, 10, 10);
    let x = s.input(100, Dtype::F32);
    let from = s.memory.len();
    s.without_grad(|| {
        s.under_autocast(Some(Dtype::Bf16), || {
            drop(s.linear(&layer, &x));
            drop(s.linear(&layer, &x));
        });
    });
    let once = [200, 200, 200, -200, -200];
    let twice = [200, 200, -200, -200];
    assert_eq!(events_from(&s, from), [&once[..], &twice, &[-200]].concat());
}

#[test]
fn each_thread_that_multiplies_takes_one_workspace() {
    let s = DryRun::new(Memory::new(1000));
    s.memory.enter_phase(StepPhase::Forward);
    let layer = linear(&s, 10, 10);
    let x = s.input(100, Dtype::F32);
    for _ in 0..2 {
        let loss = s.mean(&s.linear(&layer, &x));
        s.backward(&loss);
    }
    let workspaces = events_from(&s, 0)
        .iter()
        .filter(|bytes| **bytes == 1000)
        .count();
    assert_eq!(workspaces, 2);
}

#[test]
fn flash_attention_keeps_no_scores_and_other_attention_does() {
    use super::ops::AttentionShape;
    use super::ops::attention::{EagerAttention, EagerScores};
    let shape = AttentionShape {
        batch: 1,
        heads: 2,
        kv_heads: 2,
        head_dim: 8,
        value_dim: 8,
        queries: 16,
        keys: 16,
    };
    let s = session();
    let [q, k, v] = [0; 3].map(|_| s.input(2 * 8 * 16, Dtype::Bf16));
    let from = s.memory.len();
    drop(s.fused_attention([&q, &k, &v], shape, false));
    // The result, and one number in 32 bits for each row of scores.
    assert_eq!(events_from(&s, from), [512, 128, -128, -512]);
    let settings = EagerAttention {
        mask: None,
        dropout: 0.0,
        has_softcap: false,
        scores: EagerScores::Wide,
        are_apart: [false; 3],
        broadcast: 1,
    };
    let from = s.memory.len();
    drop(s.eager_attention([&q, &k, &v], shape, settings));
    let largest = events_from(&s, from).into_iter().max();
    assert_eq!(largest, Some(2 * 16 * 16 * 4));
}

/// What a first step makes, and what it takes for a moment, of a matrix of 64 rows and 128 columns and a vector of 128.
fn step_of(optimizer: Optimizer) -> (i64, i64) {
    let s = session();
    let shapes = [(64, 64 * 128), (1, 128)];
    let parameters: Vec<_> = shapes
        .into_iter()
        .map(|(rows, count)| {
            let parameter = s.parameter(count, Dtype::F32, true);
            *parameter.gradient.borrow_mut() = Some(s.new_tensor(count, Dtype::F32));
            (parameter, Shape { matrices: 1, rows })
        })
        .collect();
    let from = s.memory.len();
    let mut state = OptimizerState::new(optimizer, parameters);
    state.step(&s);
    let (mut standing, mut highest) = (0, 0);
    for bytes in events_from(&s, from) {
        standing += bytes;
        highest = highest.max(standing);
    }
    (standing, highest - standing)
}

#[test]
fn each_optimizer_keeps_and_takes_what_its_code_does() {
    let (matrix, vector) = (64 * 128 * 4, 128 * 4);
    let all = matrix + vector;
    assert_eq!(step_of(Optimizer::Sgd), (0, 0));
    assert_eq!(step_of(Optimizer::SgdMomentum), (all, 0));
    assert_eq!(step_of(Optimizer::AdamWFused), (2 * all, 0));
    assert_eq!(step_of(Optimizer::AdamW), (2 * all, all));
    assert_eq!(step_of(Optimizer::AdamWForLoop), (2 * all, 2 * matrix));
    assert_eq!(step_of(Optimizer::Lion), (all, 2 * matrix));
    // Sums of rows and columns; the product of both, the new sums, and for the vector its square.
    let sums = 4 * (64 + 128);
    assert_eq!(
        step_of(Optimizer::Adafactor),
        (sums + vector, matrix + sums + 2 * vector)
    );
    // 8 bits a number with a scale for 256 of them; what is smaller than 4096 numbers stays in 32 bits.
    let packed = matrix / 4 + 4 * (64 * 128 / 256);
    assert_eq!(step_of(Optimizer::AdamW8bit), (2 * packed + 2 * vector, 0));
    // The update, the matrix before and after in 16 bits, and two squares of its short side.
    let temporaries = matrix + 2 * (matrix / 2) + 2 * (64 * 64 * 2);
    assert_eq!(
        step_of(Optimizer::Muon),
        (matrix + 2 * vector, temporaries - 2 * vector)
    );
}
