//! Why a pickle was not read, with the byte at which it stopped.

/// A pickle that cannot be read, or must not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// The first byte is not that of protocol 2 or later.
    #[error("not a pickle of protocol 2 or later")]
    NotAPickle,
    /// A protocol this reader does not know.
    #[error("pickle protocol {protocol} is not supported, only 2 to 5")]
    Protocol {
        /// The protocol named in the file.
        protocol: u8,
    },
    /// The file ends inside the pickle.
    #[error("truncated pickle: it ends at byte {offset} without a STOP opcode")]
    Truncated {
        /// The length of the file.
        offset: usize,
    },
    /// An opcode that imports, calls or asks for objects outside of the file.
    #[error(
        "refused opcode {opcode} at byte {offset}: it can run code, and a memory snapshot has none"
    )]
    RunsCode {
        /// The opcode's name in Python's `pickletools`.
        opcode: &'static str,
        /// Where it is.
        offset: usize,
    },
    /// An opcode no plain pickle of protocol 2 to 5 has.
    #[error("unsupported opcode 0x{byte:02x} at byte {offset}")]
    UnknownOpcode {
        /// The opcode.
        byte: u8,
        /// Where it is.
        offset: usize,
    },
    /// An opcode that takes more from the stack than there is, or something else than it needs.
    #[error("damaged pickle: opcode {opcode} at byte {offset} does not find its operands")]
    Operands {
        /// The opcode's name in Python's `pickletools`.
        opcode: &'static str,
        /// Where it is.
        offset: usize,
    },
    /// More objects under construction than a file of that length has.
    #[error("damaged pickle: too many unfinished objects at byte {offset}")]
    TooManyOpen {
        /// Where it is.
        offset: usize,
    },
    /// A memo index nothing was stored under.
    #[error("damaged pickle: memo entry {index} at byte {offset} does not exist")]
    MissingMemo {
        /// The index.
        index: u32,
        /// Where it is asked for.
        offset: usize,
    },
    /// The objects are not what is expected in such a file.
    #[error("unexpected content at byte {offset}: {problem}")]
    Content {
        /// Where the object is completed.
        offset: usize,
        /// What is wrong with it.
        problem: String,
    },
}
