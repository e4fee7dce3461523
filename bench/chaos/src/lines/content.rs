//! The lines that are sent, and the proof that a node received each of them once, in an order that keeps each sender's.
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use consort_types::Rng;
use sha2::{Digest, Sha256};

/// The longest line is a little longer than this.
const PADDING_MAX: u64 = 96;

/// The lines that one node sends, in order. The same node and seed give the same lines.
#[derive(Clone, Debug)]
pub struct Lines {
    node: usize,
    number: u64,
    count: u64,
    rng: Rng,
    line: String,
}

impl Lines {
    /// `count` lines for a node, counted from 0.
    pub fn new(node: usize, count: u64, seed: u64) -> Self {
        Self { node, number: 0, count, rng: Rng::new(seed).fork(node as u64), line: String::new() }
    }

    /// The next line, without its end: node, number, and text of any length that is different each time.
    pub fn next(&mut self) -> Option<&str> {
        if self.number == self.count {
            return None;
        }
        self.number += 1;
        self.line.clear();
        let padding = self.rng.below(PADDING_MAX) as usize;
        self.line.push_str(&format!("{} {} ", self.node + 1, self.number));
        while self.line.len() < padding {
            self.line.push_str(&format!("{:016x}", self.rng.next_u64()));
        }
        Some(&self.line)
    }

    /// Writes all of them to a file.
    ///
    /// # Errors
    /// The system's.
    pub fn write(mut self, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        while let Some(line) = self.next() {
            writeln!(file, "{line}")?;
        }
        file.flush()
    }
}

/// How many of `total` lines a node sends.
pub fn share(total: u64, nodes: usize, node: usize) -> u64 {
    total / nodes as u64 + u64::from((node as u64) < total % nodes as u64)
}

/// What a node received that it should not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// Not a line of ours at all.
    #[error("line {at} is of no sender: `{found}`")]
    Foreign {
        /// Where in the order, counted from 1.
        at: u64,
        /// It.
        found: String,
    },
    /// Another line of that sender should have come.
    #[error("line {at}: expected `{expected}`, received `{found}`")]
    Unexpected {
        /// Where in the order.
        at: u64,
        /// The sender's next line.
        expected: String,
        /// What came.
        found: String,
    },
    /// All of that sender's lines had come already.
    #[error("line {at}: all lines of this sender had come before, received `{found}`")]
    Surplus {
        /// Where in the order.
        at: u64,
        /// What came.
        found: String,
    },
}

/// Holds the lines that a node received against those that were sent.
///
/// As senders' orders are kept, it is enough to know each sender's next line: whatever was lost, duplicated, overtaken or
/// altered differs from it.
pub struct Checker {
    senders: Vec<Lines>,
    digest: Sha256,
    rest: Vec<u8>,
    received: u64,
}

impl Checker {
    /// For a run with these senders.
    pub fn new(senders: Vec<Lines>) -> Self {
        Self { senders, digest: Sha256::new(), rest: Vec::new(), received: 0 }
    }

    /// Takes the next bytes that were received, cut anywhere.
    ///
    /// # Errors
    /// The first line that is [`Wrong`].
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        self.digest.update(bytes);
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in rest[..whole].split_inclusive(|byte| *byte == b'\n') {
            self.line(&line[..line.len() - 1])?;
        }
        self.rest = rest[whole..].to_vec();
        Ok(())
    }

    /// How many whole lines were received.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// The SHA-256 of all bytes so far, in hexadecimal.
    pub fn digest(&self) -> String {
        self.digest.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Wrong> {
        self.received += 1;
        let at = self.received;
        let found = || String::from_utf8_lossy(line).into_owned();
        let sender = line.split(|byte| *byte == b' ').next().and_then(|number| std::str::from_utf8(number).ok());
        let sender = sender.and_then(|number| number.parse::<usize>().ok()?.checked_sub(1));
        let Some(sender) = sender.and_then(|node| self.senders.get_mut(node)) else {
            return Err(Wrong::Foreign { at, found: found() });
        };
        match sender.next() {
            None => Err(Wrong::Surplus { at, found: found() }),
            Some(expected) if expected.as_bytes() == line => Ok(()),
            Some(expected) => Err(Wrong::Unexpected { at, expected: expected.into(), found: found() }),
        }
    }
}

