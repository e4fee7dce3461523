//! What the command lines of all tasks have in common.
use consort_testbed::network::namespace::requirements;
use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::str::FromStr;

/// What is wrong with a command line; `None` if help was asked for.
pub type Misuse = Option<String>;

/// A word of a command line that is not the value of an option.
#[derive(Debug)]
pub enum Word {
    /// With its `--`.
    Option(String),
    /// What stands by itself.
    Name(String),
}

impl Word {
    /// For tasks that take options only.
    ///
    /// # Errors
    /// It is none.
    pub fn option(self) -> Result<String, String> {
        match self {
            Self::Option(name) => Ok(name),
            Self::Name(name) => Err(lexopt::Arg::Value(name.into()).unexpected().to_string()),
        }
    }
}

/// Gives each word to `take`, which asks the parser for values.
///
/// # Errors
/// [`Misuse`].
pub fn read(
    words: impl IntoIterator<Item = OsString>,
    mut take: impl FnMut(Word, &mut lexopt::Parser) -> Result<(), String>,
) -> Result<(), Misuse> {
    let mut parser = lexopt::Parser::from_args(words);
    while let Some(word) = parser.next().map_err(|error| Some(error.to_string()))? {
        let word = match word {
            lexopt::Arg::Long("help") | lexopt::Arg::Short('h') => return Err(None),
            lexopt::Arg::Long(name) => Word::Option(format!("--{name}")),
            lexopt::Arg::Value(name) => Word::Name(name.to_string_lossy().into_owned()),
            other => return Err(Some(other.unexpected().to_string())),
        };
        take(word, &mut parser).map_err(Some)?;
    }
    Ok(())
}

/// The number that an option was given, if it is in the range.
///
/// # Errors
/// It is not; the text names the option and the range.
pub fn within<T>(name: &str, value: &OsString, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + fmt::Display,
{
    let text = value.to_string_lossy();
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        format!("{name}: `{text}` does not fit; give a number from {} to {}", range.start(), range.end())
    })
}

/// The options of a task, or how the program ends without them: help is printed, misuse is told.
///
/// # Errors
/// The exit code.
pub fn begin<O>(task: &str, help: impl fmt::Display, read: Result<O, Misuse>) -> Result<O, ExitCode> {
    read.map_err(|misuse| match misuse {
        None => {
            print!("{help}");
            ExitCode::SUCCESS
        }
        Some(misuse) => {
            eprintln!("{task}: {misuse}");
            ExitCode::from(2)
        }
    })
}

/// How a task ends on a machine that cannot have networks; says why. `None` where it can.
pub fn skip(task: &str) -> Option<ExitCode> {
    let reason = requirements().err()?;
    let required = std::env::var_os("CONSORT_REQUIRE_NETNS").is_some_and(|wanted| wanted == "1");
    eprintln!("{task}: {}: {reason}", if required { "FAILED" } else { "SKIPPED" });
    Some(if required { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
