//! Sizes that no dry run could add up: they are refused before it begins.

use nilo_allocator::replay::TapeError;

use super::settings::{EstimateSettings, Work};
use crate::family::DecoderShape;

/// All tensors of a dry run together must stay below this.
const MOST_BYTES: u128 = 1 << 62;
/// More tensors than a layer has in any of its steps.
const TENSORS_OF_A_LAYER: u128 = 256;
/// The widest type of numbers.
const BYTES_OF_A_NUMBER: u128 = 8;

/// Refuses a decoder with a tensor beyond any GPU.
pub(super) fn check_size(
    shape: &DecoderShape,
    settings: &EstimateSettings,
) -> Result<(), TapeError> {
    let bytes = largest_tensor(shape, settings).saturating_mul(BYTES_OF_A_NUMBER);
    let layers = u128::from(shape.layers) + 1;
    match bytes.saturating_mul(layers * TENSORS_OF_A_LAYER) <= MOST_BYTES {
        true => Ok(()),
        false => Err(TapeError::TooLarge { bytes }),
    }
}

/// The numbers of the largest tensor, or more.
fn largest_tensor(shape: &DecoderShape, settings: &EstimateSettings) -> u128 {
    let product = |factors: &[u64]| {
        let factors = factors.iter().map(|factor| u128::from(*factor));
        factors.fold(1, u128::saturating_mul)
    };
    let new = match settings.work {
        Work::Generation(count) => count,
        Work::Training | Work::Inference => 0,
    };
    let length = settings.length.saturating_add(new);
    let latent = shape.latent.map_or(0, |latent| {
        let of_head = latent.plain_dim + latent.rotary_dim + latent.value_dim;
        (shape.heads * of_head)
            .max(latent.key_value_rank)
            .max(latent.query_rank.unwrap_or(0))
    });
    let experts = shape.mixture.as_ref().map_or(0, |mixture| {
        (mixture.per_token * (2 * mixture.width).max(shape.hidden)).max(mixture.experts)
    });
    let heads = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    let row = [
        shape.hidden,
        2 * shape.feed_forward,
        shape.vocabulary,
        heads,
        latent,
        experts,
    ];
    let widest = row.into_iter().max().unwrap_or(0);
    let rank = settings
        .adapters
        .as_ref()
        .map_or(0, |adapters| adapters.rank);
    let stacked = shape
        .mixture
        .as_ref()
        .map_or(1, |mixture| 2 * mixture.experts);
    let row_and_rank = product(&[settings.batch, length, widest.max(rank)]);
    let pairs = product(&[settings.batch, shape.heads, length, length]);
    let adapter = product(&[rank, stacked, widest]);
    row_and_rank.max(pairs).max(adapter)
}
