//! `calibrate` and `predict`: words, and what they do.
use super::calibrate;
use super::host_file::HostFile;
use super::predict;
use super::programs::Programs;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Words that begin a command of this module.
pub const COMMANDS: [&str; 2] = ["calibrate", "predict"];
/// Messages a second for latency, where no other number is given, and how many at most.
const RATE: u64 = 1_000;
const RATE_MAX: u64 = 100_000;

/// What is asked for.
#[derive(Debug, PartialEq)]
enum Command {
    Calibrate { to: PathBuf, program: Option<PathBuf> },
    Predict { host: PathBuf, rate: u64, measured: Option<PathBuf>, program: Option<PathBuf> },
}

/// Runs a command: its words begin with one of [`COMMANDS`].
pub fn main(words: Vec<OsString>) -> ExitCode {
    let command = match read(words) {
        Ok(command) => command,
        Err(misuse) => {
            eprintln!("lab: {misuse}; see cargo papers --help");
            return ExitCode::from(2);
        }
    };
    match command.run() {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(words: Vec<OsString>) -> Result<Command, String> {
    let mut parser = lexopt::Parser::from_args(words);
    let (mut name, mut rate) = (None, None);
    let [mut to, mut host, mut measured, mut program] = [const { None::<PathBuf> }; 4];
    let mut take = || -> Result<(), lexopt::Error> {
        while let Some(word) = parser.next()? {
            match word {
                Value(word) if name.is_none() => name = Some(word.string()?),
                Long("to") => to = Some(parser.value()?.into()),
                Long("host") => host = Some(parser.value()?.into()),
                Long("measured") => measured = Some(parser.value()?.into()),
                Long("program") => program = Some(parser.value()?.into()),
                Long("rate") => rate = Some(parser.value()?.parse::<u64>()?),
                other => return Err(other.unexpected()),
            }
        }
        Ok(())
    };
    take().map_err(|error| error.to_string())?;
    if let Some(rate) = rate.filter(|rate| !(1..=RATE_MAX).contains(rate)) {
        return Err(format!("--rate {rate} is out of range; use 1 to {RATE_MAX}"));
    }
    match (name.as_deref(), host) {
        (Some("calibrate"), None) if rate.is_none() && measured.is_none() => {
            Ok(Command::Calibrate { to: to.unwrap_or_else(|| "host.toml".into()), program })
        }
        (Some("calibrate"), _) => Err("`calibrate` takes --to and --program alone".into()),
        (_, _) if to.is_some() => Err("--to belongs to `calibrate`".into()),
        (_, None) => Err("say which host: --host FILE, as `cargo papers calibrate` wrote it".into()),
        (_, Some(host)) => Ok(Command::Predict { host, rate: rate.unwrap_or(RATE), measured, program }),
    }
}

impl Command {
    fn run(self) -> Result<String, String> {
        match self {
            Self::Calibrate { to, program } => {
                let host = calibrate::observe(&Programs::find(program)?)?.fit()?;
                std::fs::write(&to, host.text()?)
                    .map_err(|error| format!("--to {}: cannot be written: {error}", to.display()))?;
                Ok(format!("{}\n", to.display()))
            }
            Self::Predict { host, rate, measured, program } => {
                let host = HostFile::read(&host)?;
                let simulated = predict::simulated(&host, rate as f64)?;
                let real = predict::measured(|| Programs::find(program), rate as f64, measured.as_deref())?;
                Ok(predict::table(&simulated, &real))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Command, String> {
        read(text.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn words_say_what_to_do() {
        assert_eq!(words("calibrate"), Ok(Command::Calibrate { to: "host.toml".into(), program: None }));
        assert_eq!(
            words("calibrate --to a --program b"),
            Ok(Command::Calibrate { to: "a".into(), program: Some("b".into()) })
        );
        let predict = |measured: Option<&str>, rate| Command::Predict {
            host: "h".into(),
            rate,
            measured: measured.map(PathBuf::from),
            program: None,
        };
        assert_eq!(words("predict --host h"), Ok(predict(None, 1_000)));
        assert_eq!(words("predict --host h --measured m --rate 5000"), Ok(predict(Some("m"), 5_000)));
    }

    #[test]
    fn words_that_make_no_sense_are_told() {
        for (text, expected) in [
            ("predict", "--host FILE"),
            ("predict --host h --to x", "belongs to `calibrate`"),
            ("calibrate --rate 5", "--to and --program alone"),
            ("calibrate --host h", "--to and --program alone"),
            ("predict --host h --rate 0", "use 1 to 100000"),
            ("predict --host h --rate fast", "fast"),
            ("predict --what", "--what"),
            ("predict more", "more"),
        ] {
            let error = words(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_host_file_that_is_not_there_stops_before_anything_is_measured() {
        let error = words("predict --host /no/such/host.toml").unwrap().run().unwrap_err();
        assert!(error.starts_with("--host /no/such/host.toml: No such file"), "{error}");
    }
}
