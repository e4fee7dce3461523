//! Reading by position: where it begins, and where it goes on the next time.
use super::ended;
use crate::args::Args;
use crate::clock;
use crate::failure::{Code, Failure, Outcome, Trying};
use consort::{Bookmark, Client, DeclareStatus, Event, GroupName, Holder, Place, ReadFrom};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A checkpoint is written anew no more often, in nanoseconds, while messages keep coming.
const EACH: u64 = 1_000_000_000;
/// How long it waits in the end until the daemons have ordered how far was read.
const PATIENCE: u64 = 5 * EACH;

/// What the command line says of reading.
#[derive(Debug, Default)]
pub struct ReadingOptions {
    from: Option<ReadFrom>,
    checkpoint: Option<PathBuf>,
    holder: Option<Holder>,
}

impl ReadingOptions {
    /// Takes `--from`, `--checkpoint` or `--holder`; false for any other option.
    pub fn take(&mut self, option: &str, args: &mut Args) -> Outcome<bool> {
        match option {
            "--from" => self.from = Some(place(args)?),
            "--checkpoint" => self.checkpoint = Some(args.path()?),
            "--holder" => self.holder = Some(args.parsed("a name such as ledger or ledger/2")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the options fit together.
    pub fn check(&self) -> Outcome {
        if self.holder.is_some() && self.checkpoint.is_none() {
            return Err(Failure::usage("--holder: nothing says how far was read; add --checkpoint FILE"));
        }
        Ok(())
    }

    /// Whether it reads instead of joining.
    pub const fn reads(&self) -> bool {
        self.from.is_some() || self.checkpoint.is_some()
    }

    /// Begins to read.
    pub fn begin(&self, client: &mut Client, groups: &[GroupName]) -> Outcome {
        let kept = self.checkpoint.as_ref().map(load).transpose()?.flatten();
        let from = kept.map_or_else(|| self.from.clone().unwrap_or_default(), ReadFrom::After);
        client.read(groups, from).map_err(ended)
    }

    /// What keeps the checkpoint.
    pub fn keeper(&self) -> Keeper {
        let (path, holder) = (self.checkpoint.clone(), self.holder.clone());
        Keeper { path, holder, ..Keeper::default() }
    }
}

/// Keeps a file up to date that says how far was read.
#[derive(Debug, Default)]
pub struct Keeper {
    path: Option<PathBuf>,
    holder: Option<Holder>,
    kept: Option<Bookmark>,
    at: u64,
    /// What was declared last, and whether that is in the order.
    declared: Option<Bookmark>,
    is_answered: bool,
    declared_at: u64,
}

impl Keeper {
    /// Whether it is time to write it though messages keep coming.
    pub fn is_due(&self) -> bool {
        self.path.is_some() && clock::now_ns() >= self.at + EACH
    }

    /// Writes how far was read, of which all must have been printed: better twice than never. Then the daemons may know.
    pub fn keep(&mut self, client: &mut Client) -> Outcome {
        self.write(client.bookmark())?;
        self.declare(client)
    }

    /// One at a time, so that it is known which one is in the order. Of two clients that declare the same holder one has no answer.
    fn declare(&mut self, client: &mut Client) -> Outcome {
        let (Some(holder), Some(kept)) = (&self.holder, &self.kept) else { return Ok(()) };
        let (now, waits) = (clock::now_ns(), self.declared.is_some() && !self.is_answered);
        if waits && now < self.declared_at + PATIENCE || self.declared.as_ref() == Some(kept) {
            return Ok(());
        }
        client.declare(holder, kept).map_err(ended)?;
        (self.declared, self.is_answered, self.declared_at) = (Some(kept.clone()), false, now);
        Ok(())
    }

    /// An event came.
    ///
    /// # Errors
    /// The daemons do not take what was declared.
    pub fn look(&mut self, event: &Event) -> Outcome {
        match event {
            Event::Declared(DeclareStatus { refused: Some(refusal), .. }) => {
                self.declared = None;
                Err(Failure::new(format!("--holder: {refusal}")))
            }
            Event::Declared(_) => {
                self.is_answered = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The same as [`Self::keep`] at the end: waits for a while until what is written is in the order, because the daemon
    /// proposes it no longer once the client is gone.
    pub fn finish(&mut self, client: &mut Client) -> Outcome {
        self.keep(client)?;
        let deadline = clock::now_ns() + PATIENCE;
        while self.declared.is_some() && !(self.is_answered && self.declared == self.kept) {
            let left = Duration::from_nanos(deadline.saturating_sub(clock::now_ns()));
            if left.is_zero() {
                let text = format!(
                    "--holder: the daemons have not ordered within {} s how far was read, so they may not retain what comes \
                     next; run this again once `consort status` shows that they order messages",
                    PATIENCE / EACH
                );
                return Err(Failure::new(text).with(Code::Timeout));
            }
            if let Some(event) = client.receive(left).map_err(ended)? {
                self.look(&event)?;
                self.declare(client)?;
            }
        }
        Ok(())
    }

    /// Writes a bookmark, if it is news.
    fn write(&mut self, bookmark: Option<Bookmark>) -> Outcome<Option<Bookmark>> {
        self.at = clock::now_ns();
        let (Some(path), Some(bookmark)) = (&self.path, bookmark.filter(|new| self.kept.as_ref() != Some(new))) else {
            return Ok(None);
        };
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let done = fs::write(&new, format!("{bookmark}\n")).and_then(|()| fs::rename(&new, path));
        done.trying(|| format!("--checkpoint: cannot write {}", path.display()))?;
        self.kept = Some(bookmark.clone());
        Ok(Some(bookmark))
    }
}

/// The bookmark in a file, if there is such a file.
fn load(path: &PathBuf) -> Outcome<Option<Bookmark>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).trying(|| format!("--checkpoint: cannot read {}", path.display())),
        Ok(text) => text.trim_end().parse().map(Some).map_err(|_| {
            Failure::usage(format!(
                "--checkpoint: {} holds no checkpoint but {:?}; delete it to read from the start",
                path.display(),
                text.chars().take(40).collect::<String>()
            ))
        }),
    }
}

fn place(args: &mut Args) -> Outcome<ReadFrom> {
    let text = args.text()?;
    if text == "start" {
        return Ok(ReadFrom::Start);
    }
    let place: Result<Place, _> = text.parse();
    place.map(ReadFrom::Place).map_err(|_| args.wrong(&text, "start, or a position such as 1234"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeper(path: PathBuf) -> Keeper {
        ReadingOptions { checkpoint: Some(path), ..ReadingOptions::default() }.keeper()
    }

    #[test]
    fn a_checkpoint_reads_back_and_garbage_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("place");
        assert_eq!(load(&path).unwrap(), None);
        let bookmark = Bookmark::new(7, Place { position: 12, index: 3 });
        let mut keeper = keeper(path.clone());
        keeper.write(None).unwrap();
        assert!(!path.exists());
        keeper.write(Some(bookmark.clone())).unwrap();
        assert_eq!(load(&path).unwrap(), Some(bookmark));
        assert!(!keeper.is_due());
        fs::write(&path, "twelve").unwrap();
        let wrong = load(&path).unwrap_err().message;
        assert!(wrong.ends_with("holds no checkpoint but \"twelve\"; delete it to read from the start"), "{wrong}");
    }

    #[test]
    fn a_checkpoint_that_cannot_be_written_is_an_error() {
        let mut keeper = keeper(PathBuf::from("/nowhere/at/all"));
        let failure = keeper.write(Some(Bookmark::new(1, Place::at(1)))).unwrap_err();
        assert!(failure.message.starts_with("--checkpoint: cannot write /nowhere/at/all: "), "{}", failure.message);
    }
}
