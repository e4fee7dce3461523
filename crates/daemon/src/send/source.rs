//! Where messages come from: the command line, a file, the standard input.
use super::Options;
use crate::failure::{Failure, Outcome, Trying, note};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};

/// How much is read at once, in bytes.
const CHUNK: usize = 64 << 10;

/// Gives one message after the other.
pub struct Source {
    from: From,
    /// How many more there may be.
    left: u64,
}

enum From {
    /// Texts, round and round.
    Texts(std::iter::Cycle<std::vec::IntoIter<Vec<u8>>>),
    Lines {
        name: String,
        lines: BufReader<Box<dyn Read + Send>>,
    },
}

impl Source {
    /// What the options say.
    pub fn open(options: &Options) -> Outcome<Self> {
        if options.texts.is_empty() {
            return Ok(Self { from: lines(options)?, left: options.count.unwrap_or(u64::MAX) });
        }
        let all = options.texts.len() as u64 * options.count.unwrap_or(1);
        Ok(Self { from: From::Texts(options.texts.clone().into_iter().cycle()), left: all })
    }

    /// Puts the next message into `text`; false when there is none.
    pub fn next(&mut self, text: &mut Vec<u8>) -> Outcome<bool> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
        self.left = left;
        match &mut self.from {
            From::Lines { name, lines } => read_line(lines, text).trying(|| format!("cannot read {name}")),
            From::Texts(texts) => {
                *text = texts.next().unwrap_or_default();
                Ok(true)
            }
        }
    }

    /// Whether the next message may take a while, so that those before it should leave now.
    pub fn pauses(&self) -> bool {
        matches!(&self.from, From::Lines { lines, .. } if lines.buffer().is_empty())
    }
}

fn lines(options: &Options) -> Outcome<From> {
    let (name, input): (String, Box<dyn Read + Send>) = match &options.file {
        Some(file) => {
            let name = file.display().to_string();
            let opened = File::open(file);
            (name.clone(), Box::new(opened.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?))
        }
        None => {
            if io::stdin().is_terminal() {
                note("each line you type is sent; Ctrl-D ends");
            }
            ("the standard input".into(), Box::new(io::stdin()))
        }
    };
    Ok(From::Lines { name, lines: BufReader::with_capacity(CHUNK, input) })
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

    fn all(mut source: Source) -> Vec<Vec<u8>> {
        let (mut found, mut text) = (Vec::new(), Vec::new());
        while source.next(&mut text).unwrap() {
            found.push(text.clone());
        }
        found
    }

    fn lines_of(text: &'static [u8], left: u64) -> Source {
        let lines = BufReader::new(Box::new(text) as Box<dyn Read + Send>);
        Source { from: From::Lines { name: "test".into(), lines }, left }
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
        assert_eq!(all(Source { from: From::Texts(texts), left: 4 }), [b"a", b"b", b"a", b"b"]);
    }
}
