//! The shape of a decoder: everything of a configuration on which its memory depends.

/// A decoder that predicts the next token.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderShape {
    /// Numbers of a token between layers.
    pub hidden: u64,
    /// Blocks of attention and feed-forward.
    pub layers: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Numbers of a head.
    pub head_dim: u64,
    /// Numbers inside of the feed-forward part.
    pub feed_forward: u64,
    /// Words.
    pub vocabulary: u64,
    /// Whether the scores of words are computed with the table of embeddings.
    pub is_tied: bool,
    /// How rows are normalized.
    pub norm: NormKind,
    /// Where.
    pub norm_places: NormPlaces,
    /// How queries, keys and values are made.
    pub attention: AttentionLayout,
    /// Queries, keys and values by way of fewer numbers.
    pub latent: Option<LatentShape>,
    /// Whether these have a bias.
    pub has_qkv_bias: bool,
    /// Whether the projection after attention has one.
    pub has_output_bias: bool,
    /// Whether queries and keys are normalized.
    pub query_norm: QueryNorm,
    /// How positions are told.
    pub positions: PositionKind,
    /// What the feed-forward part computes.
    pub feed_forward_layout: FeedForwardLayout,
    /// Whether it has a bias.
    pub has_feed_forward_bias: bool,
    /// Its function.
    pub activation: Activation,
    /// Experts in the place of the feed-forward part.
    pub mixture: Option<MixtureShape>,
    /// Whether scores of attention are bounded, which no kernel does.
    pub has_attention_softcap: bool,
    /// Whether the scores of words are bounded.
    pub has_final_softcap: bool,
    /// Whether embeddings are scaled.
    pub has_scaled_embeddings: bool,
    /// Whether the scores of words have a bias.
    pub has_head_bias: bool,
    /// Tokens that are seen back, where not all are.
    pub sliding_window: Option<u64>,
    /// Every so many layers see all tokens, the others a window; none where all layers are alike.
    pub full_attention_every: Option<u64>,
    /// Whether layers that see a window have positions of their own.
    pub has_window_positions: bool,
    /// Probability of dropout behind embeddings, attention and feed-forward.
    pub dropout: f64,
    /// Probability of dropout within attention.
    pub attention_dropout: f64,
}

/// How rows are normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// The kernel of PyTorch, with a bias.
    LayerNorm,
    /// Root mean square as in Llama.
    Rms,
    /// Root mean square as in Gemma, whose weights are 1 more and multiplied in 32 bits.
    RmsPlusOne,
    /// Root mean square as in OLMo 2, whose weights are multiplied in 32 bits.
    RmsWide,
}

/// Where rows are normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormPlaces {
    /// Before attention and before the feed-forward part.
    Before,
    /// Before and behind both.
    BeforeAndBehind,
    /// Behind both.
    Behind,
    /// Once for both, which see the same rows side by side.
    Parallel,
}

/// How queries, keys and values are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttentionLayout {
    /// By three products.
    Separate,
    /// By one product, that is split.
    Split,
    /// By one product, of which three parts are taken.
    Sliced,
    /// By one product, from which queries are taken and keys and values are copied: one head of these for all queries (Falcon).
    Indexed,
}

/// Attention by way of fewer numbers (multi-head latent attention, as in DeepSeek).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentShape {
    /// Numbers from which queries are made; none where they are made directly.
    pub query_rank: Option<u64>,
    /// Numbers from which keys and values are made, and which are cached.
    pub key_value_rank: u64,
    /// Numbers of a head that do not tell the position.
    pub plain_dim: u64,
    /// Numbers of a head that tell the position.
    pub rotary_dim: u64,
    /// Numbers of a value.
    pub value_dim: u64,
    /// How positions turn them.
    pub rotation: LatentRotation,
}

/// How numbers that tell the position are turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatentRotation {
    /// Halves against each other.
    Halves,
    /// Neighbours against each other.
    Pairs,
    /// Neighbours as complex numbers.
    Complex,
}

/// Normalization of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryNorm {
    /// None.
    None,
    /// Each head.
    Heads,
    /// All heads together.
    Rows,
}

/// How positions are told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PositionKind {
    /// By a table of so many positions.
    Table(u64),
    /// By rotation of queries and keys.
    Rotary,
    /// By rotation of the first numbers of each head.
    PartlyRotary(u64),
}

/// What the feed-forward part computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedForwardLayout {
    /// A gate, by two products.
    Gated,
    /// A gate, by one product.
    GatedTogether,
    /// No gate.
    Plain,
}

/// The function of the feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// SiLU, GELU: one kernel that keeps its input.
    OneKernel,
    /// ReLU: one kernel that keeps its result.
    Relu,
    /// GELU as GPT-2 has it: one operation after another.
    GeluStepByStep,
}

/// Experts of which each token has some.
#[derive(Debug, Clone, PartialEq)]
pub struct MixtureShape {
    /// How many there are.
    pub experts: u64,
    /// How many each token has.
    pub per_token: u64,
    /// Numbers inside of one.
    pub width: u64,
    /// Numbers inside of the part that all tokens have; 0 is none.
    pub shared_width: u64,
    /// The first layers that have a feed-forward part instead.
    pub dense_layers: u64,
    /// How tokens are given their experts.
    pub router: RouterKind,
}

/// How tokens are given their experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterKind {
    /// By a softmax of scores, which are computed in the type of the model.
    Softmax {
        /// Whether the weights of experts are converted to the type of the model.
        is_narrowed: bool,
        /// Whether they are divided by their sum.
        is_normalized: bool,
    },
    /// By a softmax of scores, which are computed in 32 bits (DeepSeek V2).
    WideSoftmax {
        /// Groups of which the best are taken first; 1 is none.
        groups: u64,
    },
    /// By a sigmoid of scores, which are computed in 32 bits (DeepSeek V3).
    WideSigmoid {
        /// Groups of which the best are taken first.
        groups: u64,
        /// Whether the weights of experts are divided by their sum.
        is_normalized: bool,
    },
}

impl DecoderShape {
    /// Whether a layer has experts.
    pub fn has_experts(&self, layer: u64) -> bool {
        let mixture = self.mixture.as_ref();
        mixture.is_some_and(|mixture| layer >= mixture.dense_layers)
    }

    /// Whether a layer sees a window of the tokens only.
    pub fn is_sliding(&self, layer: u64) -> bool {
        match (self.sliding_window, self.full_attention_every) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(_), Some(every)) => !(layer + 1).is_multiple_of(every),
        }
    }
}
