//! The command line, one word after the other. The help text is the list of valid options: what it does not show is
//! not accepted as a suggestion, and a test holds every command to what its help shows.
use crate::failure::{Failure, Outcome};
use crate::runtime_dir;
use crate::words;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What is left of the command line of one command.
pub struct Args {
    parser: lexopt::Parser,
    help: &'static str,
    option: String,
    /// Words that are not options, in order.
    pub words: Vec<OsString>,
}

impl Args {
    /// Reads the words behind the command's name. `help` is shown on `--help`.
    pub fn new(words: impl IntoIterator<Item = OsString>, help: &'static str) -> Self {
        let parser = lexopt::Parser::from_args(words);
        Self { parser, help, option: String::new(), words: Vec::new() }
    }

    /// Hands each option to `take`, which is false for one that it does not know; returns the other words, in order.
    ///
    /// # Errors
    /// What `take` says, and usage for an option that nobody knows.
    pub fn each(
        words: impl IntoIterator<Item = OsString>,
        help: &'static str,
        mut take: impl FnMut(&str, &mut Self) -> Outcome<bool>,
    ) -> Outcome<Vec<OsString>> {
        let mut args = Self::new(words, help);
        while let Some(option) = args.next()? {
            if !take(&option, &mut args)? {
                return Err(args.unknown());
            }
        }
        Ok(args.words)
    }

    /// The same for a command that has no use for other words.
    ///
    /// # Errors
    /// As [`Self::each`], and usage for a word that is no option.
    pub fn only_options(
        words: impl IntoIterator<Item = OsString>,
        help: &'static str,
        take: impl FnMut(&str, &mut Self) -> Outcome<bool>,
    ) -> Outcome {
        match Self::each(words, help, take)?.first() {
            None => Ok(()),
            Some(word) => Err(useless(word)),
        }
    }

    /// The next option with its dashes (`--group`); other words are collected in `words`.
    #[expect(clippy::should_implement_trait, reason = "no iterator: the value of an option is read before the next")]
    pub fn next(&mut self) -> Outcome<Option<String>> {
        loop {
            let found = match self.parser.next().map_err(|error| Failure::usage(error.to_string()))? {
                None => return Ok(None),
                Some(lexopt::Arg::Long(name)) => format!("--{name}"),
                Some(lexopt::Arg::Short(letter)) => format!("-{letter}"),
                Some(lexopt::Arg::Value(word)) => {
                    self.words.push(word);
                    continue;
                }
            };
            if found == "--help" || found == "-h" {
                return Err(Failure::shown(self.help));
            }
            self.option = found.clone();
            return Ok(Some(found));
        }
    }

    /// The error for an option this command does not have.
    pub fn unknown(&self) -> Failure {
        let near = words::nearest(&self.option, options_of(self.help)).map(|near| format!("; did you mean {near}?"));
        let remedy = near.unwrap_or_else(|| "; --help lists the options".into());
        Failure::usage(format!("{}: there is no such option{remedy}", self.option))
    }

    /// The error for words a command has no use for.
    pub fn no_words(&self) -> Outcome {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(useless(word)),
        }
    }

    /// The value of the option just read, as text.
    pub fn text(&mut self) -> Outcome<String> {
        let value = self.value()?;
        value.into_string().map_err(|value| self.wrong(&value.to_string_lossy(), "readable text (UTF-8)"))
    }

    /// The value of the option just read, as a cluster's name.
    pub fn cluster(&mut self) -> Outcome<String> {
        let name = self.text()?;
        runtime_dir::check_cluster(&name).map_err(|problem| Failure::usage(format!("--cluster: {problem}")))?;
        Ok(name)
    }

    /// The value of the option just read, as a path.
    pub fn path(&mut self) -> Outcome<PathBuf> {
        self.value().map(PathBuf::from)
    }

    /// The value of the option just read, as it stands.
    pub fn raw(&mut self) -> Outcome<OsString> {
        self.value()
    }

    /// The value of the option just read, as a number in `range`.
    pub fn number(&mut self, range: RangeInclusive<u64>) -> Outcome<u64> {
        let text = self.text()?;
        let found = text.replace('_', "").parse().ok().filter(|number| range.contains(number));
        found.ok_or_else(|| self.wrong(&text, &format!("a number from {} to {}", range.start(), range.end())))
    }

    /// The value of the option just read, as a number in `range`; `None` if no number stands behind it.
    pub fn optional_number(&mut self, range: RangeInclusive<u64>) -> Outcome<Option<u64>> {
        let is_number =
            |word: &OsString| word.to_str().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        // There are no further words to look at while a value is joined to the option, as in `--option=1`.
        let follows = self.parser.try_raw_args().is_none_or(|words| words.as_slice().first().is_some_and(is_number));
        if follows { self.number(range).map(Some) } else { Ok(None) }
    }

    /// The value of the option just read, as a span of time.
    pub fn duration(&mut self) -> Outcome<Duration> {
        let text = self.text()?;
        duration(&text).ok_or_else(|| self.wrong(&text, "a time such as 500ms, 2s or 1m, a year at most"))
    }

    /// The value of the option just read, as a size in bytes within `range`.
    pub fn size(&mut self, range: RangeInclusive<u64>) -> Outcome<u64> {
        let text = self.text()?;
        let wanted = || format!("a size from {} to {} bytes, such as 1350 or 64KiB", range.start(), range.end());
        size(&text).filter(|bytes| range.contains(bytes)).ok_or_else(|| self.wrong(&text, &wanted()))
    }

    /// The value of the option just read, as one of the named choices.
    pub fn choice<T: Copy>(&mut self, choices: &[(&'static str, T)]) -> Outcome<T> {
        let text = self.text()?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.wrong(&text, &words::either(&names))
        })
    }

    /// The value of the option just read, in whatever form `FromStr` takes.
    pub fn parsed<T: std::str::FromStr>(&mut self, wanted: &str) -> Outcome<T> {
        let text = self.text()?;
        text.parse().map_err(|_| self.wrong(&text, wanted))
    }

    /// The error for a value of the option just read that is not what is wanted.
    pub fn wrong(&self, value: &str, wanted: &str) -> Failure {
        Failure::usage(format!("{}: `{value}` does not fit; give {wanted}", self.option))
    }

    fn value(&mut self) -> Outcome<OsString> {
        self.parser.value().map_err(|_| Failure::usage(format!("{} needs a value; see --help", self.option)))
    }
}

