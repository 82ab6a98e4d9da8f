//! The allocations of a step in their order, with what each is for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nilo_allocator::replay::TapeEvent;

/// A part of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepPhase {
    /// Making the model.
    Load,
    /// From the batch to the loss.
    Forward,
    /// Gradients, with what checkpoints compute again.
    Backward,
    /// The optimizer's step.
    Optimizer,
}

/// What memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Parameters and buffers of the model.
    Weights,
    /// Gradients of parameters.
    Gradients,
    /// What the optimizer keeps for each parameter.
    OptimizerState,
    /// Kept for backward: embeddings, residuals and what else is between the parts below.
    Activations,
    /// Kept for backward by attention, its projections among it.
    Attention,
    /// Kept for backward by the feed-forward part.
    FeedForward,
    /// Kept for backward by normalization.
    Normalization,
    /// Weights converted by autocast, and weights that were unpacked or gathered for a computation.
    ConvertedWeights,
    /// The scores of all classes, the loss, and their gradients.
    Loss,
    /// Keys and values of the tokens so far.
    KeyValueCache,
    /// What backward needs for a moment.
    BackwardTemporaries,
    /// What the optimizer needs for a moment.
    OptimizerTemporaries,
    /// What goes to other ranks.
    Communication,
    /// Tokens and labels.
    Batch,
    /// cuBLAS's workspaces.
    Workspaces,
}

/// Where an allocation stands on the tape; 0 is none.
pub(crate) type AllocationId = u32;

/// Notes what is allocated and freed.
#[derive(Debug)]
pub struct Memory {
    events: RefCell<Vec<(AllocationId, u64)>>,
    purposes: RefCell<Vec<Purpose>>,
    phases: RefCell<Vec<StepPhase>>,
    phase: Cell<StepPhase>,
    part: Cell<Purpose>,
    is_paused: Cell<bool>,
    workspace_bytes: u64,
    has_workspace: [Cell<bool>; 2],
}

impl Memory {
    /// An empty tape; each thread that multiplies matrices will allocate such a workspace.
    pub fn new(workspace_bytes: u64) -> Rc<Self> {
        Rc::new(Self {
            events: RefCell::new(Vec::new()),
            purposes: RefCell::new(vec![Purpose::Weights]),
            phases: RefCell::new(vec![StepPhase::Load]),
            phase: Cell::new(StepPhase::Load),
            part: Cell::new(Purpose::Activations),
            is_paused: Cell::new(false),
            workspace_bytes,
            has_workspace: [Cell::new(false), Cell::new(false)],
        })
    }

    /// Allocates memory of the current part of the program.
    pub(crate) fn allocate(self: &Rc<Self>, bytes: u64) -> Rc<Storage> {
        let purpose = match self.phase.get() {
            StepPhase::Load => Purpose::Weights,
            StepPhase::Forward => self.part.get(),
            StepPhase::Backward => match self.part.get() {
                Purpose::Loss | Purpose::ConvertedWeights | Purpose::Communication => {
                    self.part.get()
                }
                _ => Purpose::BackwardTemporaries,
            },
            StepPhase::Optimizer => Purpose::OptimizerTemporaries,
        };
        self.allocate_for(purpose, bytes)
    }

    /// Allocates memory for a purpose.
    pub(crate) fn allocate_for(self: &Rc<Self>, purpose: Purpose, bytes: u64) -> Rc<Storage> {
        let id = match self.is_paused.get() || bytes == 0 {
            true => 0,
            false => self.note(purpose, bytes),
        };
        Rc::new(Storage {
            memory: Rc::clone(self),
            id,
        })
    }

    fn note(&self, purpose: Purpose, bytes: u64) -> AllocationId {
        let mut purposes = self.purposes.borrow_mut();
        let id = purposes.len() as AllocationId;
        purposes.push(purpose);
        self.phases.borrow_mut().push(self.phase.get());
        self.events.borrow_mut().push((id, bytes));
        id
    }

    /// A matrix is multiplied: the first time in a thread, the library takes its workspace. Backward has a thread of its own.
    pub(crate) fn multiply(&self) {
        let thread = usize::from(self.phase.get() == StepPhase::Backward);
        let takes = self.workspace_bytes > 0 && !self.is_paused.get();
        if takes && !self.has_workspace[thread].replace(true) {
            self.note(Purpose::Workspaces, self.workspace_bytes);
        }
    }

    /// Says what an allocation turned out to be for.
    pub(crate) fn label(&self, storage: &Storage, purpose: Purpose) {
        if storage.id != 0 {
            self.purposes.borrow_mut()[storage.id as usize] = purpose;
        }
    }

    /// The phase from here on; returns the one before.
    pub fn enter_phase(&self, phase: StepPhase) -> StepPhase {
        self.phase.replace(phase)
    }

    /// What allocations of the forward pass are for from here on; returns what they were for before.
    pub fn enter_part(&self, part: Purpose) -> Purpose {
        self.part.replace(part)
    }

    /// What allocations of the forward pass are for.
    pub(crate) fn part(&self) -> Purpose {
        self.part.get()
    }

    /// While it is paused, nothing is allocated: the program does not come this far.
    pub(crate) fn pause(&self, is_paused: bool) -> bool {
        self.is_paused.replace(is_paused)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.get()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.borrow().len()
    }

    /// Whether nothing was allocated yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The events for the allocator model.
    pub fn events(&self) -> Vec<TapeEvent> {
        let events = self.events.borrow();
        let event = |(id, bytes): &(AllocationId, u64)| match bytes {
            0 => TapeEvent::Free { id: u64::from(*id) },
            _ => TapeEvent::Allocate {
                id: u64::from(*id),
                bytes: *bytes,
            },
        };
        events.iter().map(event).collect()
    }

    /// In which phase the allocation of an event was made.
    pub fn phase_of_event(&self, event: usize) -> StepPhase {
        let id = self.events.borrow().get(event).map_or(0, |(id, _)| *id);
        self.phases.borrow()[id as usize]
    }

    /// The bytes that stand after an event, by what they are for.
    pub fn standing_after(&self, event: usize) -> std::collections::BTreeMap<Purpose, u64> {
        let events = self.events.borrow();
        let purposes = self.purposes.borrow();
        let mut sizes = vec![0; purposes.len()];
        for (id, bytes) in events.iter().take(event + 1) {
            sizes[*id as usize] = *bytes;
        }
        let mut standing = std::collections::BTreeMap::new();
        for (purpose, bytes) in purposes.iter().zip(sizes).filter(|(_, bytes)| *bytes > 0) {
            *standing.entry(*purpose).or_default() += bytes;
        }
        standing
    }
}

/// Memory of one or several tensors; it is freed when the last of them is gone.
#[derive(Debug)]
pub(crate) struct Storage {
    memory: Rc<Memory>,
    id: AllocationId,
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.id != 0 {
            self.memory.events.borrow_mut().push((self.id, 0));
        }
    }
}
