use crate::args::BpeEncodeArgs;
use crate::failure::Failure;
pub(crate) fn run(_: BpeEncodeArgs) -> Result<u8, Failure> {
    Ok(2)
}
