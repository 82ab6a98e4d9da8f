//! `nilo bpe encode`: text to ids, a block at a time.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nilo_tokenizer::encode::{Encoder, SpecialTokens, StreamError};

use super::ids::IdsWriter;
use super::input_output::{OutputStream, reader, status_of};
use super::stop::{self, WaitingReads};
use super::tokenizer;
use crate::args::{BpeEncodeArgs, IdsFormat};
use crate::failure::Failure;
use crate::output_file::refuse_overwriting;

pub(crate) fn run(args: BpeEncodeArgs) -> Result<u8, Failure> {
    let ends = args.ends;
    let model = tokenizer::read(&ends.tokenizer, args.pattern.as_deref())?;
    let short = usize::from(u16::MAX) + 1;
    if ends.format == IdsFormat::U16 && model.vocabulary_size() > short {
        let size = model.vocabulary_size();
        return Err(Failure::new(format!(
            "a vocabulary of {size} tokens does not fit into 16-bit ids"
        ))
        .hint("use --format u32"));
    }
    let specials = match args.no_special_tokens {
        true => SpecialTokens::AsText,
        false => SpecialTokens::Recognise,
    };
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(cores, usize::from);
    if let Some(output) = &ends.output {
        let tokenizer = tokenizer::files(&ends.tokenizer);
        let inputs = tokenizer.iter().chain([&ends.file]);
        refuse_overwriting(output, inputs.map(|file| &**file), "-o")?;
    }
    check_unpacked(&ends.file)?;
    let input = reader(&ends.file)?;
    let output = OutputStream::open(ends.output.as_deref())?;
    stop::listen(WaitingReads::BreakOff);
    let when_stopped = output.when_stopped();
    let encode = || -> Result<(), Failure> {
        let mut output = IdsWriter::new(output, ends.format);
        Encoder::new(&model)
            .encode_stream(input, specials, threads, |ids| output.put(ids))
            .map_err(|error| match error {
                StreamError::Take(error) => Failure::from(error),
                other => Failure::from(other),
            })?;
        output.finish()?.finish()
    };
    status_of(encode(), when_stopped)
}

/// Packed files are not unpacked here, and their bytes are hardly what is meant.
fn check_unpacked(path: &Path) -> Result<(), Failure> {
    // Of a pipe nothing may be taken away.
    if !path.is_file() {
        return Ok(());
    }
    let mut first = [0; 4];
    let read = File::open(path)
        .and_then(|mut file| file.read(&mut first))
        .unwrap_or(0);
    let packed = first[..read].starts_with(&[0x1f, 0x8b]) || first == [0x28, 0xb5, 0x2f, 0xfd];
    match packed {
        true => Err(Failure::new(format!("{} is compressed", path.display()))
            .hint("decompress it first: zcat or zstdcat FILE | nilo bpe encode -t TOKENIZER")),
        false => Ok(()),
    }
}
