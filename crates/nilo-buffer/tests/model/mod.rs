//! A replay buffer as anybody would write it, and drawn episodes to feed both.

use std::collections::VecDeque;

use fastrand::Rng;
use nilo_buffer::{
    BatchTargets, ColumnSettings, ElementKind, FrameCodec, ObservationSettings, ReplaySettings,
    ReplayStore, Returns, StackAxis, Step,
};

pub(crate) struct Transition {
    pub(crate) observation: Vec<u8>,
    pub(crate) next_observation: Vec<u8>,
    pub(crate) action: Vec<u8>,
    pub(crate) reward: f32,
    pub(crate) terminated: bool,
    pub(crate) truncated: bool,
}

/// Transitions of all environments in the order of their numbers.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) rows: VecDeque<Transition>,
    pub(crate) first: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) environments: usize,
    pub(crate) stack: usize,
    pub(crate) frame_bytes: usize,
    pub(crate) capacity: usize,
    pub(crate) axis: StackAxis,
    pub(crate) codec: FrameCodec,
}

impl Shape {
    pub(crate) fn settings(&self) -> ReplaySettings {
        let shape = match self.axis {
            StackAxis::First => vec![self.stack, self.frame_bytes],
            StackAxis::Last => vec![self.frame_bytes, self.stack],
        };
        ReplaySettings {
            capacity: self.capacity,
            environments: self.environments,
            observations: vec![ObservationSettings {
                name: "observation".to_owned(),
                kind: ElementKind::U8,
                shape,
                stack: self.stack,
                stack_axis: self.axis,
                codec: self.codec,
            }],
            columns: vec![ColumnSettings {
                name: "action".to_owned(),
                kind: ElementKind::I64,
                shape: vec![2],
            }],
            priority_exponent: None,
            max_bytes: None,
            compress_cold_rows: true,
            spill_folder: None,
            cache_bytes: 4096,
        }
    }
}

/// An environment that draws what it does: steps, resets of all kinds, and things that no environment should do.
pub(crate) struct Environment {
    frames: VecDeque<Vec<u8>>,
    random: Rng,
}

impl Environment {
    pub(crate) fn new(shape: &Shape, seed: u64) -> Environment {
        let mut made = Environment {
            frames: VecDeque::new(),
            random: Rng::with_seed(seed),
        };
        made.reset(shape);
        made
    }

    fn frame(&mut self, shape: &Shape) -> Vec<u8> {
        let mut frame = self
            .frames
            .back()
            .cloned()
            .unwrap_or_else(|| vec![3; shape.frame_bytes]);
        match self.random.u8(..10) {
            0 => frame.iter_mut().for_each(|byte| *byte = self.random.u8(..)),
            1 => frame.fill(0),
            2 => {}
            _ => {
                for _ in 0..self.random.usize(1..4) {
                    let place = self.random.usize(..frame.len());
                    frame[place] = self.random.u8(..);
                }
            }
        }
        frame
    }

    fn reset(&mut self, shape: &Shape) {
        let first = self.frame(shape);
        let kind = self.random.u8(..3);
        self.frames.clear();
        for place in 1..shape.stack {
            let frame = match kind {
                0 => vec![0; shape.frame_bytes],
                1 => first.clone(),
                _ => {
                    let _ = place;
                    self.frame(shape)
                }
            };
            self.frames.push_back(frame);
        }
        self.frames.push_back(first);
    }

    fn observation(&self, shape: &Shape) -> Vec<u8> {
        match shape.axis {
            StackAxis::First => self.frames.iter().flatten().copied().collect(),
            StackAxis::Last => (0..shape.frame_bytes)
                .flat_map(|place| self.frames.iter().map(move |frame| frame[place]))
                .collect(),
        }
    }

    pub(crate) fn step(&mut self, shape: &Shape) -> Transition {
        let observation = self.observation(shape);
        let kind = self.random.u8(..20);
        if kind == 0 {
            // The same observation again: nothing moved.
        } else if kind == 1 {
            self.reset(shape);
        } else {
            let frame = self.frame(shape);
            self.frames.pop_front();
            self.frames.push_back(frame);
        }
        let next_observation = self.observation(shape);
        let (terminated, truncated) = (self.random.u8(..12) == 0, self.random.u8(..20) == 0);
        // A reset that nobody told of happens too.
        if terminated || truncated || self.random.u8(..30) == 0 {
            self.reset(shape);
        }
        let action = [
            self.random.i64(0..4),
            if self.random.u8(..50) == 0 {
                i64::MAX
            } else {
                -1
            },
        ];
        Transition {
            observation,
            next_observation,
            action: action
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
            reward: if self.random.bool() {
                1.0
            } else {
                self.random.f32()
            },
            terminated,
            truncated,
        }
    }
}

