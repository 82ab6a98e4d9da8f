//! `nilo bpe decode`: ids to text, a piece at a time.

use std::io::{Read, Write};

use nilo_tokenizer::encode::UnknownIds;
use nilo_tokenizer::model::Model;

use super::ids::read_ids;
use super::input_output::{OutputStream, reader, status_of};
use super::stop::{self, WaitingReads};
use super::tokenizer;
use crate::args::{BpeDecodeArgs, IdsFormat};
use crate::failure::Failure;
use crate::output_file::refuse_overwriting;

pub(crate) fn run(args: BpeDecodeArgs) -> Result<u8, Failure> {
    let ends = args.ends;
    let model = tokenizer::read(&ends.tokenizer, Some("none"))?;
    if let Some(output) = &ends.output {
        let tokenizer = tokenizer::files(&ends.tokenizer);
        let inputs = tokenizer.iter().chain([&ends.file]);
        refuse_overwriting(output, inputs.map(|file| &**file), "-o")?;
    }
    let input = reader(&ends.file)?;
    let output = OutputStream::open(ends.output.as_deref())?;
    stop::listen(WaitingReads::BreakOff);
    let when_stopped = output.when_stopped();
    status_of(decode(&model, input, ends.format, output), when_stopped)
}

fn decode(
    model: &Model,
    input: impl Read,
    format: IdsFormat,
    mut output: OutputStream,
) -> Result<(), Failure> {
    let mut decoded = 0;
    read_ids(input, format, |ids| -> Result<(), Failure> {
        let text = model.decode(ids, UnknownIds::Refuse).map_err(|mut error| {
            error.position += decoded;
            Failure::from(error)
                .hint("check that the ids come from this tokenizer and match --format")
        })?;
        decoded += ids.len();
        Ok(output.write_all(&text)?)
    })?;
    output.finish()
}
