//! Decoders by their configuration. What a configuration leaves out has the default of its class in Hugging Face's library.

use super::error::ConfigError;
use super::fields::Fields;
use crate::family::shape::{LatentRotation, LatentShape, QueryNorm, RouterKind};
use crate::family::{
    Activation, AttentionLayout, DecoderShape, FeedForwardLayout, MixtureShape, NormKind,
    NormPlaces, PositionKind,
};

/// Gemma 3 has one layer in so many that sees all tokens.
const GEMMA_3_PATTERN: u64 = 6;
/// More weights than any machine could hold.
pub(super) const MOST_PARAMETERS: u128 = 1 << 56;

/// The shape of a decoder of a known family.
pub(super) fn decoder_shape(
    model_type: &str,
    fields: &Fields<'_>,
) -> Result<DecoderShape, ConfigError> {
    match model_type {
        "gpt2" => gpt2(fields),
        "llama" => Ok(DecoderShape {
            has_qkv_bias: fields.truth("attention_bias", false)?,
            has_output_bias: fields.truth("attention_bias", false)?,
            has_feed_forward_bias: fields.truth("mlp_bias", false)?,
            ..llama_like(fields, false)?
        }),
        "mistral" => Ok(DecoderShape {
            sliding_window: fields.number("sliding_window")?,
            ..llama_like(fields, false)?
        }),
        "mixtral" => Ok(DecoderShape {
            sliding_window: fields.number("sliding_window")?,
            mixture: Some(MixtureShape {
                experts: fields.required("num_local_experts")?,
                per_token: fields.number("num_experts_per_tok")?.unwrap_or(2),
                width: fields.required("intermediate_size")?,
                shared_width: 0,
                dense_layers: 0,
                router: RouterKind::Softmax {
                    is_narrowed: false,
                    is_normalized: true,
                },
            }),
            ..llama_like(fields, false)?
        }),
        "qwen2" => Ok(DecoderShape {
            has_qkv_bias: true,
            sliding_window: qwen_window(model_type, fields)?,
            ..llama_like(fields, false)?
        }),
        "qwen3" => qwen3(model_type, fields),
        "qwen3_moe" => qwen3_moe(model_type, fields),
        "gemma" => Ok(DecoderShape {
            norm: NormKind::RmsPlusOne,
            has_scaled_embeddings: true,
            ..llama_like(fields, true)?
        }),
        "gemma2" => Ok(DecoderShape {
            norm: NormKind::RmsPlusOne,
            norm_places: NormPlaces::BeforeAndBehind,
            has_scaled_embeddings: true,
            has_attention_softcap: true,
            has_final_softcap: true,
            sliding_window: fields.number("sliding_window")?.or(Some(4096)),
            full_attention_every: Some(2),
            ..llama_like(fields, true)?
        }),
        "gemma3_text" => Ok(DecoderShape {
            norm: NormKind::RmsPlusOne,
            norm_places: NormPlaces::BeforeAndBehind,
            query_norm: QueryNorm::Heads,
            has_window_positions: true,
            has_scaled_embeddings: true,
            sliding_window: fields.number("sliding_window")?.or(Some(4096)),
            full_attention_every: fields
                .number("sliding_window_pattern")?
                .or(Some(GEMMA_3_PATTERN)),
            ..llama_like(fields, true)?
        }),
        "phi3" => phi3(fields),
        "phi" => phi(model_type, fields),
        "olmo2" => Ok(DecoderShape {
            norm: NormKind::RmsWide,
            norm_places: NormPlaces::Behind,
            query_norm: QueryNorm::Rows,
            has_qkv_bias: fields.truth("attention_bias", false)?,
            has_output_bias: fields.truth("attention_bias", false)?,
            ..llama_like(fields, false)?
        }),
        "falcon" => falcon(model_type, fields),
        "deepseek_v2" | "deepseek_v3" => deepseek(model_type, fields),
        _ => Err(ConfigError::UnknownArchitecture {
            model_type: model_type.to_owned(),
        }),
    }
}