impl Model {
    /// Adds one step of all environments to both.
    pub(crate) fn step(
        &mut self,
        store: &mut ReplayStore,
        shape: &Shape,
        environments: &mut [Environment],
    ) {
        let rows: Vec<Transition> = environments
            .iter_mut()
            .map(|environment| environment.step(shape))
            .collect();
        let join = |part: fn(&Transition) -> &Vec<u8>| {
            rows.iter()
                .flat_map(|row| part(row).clone())
                .collect::<Vec<u8>>()
        };
        let (observations, next_observations) = (
            join(|row| &row.observation),
            join(|row| &row.next_observation),
        );
        let rewards: Vec<f32> = rows.iter().map(|row| row.reward).collect();
        let terminated: Vec<bool> = rows.iter().map(|row| row.terminated).collect();
        let truncated: Vec<bool> = rows.iter().map(|row| row.truncated).collect();
        store
            .add(Step {
                observations: &[(&observations, &next_observations)],
                columns: &[&join(|row| &row.action)],
                rewards: &rewards,
                terminated: &terminated,
                truncated: &truncated,
            })
            .expect("sizes fit");
        self.rows.extend(rows);
        // How many stay is the store's decision; which ones is not.
        while self.rows.len() > store.len() {
            self.rows.pop_front();
            self.first += 1;
        }
    }

    fn row(&self, row: u64) -> &Transition {
        &self.rows[(row - self.first) as usize]
    }

    /// Compares everything that is stored.
    pub(crate) fn compare(&self, store: &ReplayStore, shape: &Shape, returns: Returns) {
        assert_eq!(
            store.rows(),
            self.first..self.first + self.rows.len() as u64
        );
        let rows: Vec<u64> = store.rows().collect();
        self.compare_rows(store, shape, returns, &rows);
    }

    /// Compares these transitions.
    pub(crate) fn compare_rows(
        &self,
        store: &ReplayStore,
        shape: &Shape,
        returns: Returns,
        rows: &[u64],
    ) {
        let batch = read(store, rows, returns);
        let bytes = shape.stack * shape.frame_bytes;
        for (index, &row) in rows.iter().enumerate() {
            let one = self.row(row);
            assert_eq!(
                batch.observations[index * bytes..][..bytes],
                one.observation,
                "observation of {row}"
            );
            assert_eq!(
                batch.actions[index * 16..][..16],
                one.action,
                "action of {row}"
            );
            let (last, sum, discount) = self.returns(row, shape.environments as u64, returns);
            let last = self.row(last);
            assert_eq!(
                batch.next_observations[index * bytes..][..bytes],
                last.next_observation,
                "next of {row}"
            );
            assert!(
                (batch.rewards[index] - sum).abs() <= 1e-5 * sum.abs().max(1.0),
                "return of {row}"
            );
            assert!(
                (batch.discounts[index] - discount).abs() < 1e-6,
                "discount of {row}"
            );
            assert_eq!(batch.terminated[index] != 0.0, last.terminated);
            assert_eq!(batch.truncated[index] != 0.0, last.truncated);
        }
    }

    fn returns(&self, row: u64, environments: u64, returns: Returns) -> (u64, f32, f32) {
        let (mut last, mut sum, mut discount) = (row, 0.0, 1.0);
        for step in 0..returns.steps {
            let one = self.row(last);
            sum += discount * one.reward;
            discount *= returns.gamma;
            let following = last + environments;
            let is_over = one.terminated
                || one.truncated
                || step + 1 == returns.steps
                || following >= self.first + self.rows.len() as u64
                || self.row(following).observation != one.next_observation;
            if is_over {
                break;
            }
            last = following;
        }
        (last, sum, discount)
    }
}

pub(crate) struct Batch {
    pub(crate) observations: Vec<u8>,
    pub(crate) next_observations: Vec<u8>,
    pub(crate) actions: Vec<u8>,
    pub(crate) rewards: Vec<f32>,
    pub(crate) terminated: Vec<f32>,
    pub(crate) truncated: Vec<f32>,
    pub(crate) discounts: Vec<f32>,
}

pub(crate) fn read(store: &ReplayStore, rows: &[u64], returns: Returns) -> Batch {
    let bytes = store.settings().observations[0].bytes() * rows.len();
    let mut batch = Batch {
        observations: vec![9; bytes],
        next_observations: vec![9; bytes],
        actions: vec![9; 16 * rows.len()],
        rewards: vec![9.0; rows.len()],
        terminated: vec![9.0; rows.len()],
        truncated: vec![9.0; rows.len()],
        discounts: vec![9.0; rows.len()],
    };
    let mut targets = BatchTargets {
        observations: vec![(&mut batch.observations, &mut batch.next_observations)],
        columns: vec![&mut batch.actions],
        rewards: &mut batch.rewards,
        terminated: &mut batch.terminated,
        truncated: &mut batch.truncated,
        discounts: &mut batch.discounts,
    };
    store
        .read(rows, returns, &mut targets)
        .expect("all rows are stored");
    batch
}