fn useless(word: &OsString) -> Failure {
    Failure::usage(format!("`{}` is not an option; options start with -- (see --help)", word.to_string_lossy()))
}

/// The options that a help text shows and `read` does not know: a command has none.
pub fn shown_but_unknown<T>(help: &'static str, read: impl Fn(Vec<OsString>) -> Outcome<T>) -> Vec<&'static str> {
    let unknown = |option: &&str| match read(vec![option.into(), "1".into()]) {
        Err(failure) => failure.message.contains("no such option"),
        Ok(_) => false,
    };
    options_of(help).filter(unknown).collect()
}

/// All options that a help text shows.
pub fn options_of(help: &str) -> impl Iterator<Item = &str> {
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("--") && word.len() > 2)
}

/// No longer time is taken: several times of it are still far from where times end.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Reads `250us`, `500ms`, `2s`, `1.5s`, `3m`, `1h`; a bare number counts seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok().filter(|time| *time <= LONGEST)
}

/// Reads `1350`, `64KiB`, `16MiB`, `1GiB`, and the same with `k`, `M`, `G` for thousands.
pub fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "k" | "kB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.replace('_', "").parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Usage: test [options]\n  --group G   the group\n  --count N   how many\n  -q, --quiet\n";

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(OsString::from), HELP)
    }

    #[test]
    fn options_values_and_words_come_apart() {
        let mut args = args("one --count 3 two --group=g -q");
        assert_eq!(args.next().unwrap().unwrap(), "--count");
        assert_eq!(args.number(1..=9).unwrap(), 3);
        assert_eq!(args.next().unwrap().unwrap(), "--group");
        assert_eq!(args.text().unwrap(), "g");
        assert_eq!(args.next().unwrap().unwrap(), "-q");
        assert_eq!(args.next().unwrap(), None);
        assert_eq!(args.words, ["one", "two"]);
        assert!(args.no_words().unwrap_err().message.starts_with("`one` is not an option"));
    }

    #[test]
    fn an_unknown_option_names_itself_and_the_nearest_valid_one() {
        let mut near = args("--grup x");
        near.next().unwrap();
        assert_eq!(near.unknown().message, "--grup: there is no such option; did you mean --group?");
        let mut far = args("--elephant");
        far.next().unwrap();
        assert_eq!(far.unknown().message, "--elephant: there is no such option; --help lists the options");
    }

    #[test]
    fn wrong_values_name_option_value_and_what_fits() {
        let number = |line: &str| {
            let mut args = args(line);
            args.next().unwrap();
            args.number(1..=9).unwrap_err().message
        };
        assert_eq!(number("--count ten"), "--count: `ten` does not fit; give a number from 1 to 9");
        assert_eq!(number("--count 10"), "--count: `10` does not fit; give a number from 1 to 9");
        assert_eq!(number("--count"), "--count needs a value; see --help");
    }

    #[test]
    fn help_is_shown_and_ends_well() {
        let shown = args("--help").next().unwrap_err();
        assert_eq!((shown.code, shown.message.as_str()), (crate::failure::Code::Fine, HELP));
    }

    #[test]
    fn times_and_sizes_read_as_people_write_them() {
        assert_eq!(duration("250us"), Some(Duration::from_micros(250)));
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("2"), Some(Duration::from_secs(2)));
        assert_eq!(duration("3m"), Some(Duration::from_secs(180)));
        assert_eq!([duration("x"), duration("1d"), duration("-1s"), duration("")], [None; 4]);
        assert_eq!([duration("8784h"), duration("8785h")], [Some(LONGEST), None]);
        assert_eq!([duration("10000000000000000000s"), duration("99999999999999999999999h")], [None; 2]);
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(size("10k"), Some(10_000));
        assert_eq!(size("1_000"), Some(1_000));
        assert_eq!([size("KiB"), size("9x"), size("99999999999GiB")], [None; 3]);
    }
}
