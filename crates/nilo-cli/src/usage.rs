//! What is said when the command line cannot be understood.

use std::ffi::OsString;
use std::io::Write;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::args::Verb;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::wrap::wrap_lines;

/// Prints the error, or the help that was asked for, and gives the exit status.
pub(crate) fn report(mut error: Error, command: &mut Command, arguments: &[OsString]) -> u8 {
    let verb = verb_of(command, arguments);
    let explained = unknown_option(&error, verb)
        .or_else(|| wrong_variable(&error, verb, arguments))
        .or_else(|| file_without_command(&error, verb));
    if let Some(failure) = explained {
        return failure.report();
    }
    // clap shows what it has understood so far as usage, such as `nilo run --dir <DIR>`; people want to know what there is.
    if error.get(ContextKind::Usage).is_some() {
        let usage = ContextValue::StyledStr(verb.render_usage());
        error.insert(ContextKind::Usage, usage);
    }
    // Help and version are no errors; both may meet a closed pipe.
    let printed = match error.exit_code() {
        0 => error.print(),
        _ => write_error(&error),
    };
    printed.ok();
    error.exit_code() as u8
}

/// `nilo optimize --` with nothing behind it: clap takes that for no command, and the last run would be meant.
pub(crate) fn missing_command(verb: &Verb, arguments: &[OsString]) -> Option<Failure> {
    let Verb::Optimize(args) = verb else {
        return None;
    };
    let ends_there = arguments.last().is_some_and(|last| last == "--");
    (args.command.is_empty() && ends_there).then(|| {
        Failure::new("no command after --").hint("write the command, or omit -- for the last run")
    })
}

/// clap's tips are our hints.
fn write_error(error: &Error) -> std::io::Result<()> {
    let rendered = error.render();
    let text = match Screen::stderr().colour {
        true => rendered.ansi().to_string(),
        false => rendered.to_string(),
    };
    let mut out = Vec::new();
    for line in text.lines() {
        match line.trim_start().split_once("tip:") {
            Some((before, tip)) if before.is_empty() || before.starts_with('\x1b') => {
                writeln!(out, "{before}hint:{tip}")?;
            }
            _ => writeln!(out, "{line}")?,
        }
    }
    let text = wrap_lines(&String::from_utf8_lossy(&out), Screen::stderr());
    std::io::stderr().write_all(text.as_bytes())
}

/// The verb that was typed, or the command itself.
fn verb_of<'a>(command: &'a mut Command, arguments: &[OsString]) -> &'a mut Command {
    let mut verb = command;
    for word in arguments.iter().skip(1) {
        if verb.find_subcommand(word).is_none() {
            break;
        }
        verb = match verb.find_subcommand_mut(word) {
            Some(found) => found,
            None => unreachable!("it was found a moment ago"),
        };
    }
    verb
}

fn unknown_option(error: &Error, verb: &Command) -> Option<Failure> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let text = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = text(ContextKind::InvalidArg).filter(|option| option.starts_with('-'))?;
    let name = verb.get_bin_name().unwrap_or("nilo");
    let all = format!("`{name} --help` lists the options");
    let hint = match text(ContextKind::SuggestedArg) {
        Some(similar) => format!("did you mean {similar}? {all}"),
        None if verb.get_name() == "run" => {
            format!("{all}; options of the command go after its name")
        }
        None => all,
    };
    Some(Failure::new(format!("unknown option {option}")).hint(hint))
}

/// `nilo snapshot FILE`: what is asked about the file is missing.
fn file_without_command(error: &Error, verb: &Command) -> Option<Failure> {
    if error.kind() != ErrorKind::InvalidSubcommand || verb.get_name() != "snapshot" {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let names = verb.get_subcommands().map(Command::get_name);
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    std::path::Path::new(word).is_file().then(|| {
        Failure::new(format!("{word} is a file, not a command of nilo snapshot"))
            .hint(format!("put a subcommand before it: {}", names.join(", ")))
    })
}

/// A value that was not typed but stands in an environment variable: clap blames the option that it is for.
fn wrong_variable(error: &Error, verb: &Command, arguments: &[OsString]) -> Option<Failure> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option,
        _ => return None,
    };
    let argument = verb
        .get_arguments()
        .find(|argument| argument.to_string() == *option)?;
    let variable = argument.get_env()?.to_string_lossy();
    // Typed values win over variables: without them the same words are either right, or wrong for another reason.
    let is_typed = verb_without_variables(verb)
        .try_get_matches_from(words_of(verb, arguments))
        .is_err_and(|typed| {
            typed.get(ContextKind::InvalidArg) == error.get(ContextKind::InvalidArg)
        });
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) if !is_typed => value,
        _ => return None,
    };
    let why = std::error::Error::source(error).map_or(String::new(), |why| format!(": {why}"));
    let long = argument.get_long()?;
    Some(
        Failure::new(format!(
            "invalid value '{value}' in the environment variable {variable}{why}"
        ))
        .hint(format!("change or unset {variable}; --{long} overrides it")),
    )
}

fn verb_without_variables(verb: &Command) -> Command {
    verb.clone()
        .mut_args(|argument| argument.env(clap::builder::Resettable::Reset))
}

/// What was typed from the verb on.
fn words_of<'a>(
    verb: &'a Command,
    arguments: &'a [OsString],
) -> impl Iterator<Item = &'a OsString> {
    let name = verb.get_name();
    let place = arguments.iter().position(|word| *word == *name);
    arguments.iter().skip(place.unwrap_or(0))
}
