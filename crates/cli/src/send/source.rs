//! Where messages come from: the command line, a file, the standard input.
use super::Options;
use crate::failure::{Failure, Outcome, Trying, note};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};

/// How much is read at once, in bytes.
const CHUNK: usize = 64 << 10;

/// Gives one message after the other.
pub struct LineSource {
    from: From,
    /// How many more there may be.
    left: u64,
    /// How many were given.
    given: u64,
    /// Of how much, if that is known.
    size: Size,
}

/// How much there is to send.
enum Size {
    Unknown,
    Messages(u64),
    /// Bytes of a file, and how many of them were read.
    Bytes {
        all: u64,
        read: u64,
    },
}

enum From {
    /// Texts, round and round.
    Texts(std::iter::Cycle<std::vec::IntoIter<Vec<u8>>>),
    Lines {
        name: String,
        typed: bool,
        lines: BufReader<Box<dyn Read + Send>>,
    },
}

impl LineSource {
    /// What the options say.
    pub fn open(options: &Options) -> Outcome<Self> {
        if options.texts.is_empty() {
            let size = file_size(options).map_or(Size::Unknown, |all| Size::Bytes { all, read: 0 });
            return Ok(Self { from: lines(options)?, left: options.count.unwrap_or(u64::MAX), given: 0, size });
        }
        let all = (options.texts.len() as u64).checked_mul(options.count.unwrap_or(1));
        let all = all.ok_or_else(|| Failure::usage("--count: so many times each TEXT is more than can be counted"))?;
        let from = From::Texts(options.texts.clone().into_iter().cycle());
        Ok(Self { from, left: all, given: 0, size: Size::Messages(all) })
    }

    /// Whether somebody types the messages at a terminal.
    pub fn is_typed(&self) -> bool {
        matches!(self.from, From::Lines { typed: true, .. })
    }

    /// Puts the next message into `text`; false when there is none.
    pub fn next(&mut self, text: &mut Vec<u8>) -> Outcome<bool> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
        self.left = left;
        let more = match &mut self.from {
            From::Lines { name, lines, .. } => read_line(lines, text).trying(|| format!("cannot read {name}"))?,
            From::Texts(texts) => {
                *text = texts.next().unwrap_or_default();
                true
            }
        };
        self.given += u64::from(more);
        if let Size::Bytes { read, .. } = &mut self.size {
            *read += text.len() as u64 + 1;
        }
        Ok(more)
    }

    /// Which share of all was given, if that is known.
    pub fn share(&self) -> Option<f64> {
        match self.size {
            Size::Messages(all) => Some(self.given as f64 / all.max(1) as f64),
            // With a limit on the lines the work may end before the file does.
            Size::Bytes { all, read } if all > 0 => {
                let of_file = read as f64 / all as f64;
                let of_count = self.given as f64 / self.given.saturating_add(self.left).max(1) as f64;
                Some(of_file.max(of_count).min(1.0))
            }
            _ => None,
        }
    }

    /// Whether the next message may take a while, so that those before it should leave now.
    pub fn pauses(&self) -> bool {
        matches!(&self.from, From::Lines { lines, .. } if lines.buffer().is_empty())
    }
}

/// How many bytes there are to read, where that is certain.
fn file_size(options: &Options) -> Option<u64> {
    let about = options.file.as_ref()?.metadata().ok()?;
    about.is_file().then_some(about.len())
}

fn lines(options: &Options) -> Outcome<From> {
    let typed = options.file.is_none() && io::stdin().is_terminal();
    let (name, input): (String, Box<dyn Read + Send>) = match &options.file {
        Some(file) => {
            let name = file.display().to_string();
            let opened = File::open(file);
            (name.clone(), Box::new(opened.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?))
        }
        None => {
            if typed {
                note("each line you type is sent; Ctrl-D ends");
            }
            ("the standard input".into(), Box::new(io::stdin()))
        }
    };
    Ok(From::Lines { name, typed, lines: BufReader::with_capacity(CHUNK, input) })
}

/// Reads a line without its end; false when there is none.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = lines.read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(read > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut source: LineSource) -> Vec<Vec<u8>> {
        let (mut found, mut text) = (Vec::new(), Vec::new());
        while source.next(&mut text).unwrap() {
            found.push(text.clone());
        }
        found
    }

    fn lines_of(text: &'static [u8], left: u64) -> LineSource {
        let lines = BufReader::new(Box::new(text) as Box<dyn Read + Send>);
        let size = Size::Bytes { all: text.len() as u64, read: 0 };
        LineSource { from: From::Lines { name: "test".into(), typed: false, lines }, left, given: 0, size }
    }

    #[test]
    fn lines_are_read_without_their_ends_and_keep_all_other_bytes() {
        assert_eq!(all(lines_of(b"one\r\n\n\xff\nlast", u64::MAX)), [&b"one\r"[..], b"", b"\xff", b"last"]);
        assert_eq!(all(lines_of(b"one\ntwo\nthree\n", 2)), [b"one", b"two"]);
        assert!(all(lines_of(b"", 9)).is_empty());
    }

    #[test]
    fn texts_are_repeated_in_turn() {
        let texts = vec![b"a".to_vec(), b"b".to_vec()].into_iter().cycle();
        let source = LineSource { from: From::Texts(texts), left: 4, given: 0, size: Size::Messages(4) };
        assert_eq!(all(source), [b"a", b"b", b"a", b"b"]);
    }

    #[test]
    fn the_share_that_was_given_grows_with_lines_and_with_bytes() {
        let after = |left: u64| {
            let mut source = lines_of(b"one\ntwo\nthree\n", left);
            source.next(&mut Vec::new()).unwrap();
            source.share()
        };
        assert_eq!((after(u64::MAX), after(2)), (Some(4.0 / 14.0), Some(0.5)));
        assert_eq!(lines_of(b"", 9).share(), None);
    }
}
