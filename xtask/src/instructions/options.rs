//! What is asked for.
use std::ffi::OsString;
use std::path::PathBuf;

pub const HELP: &str = "\
cargo xtask instructions [--accept] [--record FILE]

Builds real nodes and steady traffic in the profile `release`, counts with valgrind how many instructions an operation
takes, and compares with what is recorded. Fails if an operation takes 10 % more, or if one is not recorded. Takes a few
seconds, besides building.

  --accept         record what is counted now
  --record FILE    where the values are recorded [xtask/instructions.json]

An operation is named after what each of three clients sends (`rest`: nothing; `100`: 60 messages of 100 bytes a write;
`1350`: 40 of 1350 bytes) and what is done:

  request       a write of a client is read, checked and handed to the engine
  token         the engine takes a token, decides what to send, and passes the token on
  visit         a node takes a token's datagram and does all that follows, up to the datagrams it sends
  data          the engine takes a packet of messages
  deliver       after that: its messages get their places and become what the client reads
  encode_token, encode_data, decode_token, decode_data
                a packet to or from a datagram, envelope and checksum included
";

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// Write the record, and judge nothing.
    pub accept: bool,
    /// The record's file.
    pub record: PathBuf,
}

impl Options {
    /// Reads the words; `None` if help is wanted.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, lexopt::Error> {
        use lexopt::prelude::*;
        let mut parser = lexopt::Parser::from_args(words);
        let mut options = Self { accept: false, record: crate::trace::root().join("xtask/instructions.json") };
        while let Some(word) = parser.next()? {
            match word {
                Long("accept") => options.accept = true,
                Long("record") => options.record = parser.value()?.into(),
                Long("help") | Short('h') => return Ok(None),
                other => return Err(other.unexpected()),
            }
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        Options::read(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_record_is_compared_unless_it_is_to_be_written() {
        let options = read("").unwrap().unwrap();
        assert!(!options.accept);
        assert!(options.record.ends_with("xtask/instructions.json"));
        let options = read("--accept --record there").unwrap().unwrap();
        assert_eq!(options, Options { accept: true, record: "there".into() });
        assert_eq!(read("--help"), Ok(None));
        assert!(read("--acept").unwrap_err().contains("--acept"));
    }
}
