//! Making the weights of a model: which are trained, which are packed, and which have an adapter.

use std::cell::RefCell;
use std::rc::Rc;

use crate::dry_run::ops::LinearLayer;
use crate::dry_run::ops::experts::ExpertWeight;
use crate::dry_run::ops::linear::Adapter;
use crate::dry_run::optimizer::Shape;
use crate::dry_run::session::DryRun;
use crate::dry_run::tensor::{Dtype, Parameter};

/// How weights are made.
#[derive(Debug, Clone, PartialEq)]
pub struct BuildSettings {
    /// The type of the weights.
    pub dtype: Dtype,
    /// Whether the model is trained.
    pub is_trained: bool,
    /// Adapters that are trained in the place of the model.
    pub adapters: Option<Adapters>,
    /// Whether the weights of layers are packed.
    pub packing: WeightPacking,
}

/// Low-rank adapters (LoRA).
#[derive(Debug, Clone, PartialEq)]
pub struct Adapters {
    /// Numbers between the two matrices of one.
    pub rank: u64,
    /// Beside the projections of the feed-forward part as well.
    pub everywhere: bool,
    /// The type of their weights.
    pub dtype: Dtype,
    /// Probability of dropout before each.
    pub dropout: f64,
}

/// How frozen weights are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WeightPacking {
    /// As they are computed with.
    #[default]
    None,
    /// 4 bits a number and a scale for 64, whose scales have 8 bits (QLoRA's NF4 with double quantization).
    FourBits,
    /// 8 bits a number and a scale for each row.
    EightBits,
}

/// Numbers with a scale of their own, and scales with one, in 4-bit weights of bitsandbytes.
const SCALE_BLOCK: u64 = 64;
const SCALES_BLOCK: u64 = 256;

impl WeightPacking {
    /// What a matrix takes.
    fn bytes(self, count: u64, rows: u64, dtype: Dtype) -> u64 {
        match self {
            Self::None => count * dtype.bytes(),
            Self::EightBits => count + 4 * rows,
            Self::FourBits => {
                let scales = count.div_ceil(SCALE_BLOCK);
                count.div_ceil(2) + scales + 4 * scales.div_ceil(SCALES_BLOCK)
            }
        }
    }
}

/// Where a linear layer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Attention,
    FeedForward,
    /// Beside experts, where the names of its layers stand for those of the experts: without an adapter.
    BesideExperts,
    /// The scores of words: never packed, and without an adapter.
    Head,
}

/// Makes weights, and remembers those that are trained.
pub struct Build<'a> {
    pub(crate) session: &'a DryRun,
    pub(crate) settings: BuildSettings,
    trained: RefCell<Vec<(Rc<Parameter>, Shape)>>,
    count: RefCell<u64>,
}

impl<'a> Build<'a> {
    /// Makes weights in a session.
    pub fn new(session: &'a DryRun, settings: BuildSettings) -> Self {
        Self {
            session,
            settings,
            trained: RefCell::new(Vec::new()),
            count: RefCell::new(0),
        }
    }

    /// The weights that are trained, for an optimizer.
    pub fn trained(&self) -> Vec<(Rc<Parameter>, Shape)> {
        self.trained.borrow().clone()
    }

    /// How many weights there are, adapters among them.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// A weight that is not a matrix of a layer.
    pub(crate) fn weight(&self, rows: u64, columns: u64) -> Rc<Parameter> {
        self.parameter(
            rows,
            columns,
            self.settings.dtype,
            self.settings.adapters.is_none(),
        )
    }

    /// Matrices of experts in one, each made of so many that were linear layers once: an adapter has a rank for each of these.
    pub(crate) fn expert_weight(
        &self,
        [matrices, rows, columns]: [u64; 3],
        layers: u64,
    ) -> ExpertWeight {
        let shape = Shape { matrices, rows };
        let adapters = self.settings.adapters.as_ref();
        let weight = self.shaped_parameter(shape, columns, self.settings.dtype, adapters.is_none());
        let adapter = adapters
            .filter(|adapters| adapters.everywhere)
            .map(|adapters| {
                let rank = adapters.rank * matrices * layers;
                [
                    self.parameter(rank, columns, adapters.dtype, true),
                    self.parameter(rows, rank, adapters.dtype, true),
                ]
            });
        ExpertWeight { weight, adapter }
    }

    /// A weight that is never trained.
    pub(crate) fn frozen_weight(&self, rows: u64, columns: u64) -> Rc<Parameter> {
        self.parameter(rows, columns, self.settings.dtype, false)
    }

    /// Without a training, weights that could be trained still ask for a gradient, which autocast looks at.
    fn parameter(&self, rows: u64, columns: u64, dtype: Dtype, asks: bool) -> Rc<Parameter> {
        let shape = Shape { matrices: 1, rows };
        self.shaped_parameter(shape, columns, dtype, asks)
    }

    fn shaped_parameter(
        &self,
        shape: Shape,
        columns: u64,
        dtype: Dtype,
        asks_for_gradient: bool,
    ) -> Rc<Parameter> {
        let count = shape.matrices * shape.rows * columns;
        let parameter = self.session.parameter(count, dtype, asks_for_gradient);
        *self.count.borrow_mut() += count;
        if asks_for_gradient && self.settings.is_trained {
            self.trained
                .borrow_mut()
                .push((Rc::clone(&parameter), shape));
        }
        parameter
    }

    pub(crate) fn linear(
        &self,
        inputs: u64,
        outputs: u64,
        has_bias: bool,
        place: Place,
    ) -> LinearLayer {
        let settings = &self.settings;
        let weight = match place != Place::Head && settings.packing != WeightPacking::None {
            true => {
                *self.count.borrow_mut() += inputs * outputs;
                let bytes = settings
                    .packing
                    .bytes(inputs * outputs, outputs, settings.dtype);
                self.session
                    .packed_parameter(inputs * outputs, bytes, settings.dtype)
            }
            false => self.weight(outputs, inputs),
        };
        let bias = has_bias.then(|| self.weight(1, outputs));
        LinearLayer {
            weight,
            bias,
            inputs,
            outputs,
            adapter: self.adapter(inputs, outputs, place),
        }
    }

    fn adapter(&self, inputs: u64, outputs: u64, place: Place) -> Option<Adapter> {
        let adapters = self.settings.adapters.as_ref()?;
        let is_adapted = match place {
            Place::Attention => true,
            Place::FeedForward => adapters.everywhere,
            Place::BesideExperts | Place::Head => false,
        };
        is_adapted.then(|| Adapter {
            down: self.parameter(adapters.rank, inputs, adapters.dtype, true),
            up: self.parameter(outputs, adapters.rank, adapters.dtype, true),
            rank: adapters.rank,
            dropout: adapters.dropout,
        })
    }
}
