//! `consort top`: daemons, groups and clients on one screen. A program of its own, `consort-top`, that `consort` starts: the
//! daemon's program need not carry a terminal.
//!
//! | module | what |
//! |---|---|
//! | `options` | the command line |
//! | `look` | asking the daemons, and asking again those that went away |
//! | `model`, `rates`, `stragglers` | what two looks say: for people and, as JSON, for programs |
//! | `screen`, `keys` | what a person has chosen to see |
//! | `table`, `panes`, `draw`, `text` | the screen as a pure function of both; the same as plain text |
//! | `terminal` | the terminal: keys in, screens out |
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

mod draw;
mod keys;
mod look;
mod model;
mod options;
mod panes;
mod rates;
mod screen;
mod stragglers;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod text;

use consort_daemon::{args, clock, failure, figures, peers, runtime_dir, usage, words};
use failure::{Code, Failure, Outcome};
use look::Looker;
use model::Model;
use options::{Options, Output};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Runs the command.
fn run(words: Vec<OsString>) -> Outcome {
    let options = options::read(words)?;
    if options.output == Output::Screen {
        terminal::check(io::stdin().is_terminal() && io::stdout().is_terminal(), terminal::size())?;
    }
    let mut looker = Looker::new(options.wanted.clone())?;
    let first = looker.look();
    if let Some(problem) = first.nobody_answers() {
        return Err(Failure::new(problem).with(Code::NoDaemon));
    }
    match options.output {
        Output::Screen => terminal::run(looker, first, options.every),
        Output::Once | Output::Json => {
            std::thread::sleep(options.every);
            once(&Model::new(Some(&first), &looker.look()), &options)
        }
    }
}

fn once(model: &Model, options: &Options) -> Outcome {
    let text = match options.output {
        Output::Json => serde_json::to_string(model).unwrap_or_default() + "\n",
        _ => text::of(model, terminal::size().map_or(terminal::LEAST.0, |(width, _)| width.max(terminal::LEAST.0))),
    };
    let mut out = io::stdout();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}
