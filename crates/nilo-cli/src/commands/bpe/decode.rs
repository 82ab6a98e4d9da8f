//! `nilo bpe decode`: ids to text, a piece at a time.

use std::io::Write;

use nilo_tokenizer::encode::UnknownIds;

use super::ends::{Output, check_apart, reader};
use super::ids::read_ids;
use super::tokenizer;
use crate::args::BpeDecodeArgs;
use crate::failure::Failure;

pub(crate) fn run(args: BpeDecodeArgs) -> Result<u8, Failure> {
    let model = tokenizer::read(&args.ends.tokenizer, Some("none"))?;
    check_apart(&args.ends.file, args.ends.output.as_deref())?;
    let input = reader(&args.ends.file)?;
    let mut output = Output::open(args.ends.output.as_deref())?;
    let mut decoded = 0;
    read_ids(input, args.ends.format, |ids| -> Result<(), Failure> {
        let text = model.decode(ids, UnknownIds::Refuse).map_err(|mut error| {
            error.position += decoded;
            Failure::from(error).hint("are these ids of this tokenizer, and in this --format?")
        })?;
        decoded += ids.len();
        Ok(output.write_all(&text)?)
    })?;
    output.finish()?;
    Ok(0)
}
