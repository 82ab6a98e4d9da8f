//! A pickle reader for plain data: protocols 2 to 5, no opcode that could import or call anything.
//!
//! It knows nothing of snapshots: it keeps the stack and the memo, and hands finished objects to an [`ObjectBuilder`].

mod error;
mod input;
mod machine;
mod memo;
mod opcode;
mod value;

pub use error::PickleError;
pub use machine::{ObjectBuilder, run_pickle};
pub use value::{PickleKind, PickleValue};
