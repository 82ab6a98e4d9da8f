use crate::args::BpeDecodeArgs;
use crate::failure::Failure;
pub(crate) fn run(_: BpeDecodeArgs) -> Result<u8, Failure> {
    Ok(2)
}
