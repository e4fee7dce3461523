//! `cargo xtask instructions`: how many instructions the hot paths take, against what is recorded.
//!
//! ```text
//! options     what is asked for
//! callgrind   steady traffic under valgrind, and what it counted
//! record      the recorded values, and what they were recorded with
//! judgement   now against then
//! ```
//!
//! Time says little on a machine that others use too; instructions are the same in every run, so that one call more in a path
//! shows. They tell nothing of caches and of the kernel: that is what `consort bench` is for.
mod callgrind;
mod judgement;
mod options;
mod record;

use callgrind::Counts;
use judgement::Judgement;
use options::Options;
use record::Record;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = match Options::read(words) {
        Ok(Some(options)) => run(&options),
        Ok(None) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(misuse) => {
            eprintln!("instructions: {misuse}; see cargo xtask instructions --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing got dearer than it may.
fn run(options: &Options) -> Result<bool, String> {
    let now = Record { with: record::tools()?, instructions: callgrind::count()? };
    if options.accept {
        now.write(&options.record)?;
        println!("{} values are recorded in {}", now.instructions.len(), options.record.display());
        return Ok(true);
    }
    let then = Record::read(&options.record)?;
    then.check_machine(&now)?;
    let judgement = Judgement::new(&then.instructions, &now.instructions);
    print!("{judgement}");
    for (what, then, now) in then.differences(&now) {
        println!("recorded with {what} {then}, now with {now}: this may be all there is to a change");
    }
    Ok(judgement.holds())
}
