//! The command line over everything else.
//!
//! [`args`] says what can be typed, [`commands`] has one file for each verb, [`text`] turns results into words.

mod alerts;
mod args;
mod commands;
mod complete_runs;
mod damaged_run;
mod diagnosis;
mod end_by_signal;
mod failure;
mod folder;
mod gpu_kind;
mod listed_runs;
mod live;
mod output_file;
mod pasted_command;
mod png;
mod recording;
mod screen;
mod settings;
mod snapshot_page;
mod target_match;
mod text;
mod usage;
mod wrap;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Arg, Command, CommandFactory, FromArgMatches};

use crate::args::{Cli, Verb};
use crate::failure::Failure;

/// Parses the arguments, runs the verb and prints the error once.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    survive_file_size_limits();
    let definition = || without_empty_variables(with_negative_numbers(Cli::command()));
    commands::completions::answer_shell(definition);
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut command = definition();
    command.build();
    let parsed = command.try_get_matches_from_mut(&arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(usage::report(error, &mut command, &arguments)),
    };
    if let Some(failure) = usage::missing_command(&cli.verb, &arguments) {
        return ExitCode::from(failure.report());
    }
    let code = match run(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    };
    std::io::stdout().flush().ok();
    ExitCode::from(code)
}

/// A negative number behind an option is a value that may be wrong, not an option that nobody knows.
fn with_negative_numbers(command: Command) -> Command {
    let option =
        |argument: Arg| match argument.is_positional() || !argument.get_action().takes_values() {
            true => argument,
            false => argument.allow_negative_numbers(true),
        };
    command
        .mut_args(option)
        .mut_subcommands(with_negative_numbers)
}

/// A variable that is set to nothing counts as not set: `NILO_INTERVAL= nilo run ...`.
fn without_empty_variables(command: Command) -> Command {
    let option = |argument: Arg| {
        let value = argument.get_env().and_then(std::env::var_os);
        match value.is_some_and(|value| value.is_empty()) {
            true => argument.env(Resettable::Reset),
            false => argument,
        }
    };
    command
        .mut_args(option)
        .mut_subcommands(without_empty_variables)
}

/// A limit on file sizes (`ulimit -f`) sends a signal that kills; a handler turns it into a failed write.
/// Not SIG_IGN, which the recorded command would inherit.
fn survive_file_size_limits() {
    extern "C" fn nothing(_signal: i32) {}
    // SAFETY: installs a handler that does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, nothing as *const () as usize) };
}

fn run(cli: Cli) -> Result<u8, Failure> {
    let settings = match &cli.verb {
        // These concern no run, or one that is named to them.
        Verb::Ps(_)
        | Verb::Mark(_)
        | Verb::Snapshot(_)
        | Verb::Gpu(_)
        | Verb::Trust(_)
        | Verb::Completions(_)
        | Verb::Man(_) => settings::Settings::default(),
        _ => settings::load()?,
    };
    match cli.verb {
        Verb::Run(args) => commands::run::run(args, &settings),
        Verb::Watch(args) => commands::watch::run(args, &settings),
        Verb::Ps(args) => commands::ps::run(args),
        Verb::Mark(args) => commands::mark::run(args),
        Verb::Runs(args) => commands::runs::run(args, &settings),
        Verb::Show(args) => commands::show::run(args, &settings),
        Verb::Compare(args) => commands::compare::run(args, &settings),
        Verb::Request(args) => commands::request::run(args, &settings),
        Verb::Optimize(args) => commands::optimize::run(args, &settings),
        Verb::Oom(args) => commands::oom::run(args, &settings),
        Verb::Leak(args) => commands::leak::run(args, &settings),
        Verb::Snapshot(args) => commands::snapshot::run(args),
        Verb::Fit(args) => commands::fit::run(args, &settings),
        Verb::Gpu(args) => commands::gpu::run(args),
        Verb::Profile(args) => commands::profile::run(args, &settings),
        Verb::Monitor(args) => commands::monitor::run(args, &settings),
        Verb::Bpe(args) => commands::bpe::run(args, &settings),
        Verb::Plot(args) => commands::plot::run(args, &settings),
        Verb::Export(args) => commands::export::run(args, &settings),
        Verb::Verify(args) => commands::verify::run(args, &settings),
        Verb::Rm(args) => commands::rm::run(args, &settings),
        Verb::Prune(args) => commands::prune::run(args, &settings),
        Verb::Trust(args) => commands::trust::run(args),
        Verb::Completions(args) => commands::completions::run(args),
        Verb::Man(args) => commands::man::run(args),
    }
}