/// Reads a file as another process writes it, and checks it.
pub struct Follower {
    file: File,
    checker: Checker,
    buffer: Box<[u8]>,
}

impl Follower {
    /// Follows this file from its start.
    pub fn new(file: File, checker: Checker) -> Self {
        Self { file, checker, buffer: vec![0; 1 << 18].into() }
    }

    /// Reads and checks what has been written since.
    ///
    /// # Errors
    /// The system's, or within it the first line that is [`Wrong`].
    pub fn follow(&mut self) -> io::Result<()> {
        loop {
            match self.file.read(&mut self.buffer)? {
                0 => return Ok(()),
                len => self.checker.take(&self.buffer[..len]).map_err(io::Error::other)?,
            }
        }
    }

    /// What it holds against what was sent.
    pub const fn checker(&self) -> &Checker {
        &self.checker
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn senders() -> Vec<Lines> {
        (0..2).map(|node| Lines::new(node, 3, 9)).collect()
    }

    fn all(node: usize) -> Vec<String> {
        let mut lines = senders().remove(node);
        std::iter::from_fn(|| lines.next().map(str::to_owned)).collect()
    }

    fn check(lines: &[&String]) -> (Result<(), Wrong>, u64) {
        let mut checker = Checker::new(senders());
        let bytes: Vec<u8> = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        let verdict = bytes.chunks(7).try_for_each(|chunk| checker.take(chunk));
        (verdict, checker.received())
    }

    #[test]
    fn shares_add_up() {
        for (total, nodes) in [(1_000_000, 3), (2, 5), (7, 7), (1, 1)] {
            assert_eq!((0..nodes).map(|node| share(total, nodes, node)).sum::<u64>(), total);
        }
    }

    #[test]
    fn any_mixture_that_keeps_senders_orders_is_right() {
        let (a, b) = (all(0), all(1));
        assert!(a[1].starts_with("1 2 ") && b[2].starts_with("2 3 "));
        assert_eq!(check(&[&a[0], &b[0], &b[1], &a[1], &b[2], &a[2]]), (Ok(()), 6));
        assert_eq!(check(&[&b[0], &b[1], &b[2], &a[0]]), (Ok(()), 4));
    }

    #[test]
    fn what_is_lost_doubled_overtaken_altered_or_foreign_is_found_at_its_line() {
        let (a, b) = (all(0), all(1));
        let unexpected = |lines: &[&String]| matches!(check(lines), (Err(Wrong::Unexpected { at: 2, .. }), 2));
        assert!(unexpected(&[&a[0], &a[2]]), "lost");
        assert!(unexpected(&[&a[0], &a[0]]), "doubled");
        assert!(unexpected(&[&b[0], &b[2]]), "overtaken");
        assert!(unexpected(&[&b[0], &format!("{}x", b[1])]), "altered");
        let surplus = check(&[&a[0], &a[1], &a[2], &a[2]]);
        assert_eq!(surplus.0, Err(Wrong::Surplus { at: 4, found: a[2].clone() }));
        for foreign in ["", "0 1 ", "3 1 ", "x", "\u{e9}"] {
            let verdict = check(&[&foreign.to_owned()]).0;
            assert_eq!(verdict, Err(Wrong::Foreign { at: 1, found: foreign.into() }));
        }
    }

    #[test]
    fn the_digest_is_of_the_bytes_however_they_are_cut() {
        let mut checker = Checker::new(senders());
        assert_eq!(checker.digest()[..16], *"e3b0c44298fc1c14", "of nothing");
        let line = format!("{}\n", all(0)[0]);
        line.as_bytes().chunks(1).for_each(|byte| checker.take(byte).unwrap());
        let mut whole = Checker::new(senders());
        whole.take(line.as_bytes()).unwrap();
        assert_eq!(checker.digest(), whole.digest());
    }

    #[test]
    fn a_growing_file_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lines");
        Lines::new(0, 3, 9).write(&path).unwrap();
        let mut follower = Follower::new(File::open(&path).unwrap(), Checker::new(senders()));
        follower.follow().unwrap();
        assert_eq!(follower.checker().received(), 3);
        File::options().append(true).open(&path).unwrap().write_all(b"2 9 \n").unwrap();
        let wrong = follower.follow().unwrap_err().to_string();
        assert!(wrong.starts_with("line 4: expected `2 1 "), "{wrong}");
    }
}