/// Sizes under the names that most families use.
fn llama_like(fields: &Fields<'_>, is_tied: bool) -> Result<DecoderShape, ConfigError> {
    let hidden = fields.required("hidden_size")?;
    let heads = fields.required("num_attention_heads")?;
    Ok(DecoderShape {
        hidden,
        layers: layers(fields)?,
        heads,
        kv_heads: fields.number("num_key_value_heads")?.unwrap_or(heads),
        head_dim: fields.number("head_dim")?.unwrap_or(hidden / heads),
        feed_forward: fields.required("intermediate_size")?,
        vocabulary: fields.required("vocab_size")?,
        is_tied: fields.truth("tie_word_embeddings", is_tied)?,
        norm: NormKind::Rms,
        norm_places: NormPlaces::Before,
        attention: AttentionLayout::Separate,
        latent: None,
        has_qkv_bias: false,
        has_output_bias: false,
        query_norm: QueryNorm::None,
        positions: PositionKind::Rotary,
        feed_forward_layout: FeedForwardLayout::Gated,
        has_feed_forward_bias: false,
        activation: activation(fields, "silu")?,
        mixture: None,
        has_attention_softcap: false,
        has_final_softcap: false,
        has_scaled_embeddings: false,
        has_head_bias: false,
        sliding_window: None,
        full_attention_every: None,
        has_window_positions: false,
        dropout: 0.0,
        attention_dropout: fields.probability("attention_dropout", 0.0)?,
    })
}

fn layers(fields: &Fields<'_>) -> Result<u64, ConfigError> {
    let field = "num_hidden_layers";
    fields.layers(field)?.ok_or(ConfigError::Missing { field })
}

fn activation(fields: &Fields<'_>, default: &str) -> Result<Activation, ConfigError> {
    let mut name = None;
    for field in [
        "hidden_activation",
        "hidden_act",
        "activation_function",
        "activation",
    ] {
        name = name.or(fields.text(field)?);
    }
    Ok(match name.as_deref().unwrap_or(default) {
        "gelu_new" => Activation::GeluStepByStep,
        "relu" => Activation::Relu,
        _ => Activation::OneKernel,
    })
}

fn gpt2(fields: &Fields<'_>) -> Result<DecoderShape, ConfigError> {
    let hidden = fields.number("n_embd")?.unwrap_or(768);
    let heads = fields.number("n_head")?.unwrap_or(12);
    Ok(DecoderShape {
        hidden,
        layers: fields.layers("n_layer")?.unwrap_or(12),
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        feed_forward: fields.number("n_inner")?.unwrap_or(4 * hidden),
        vocabulary: fields.number("vocab_size")?.unwrap_or(50257),
        is_tied: fields.truth("tie_word_embeddings", true)?,
        norm: NormKind::LayerNorm,
        norm_places: NormPlaces::Before,
        attention: AttentionLayout::Split,
        latent: None,
        has_qkv_bias: true,
        has_output_bias: true,
        query_norm: QueryNorm::None,
        positions: PositionKind::Table(fields.number("n_positions")?.unwrap_or(1024)),
        feed_forward_layout: FeedForwardLayout::Plain,
        has_feed_forward_bias: true,
        activation: activation(fields, "gelu_new")?,
        mixture: None,
        has_attention_softcap: false,
        has_final_softcap: false,
        has_scaled_embeddings: false,
        has_head_bias: false,
        sliding_window: None,
        full_attention_every: None,
        has_window_positions: false,
        dropout: fields.probability("resid_pdrop", 0.1)?,
        attention_dropout: fields.probability("attn_pdrop", 0.1)?,
    })
}

/// Qwen has windows only where they are turned on, and then in some layers.
fn qwen_window(model_type: &str, fields: &Fields<'_>) -> Result<Option<u64>, ConfigError> {
    if !fields.truth("use_sliding_window", false)? {
        return Ok(None);
    }
    Err(ConfigError::UnknownVariant {
        model_type: model_type.to_owned(),
        variant: "use_sliding_window",
    })
}

fn qwen3(model_type: &str, fields: &Fields<'_>) -> Result<DecoderShape, ConfigError> {
    Ok(DecoderShape {
        head_dim: fields.number("head_dim")?.unwrap_or(128),
        query_norm: QueryNorm::Heads,
        has_qkv_bias: fields.truth("attention_bias", false)?,
        has_output_bias: fields.truth("attention_bias", false)?,
        sliding_window: qwen_window(model_type, fields)?,
        ..llama_like(fields, false)?
    })
}

