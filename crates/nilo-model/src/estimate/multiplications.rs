//! How many multiplications a decoder makes: what time grows with where the GPU is busy.

use crate::family::DecoderShape;

/// Multiplications of a forward pass over one token of a sequence of this length, by layers and by the scores of words.
pub(super) fn per_token(shape: &DecoderShape, length: u64) -> (f64, f64) {
    let hidden = shape.hidden as f64;
    let projections = hidden * ((2 * shape.heads + 2 * shape.kv_heads) * shape.head_dim) as f64;
    // Queries by keys and weights by values, of which causal attention needs half.
    let pairs = (length * shape.heads * shape.head_dim) as f64;
    let width = match &shape.mixture {
        Some(mixture) => mixture.per_token * mixture.width + mixture.shared_width,
        None => shape.feed_forward,
    };
    let layer = projections + pairs + 3.0 * hidden * width as f64;
    let head = hidden * shape.vocabulary as f64;
    (shape.layers as f64 * layer, head)
}

/// Multiplications of a forward pass over a batch.
pub fn forward_multiplications(shape: &DecoderShape, batch: u64, length: u64) -> f64 {
    let (layers, head) = per_token(shape, length);
    (batch * length) as f64 * (layers + head)
}

/// The share of forward's multiplications that are for the scores of words.
pub(super) fn head_share(shape: &DecoderShape, length: u64) -> f64 {
    let (layers, head) = per_token(shape, length);
    head / (head + layers)
}
