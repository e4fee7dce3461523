//! States that serde knows: a machine of which only the commands are left to write.
use crate::{Position, StateMachine};
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufWriter, Read, Write};

/// A state that serde can write and read, and how a command changes it. Each is a [`StateMachine`] whose snapshot is a clone,
/// in [postcard](https://docs.rs/postcard)'s form.
///
/// Where it parted from the history that counts, the default of [`StateMachine::on_parted`] holds.
///
/// Clones should be cheap, for all other work waits for one: share what is large (`Arc`). The type is the form of snapshots and
/// checkpoints: one with another field is another state, and cannot restore them. While it is restored a state is in memory
/// a second time, as bytes.
///
/// ```
/// use consort_replica::{Position, State};
///
/// #[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
/// struct Counter(u64);
///
/// impl State for Counter {
///     fn apply(&mut self, _at: Position, _command: &[u8]) -> Vec<u8> {
///         self.0 += 1;
///         self.0.to_be_bytes().into()
///     }
/// }
/// # fn is_machine<M: consort_replica::StateMachine>() {}
/// # is_machine::<Counter>();
/// ```
pub trait State: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// As [`StateMachine::apply`].
    fn apply(&mut self, at: Position, command: &[u8]) -> Vec<u8>;
}

impl<S: State> StateMachine for S {
    type Snapshot = Self;

    fn apply(&mut self, at: Position, command: &[u8]) -> Vec<u8> {
        State::apply(self, at, command)
    }

    fn snapshot(&self) -> Self {
        self.clone()
    }

    fn write(snapshot: Self, out: &mut dyn Write) -> io::Result<()> {
        let mut failed = None;
        let flow = Flow { out: BufWriter::new(out), failed: &mut failed };
        let written = postcard::serialize_with_flavor(&snapshot, flow);
        written.map_err(|error| failed.unwrap_or_else(|| io::Error::other(error)))
    }

    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        state.read_to_end(&mut bytes)?;
        let of = std::any::type_name::<S>();
        let wrong = |why: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{} bytes are no {of}: {why}", bytes.len()))
        };
        let (value, rest) = postcard::take_from_bytes(&bytes).map_err(|error| wrong(error.to_string()))?;
        if !<[u8]>::is_empty(rest) {
            return Err(wrong(format!("{} bytes stand behind it", rest.len())));
        }
        *self = value;
        Ok(())
    }
}

/// Writes what is encoded, and keeps the error of whom it writes to.
struct Flow<'a, W: Write> {
    out: BufWriter<W>,
    failed: &'a mut Option<io::Error>,
}

impl<W: Write> Flow<'_, W> {
    fn note(&mut self, done: io::Result<()>) -> postcard::Result<()> {
        done.map_err(|error| {
            *self.failed = Some(error);
            postcard::Error::SerializeBufferFull
        })
    }
}

impl<W: Write> Flavor for Flow<'_, W> {
    type Output = ();

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.try_extend(&[byte])
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        let written = self.out.write_all(bytes);
        self.note(written)
    }

    fn finalize(mut self) -> postcard::Result<()> {
        let flushed = self.out.flush();
        self.note(flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Words(BTreeMap<String, Arc<str>>);

    impl State for Words {
        fn apply(&mut self, at: Position, command: &[u8]) -> Vec<u8> {
            let word = String::from_utf8_lossy(command).into_owned();
            self.0.insert(word, at.0.to_string().into());
            Vec::new()
        }
    }

    fn words() -> Words {
        let mut words = Words::default();
        (1..=500).for_each(|n| drop(StateMachine::apply(&mut words, Position(n), format!("word {n}").as_bytes())));
        words
    }

    fn written(words: &Words) -> Vec<u8> {
        let mut bytes = Vec::new();
        Words::write(words.snapshot(), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_state_is_restored_from_its_snapshot() {
        let (words, mut other) = (words(), Words::default());
        other.restore(&mut &written(&words)[..]).unwrap();
        assert_eq!(other, words);
    }

    #[test]
    fn what_is_no_state_is_refused_and_changes_nothing() {
        let (words, mut other) = (words(), Words::default());
        let bytes = written(&words);
        for len in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let error = other.restore(&mut &bytes[..len]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().starts_with(&format!("{len} bytes are no ")), "{error}");
        }
        let longer = [&bytes[..], b"!"].concat();
        let error = other.restore(&mut &longer[..]).unwrap_err().to_string();
        assert!(error.ends_with("1 bytes stand behind it"), "{error}");
        assert_eq!(other, Words::default());
    }

    #[test]
    fn a_reader_that_is_gone_is_told_of_as_what_it_is() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let error = Words::write(words(), &mut writer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{error}");
    }
}