fn qwen3_moe(model_type: &str, fields: &Fields<'_>) -> Result<DecoderShape, ConfigError> {
    let is_even = fields.number("decoder_sparse_step")?.unwrap_or(1) == 1;
    if !is_even || fields.has_list("mlp_only_layers") {
        return Err(ConfigError::UnknownVariant {
            model_type: model_type.to_owned(),
            variant: "experts in some layers only",
        });
    }
    let hidden = fields.required("hidden_size")?;
    let heads = fields.required("num_attention_heads")?;
    Ok(DecoderShape {
        head_dim: fields.number("head_dim")?.unwrap_or(hidden / heads),
        mixture: Some(MixtureShape {
            experts: fields.required("num_experts")?,
            per_token: fields.required("num_experts_per_tok")?,
            width: fields.required("moe_intermediate_size")?,
            shared_width: 0,
            dense_layers: 0,
            router: RouterKind::Softmax {
                is_narrowed: true,
                is_normalized: fields.truth("norm_topk_prob", false)?,
            },
        }),
        ..qwen3(model_type, fields)?
    })
}

fn phi3(fields: &Fields<'_>) -> Result<DecoderShape, ConfigError> {
    let base = llama_like(fields, false)?;
    let positions = match fields.rotary_fraction()? {
        Some(fraction) if fraction < 1.0 => {
            PositionKind::PartlyRotary((base.head_dim as f64 * fraction) as u64)
        }
        _ => PositionKind::PartlyRotary(base.head_dim),
    };
    Ok(DecoderShape {
        attention: AttentionLayout::Sliced,
        feed_forward_layout: FeedForwardLayout::GatedTogether,
        positions,
        sliding_window: fields.number("sliding_window")?,
        dropout: fields.probability("resid_pdrop", 0.0)?,
        ..base
    })
}

fn phi(model_type: &str, fields: &Fields<'_>) -> Result<DecoderShape, ConfigError> {
    if fields.truth("qk_layernorm", false)? {
        return Err(ConfigError::UnknownVariant {
            model_type: model_type.to_owned(),
            variant: "qk_layernorm",
        });
    }
    let base = llama_like(fields, false)?;
    let fraction = fields.rotary_fraction()?.unwrap_or(0.5);
    Ok(DecoderShape {
        norm: NormKind::LayerNorm,
        norm_places: NormPlaces::Parallel,
        has_qkv_bias: true,
        has_output_bias: true,
        has_head_bias: true,
        has_feed_forward_bias: true,
        feed_forward_layout: FeedForwardLayout::Plain,
        activation: activation(fields, "gelu_new")?,
        positions: PositionKind::PartlyRotary((base.head_dim as f64 * fraction) as u64),
        dropout: fields.probability("resid_pdrop", 0.0)?,
        ..base
    })
}

fn falcon(model_type: &str, fields: &Fields<'_>) -> Result<DecoderShape, ConfigError> {
    let is_first_generation = fields.truth("multi_query", true)?
        && fields.truth("parallel_attn", true)?
        && !fields.truth("alibi", false)?
        && !fields.truth("new_decoder_architecture", false)?;
    if !is_first_generation {
        return Err(ConfigError::UnknownVariant {
            model_type: model_type.to_owned(),
            variant: "another layout than that of Falcon 7B",
        });
    }
    let hidden = fields.required("hidden_size")?;
    let heads = fields.required("num_attention_heads")?;
    let has_bias = fields.truth("bias", false)?;
    Ok(DecoderShape {
        hidden,
        layers: layers(fields)?,
        heads,
        kv_heads: 1,
        head_dim: hidden / heads,
        feed_forward: fields.number("ffn_hidden_size")?.unwrap_or(4 * hidden),
        vocabulary: fields.required("vocab_size")?,
        is_tied: fields.truth("tie_word_embeddings", true)?,
        norm: NormKind::LayerNorm,
        norm_places: NormPlaces::Parallel,
        attention: AttentionLayout::Indexed,
        latent: None,
        has_qkv_bias: has_bias,
        has_output_bias: has_bias,
        query_norm: QueryNorm::None,
        positions: PositionKind::Rotary,
        feed_forward_layout: FeedForwardLayout::Plain,
        has_feed_forward_bias: has_bias,
        activation: activation(fields, "gelu")?,
        mixture: None,
        has_attention_softcap: false,
        has_final_softcap: false,
        has_scaled_embeddings: false,
        has_head_bias: false,
        sliding_window: None,
        full_attention_every: None,
        has_window_positions: false,
        dropout: fields.probability("hidden_dropout", 0.0)?,
        attention_dropout: fields.probability("attention_dropout", 0.0)?,
    })
}

fn deepseek(model_type: &str, fields: &Fields<'_>) -> Result<DecoderShape, ConfigError> {
    if fields.number("moe_layer_freq")?.unwrap_or(1) != 1 {
        return Err(ConfigError::UnknownVariant {
            model_type: model_type.to_owned(),
            variant: "experts in some layers only",
        });
    }
    let base = llama_like(fields, false)?;
    let latent = LatentShape {
        query_rank: fields.number("q_lora_rank")?,
        key_value_rank: fields.required("kv_lora_rank")?,
        plain_dim: fields.required("qk_nope_head_dim")?,
        rotary_dim: fields.required("qk_rope_head_dim")?,
        value_dim: fields.required("v_head_dim")?,
        rotation: match (model_type, fields.truth("rope_interleave", true)?) {
            ("deepseek_v2", _) => LatentRotation::Complex,
            (_, true) => LatentRotation::Pairs,
            (_, false) => LatentRotation::Halves,
        },
    };
    let groups = fields.number("n_group")?;
    let router = match model_type {
        "deepseek_v2" => RouterKind::WideSoftmax {
            groups: match fields.text("topk_method")?.as_deref() {
                Some("group_limited_greedy") => groups.unwrap_or(1),
                _ => 1,
            },
        },
        _ => RouterKind::WideSigmoid {
            groups: groups.unwrap_or(8),
            is_normalized: fields.truth("norm_topk_prob", true)?,
        },
    };
    let width = fields.required("moe_intermediate_size")?;
    let shared = fields.number_or_zero("n_shared_experts")?;
    Ok(DecoderShape {
        head_dim: latent.plain_dim + latent.rotary_dim,
        kv_heads: base.heads,
        latent: Some(latent),
        mixture: Some(MixtureShape {
            experts: fields.required("n_routed_experts")?,
            per_token: fields.required("num_experts_per_tok")?,
            width,
            shared_width: shared * width,
            dense_layers: fields.number_or_zero("first_k_dense_replace")?,
            router,
        }),
        ..base
    })
}

/// Refuses sizes that do not go together.
pub(super) fn check(shape: &DecoderShape) -> Result<(), ConfigError> {
    let contradiction = |reason: String| Err(ConfigError::Contradiction { reason });
    let DecoderShape {
        hidden,
        heads,
        kv_heads,
        ..
    } = shape;
    if shape.head_dim == 0 {
        return contradiction(format!(
            "{heads} attention heads are more than the {hidden} numbers of a token"
        ));
    }
    if !heads.is_multiple_of(*kv_heads) {
        return contradiction(format!(
            "{heads} attention heads cannot share {kv_heads} heads of keys and values evenly"
        ));
    }
    if let Some(mixture) = &shape.mixture
        && mixture.per_token > mixture.experts
    {
        return contradiction(format!(
            "a token cannot have {} of {} experts",
            mixture.per_token, mixture.experts
        ));
    }
    if let Some(MixtureShape {
        experts, router, ..
    }) = &shape.mixture
        && let RouterKind::WideSoftmax { groups } | RouterKind::WideSigmoid { groups, .. } = router
        && !experts.is_multiple_of(*groups)
    {
        return contradiction(format!(
            "{experts} experts cannot be in {groups} groups of one size"
        ));
    }
    let wide = |value: u64| u128::from(value);
    let experts = shape.mixture.as_ref().map_or(0, |mixture| {
        wide(mixture.experts) * wide(mixture.width) + wide(mixture.shared_width)
    });
    let latent = shape.latent.as_ref().map_or(0, |latent| {
        let ranks = wide(latent.query_rank.unwrap_or(0)) + wide(latent.key_value_rank);
        let of_heads = wide(*heads) * wide(shape.head_dim + latent.value_dim);
        ranks + of_heads + ranks * of_heads
    });
    let of_heads = wide(*heads) * wide(shape.head_dim);
    let layer = 3 * wide(*hidden) * (wide(shape.feed_forward) + of_heads + experts) + 3 * latent;
    let positions = match shape.positions {
        PositionKind::Table(count) => count,
        PositionKind::Rotary | PositionKind::PartlyRotary(_) => 0,
    };
    let all = wide(shape.layers) * layer + wide(*hidden) * wide(shape.vocabulary + positions);
    if all > MOST_PARAMETERS {
        return contradiction(
            "the model would have more weights than any machine can hold".to_owned(),
        );
    }
    Ok(())
}
