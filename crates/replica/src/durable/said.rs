//! What durable copies say to each other, in the order of their group.
use super::log::{Extent, Item, Run};
use crate::codec::{read_count, read_u128};
use bytes::{BufMut, Bytes, BytesMut};
use consort_wire::{Malformed, Reader};

/// A text is not longer.
const TEXT_MAX: usize = 256;
/// What a part has besides its entries' bytes, and each entry besides its own.
pub const PART: usize = 32;
pub const PART_ITEM: usize = 12;

/// Names a gathering of copies: a membership of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeetingId {
    pub view: u64,
    pub change: u64,
}

/// One copy's word to all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// What it has on its disk.
    Hello(Hello),
    /// It has the term on its disk.
    Promised { meeting: MeetingId, term: u64, copy: u16 },
    /// It has the log of the term on its disk, up to this index.
    Synced { term: u64, copy: u16, index: u64 },
    /// It lacks entries from there on.
    Ask { term: u64, copy: u16, from: u64 },
    /// Some of them. None where the log begins with `from`, because what was before is in checkpoints.
    Part { term: u64, to: u16, from: u64, items: Vec<Item> },
}

/// What a copy has on its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub meeting: MeetingId,
    pub copy: u16,
    pub copies: u16,
    /// Names this start of the copy.
    pub token: u128,
    pub history: u64,
    pub promised: u64,
    pub term: u64,
    pub remembers: bool,
    /// Its directory was lost, copied or put back since it remembered last.
    pub lost: bool,
    /// An operator says that the store goes on without what is missing.
    pub forces: bool,
    pub extent: Extent,
    /// Where others fetch its checkpoints, and what it is called.
    pub address: String,
    pub label: String,
}

const HELLO: u8 = 1;
const PROMISED: u8 = 2;
const SYNCED: u8 = 3;
const ASK: u8 = 4;
const PART_KIND: u8 = 5;

impl Said {
    /// Appends it.
    pub fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Hello(hello) => hello.put(out),
            Self::Promised { meeting, term, copy } => {
                out.put_u8(PROMISED);
                put_meeting(out, *meeting);
                out.put_u64(*term);
                out.put_u16(*copy);
            }
            Self::Synced { term, copy, index } => put_index(out, SYNCED, *term, *copy, *index),
            Self::Ask { term, copy, from } => put_index(out, ASK, *term, *copy, *from),
            Self::Part { term, to, from, items } => {
                put_index(out, PART_KIND, *term, *to, *from);
                out.put_u32(items.len() as u32);
                for (term, bytes) in items {
                    out.put_u64(*term);
                    out.put_u32(bytes.len() as u32);
                    out.extend_from_slice(bytes);
                }
            }
        }
    }

    /// Reads what `reader` has of `bytes`.
    pub fn read(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Self, Malformed> {
        Ok(match reader.u8("kind of word")? {
            HELLO => Self::Hello(Hello::read(reader)?),
            PROMISED => {
                Self::Promised { meeting: read_meeting(reader)?, term: reader.u64("term")?, copy: reader.u16("copy")? }
            }
            SYNCED => {
                let (term, copy, index) = read_index(reader)?;
                Self::Synced { term, copy, index }
            }
            ASK => {
                let (term, copy, from) = read_index(reader)?;
                Self::Ask { term, copy, from }
            }
            PART_KIND => {
                let (term, to, from) = read_index(reader)?;
                let count = read_count(reader, PART_ITEM, "entries")?;
                let items = (0..count).map(|_| read_item(reader, bytes)).collect::<Result<_, _>>()?;
                Self::Part { term, to, from, items }
            }
            _ => return Err(reader.bad("kind of word")),
        })
    }
}

impl Hello {
    /// Whether it can say what it had on disk: it remembers, or it promised a term and never had a whole log.
    pub const fn knows(&self) -> bool {
        //= RS21
        self.remembers || self.promised > 0 && !self.lost && self.history == 0
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_u8(HELLO);
        put_meeting(out, self.meeting);
        out.put_u16(self.copy);
        out.put_u16(self.copies);
        out.put_u128(self.token);
        [self.history, self.promised, self.term].into_iter().for_each(|word| out.put_u64(word));
        out.put_u8(u8::from(self.remembers) | u8::from(self.forces) << 1 | u8::from(self.lost) << 2);
        let Extent { base, end, committed, runs } = &self.extent;
        [base, end, committed].into_iter().for_each(|word| out.put_u64(*word));
        out.put_u32(runs.len() as u32);
        for run in runs {
            out.put_u64(run.term);
            out.put_u64(run.last);
        }
        for text in [&self.address, &self.label] {
            let text = &text.as_bytes()[..text.len().min(TEXT_MAX)];
            out.put_u16(text.len() as u16);
            out.put_slice(text);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (meeting, copy, copies) = (read_meeting(reader)?, reader.u16("copy")?, reader.u16("copies")?);
        let token = read_u128(reader, "token")?;
        let (history, promised, term) = (reader.u64("history")?, reader.u64("promised")?, reader.u64("term")?);
        let flags = reader.u8("flags")?;
        let (base, end, committed) = (reader.u64("base")?, reader.u64("end")?, reader.u64("committed")?);
        let before = reader.clone();
        let count = read_count(reader, 16, "runs")?;
        let run = |reader: &mut Reader<'_>| Ok(Run { term: reader.u64("term")?, last: reader.u64("last")? });
        let runs: Vec<Run> = (0..count).map(|_| run(reader)).collect::<Result<_, _>>()?;
        let ascends = runs.windows(2).all(|two| two[0].term < two[1].term && two[0].last < two[1].last);
        let is_within = runs.last().is_none_or(|run| run.last == end) && base <= end && committed <= end;
        if flags > 7 || !ascends || !is_within || copy == 0 || copy > copies {
            return Err(before.bad("what a copy has"));
        }
        let (address, label) = (read_text(reader, "address")?, read_text(reader, "label")?);
        let (remembers, forces, lost) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        let extent = Extent { base, end, committed, runs };
        Ok(Self {
            meeting,
            copy,
            copies,
            token,
            history,
            promised,
            term,
            remembers,
            lost,
            forces,
            extent,
            address,
            label,
        })
    }
}

fn put_meeting(out: &mut BytesMut, meeting: MeetingId) {
    out.put_u64(meeting.view);
    out.put_u64(meeting.change);
}

fn read_meeting(reader: &mut Reader<'_>) -> Result<MeetingId, Malformed> {
    Ok(MeetingId { view: reader.u64("view")?, change: reader.u64("change")? })
}

fn put_index(out: &mut BytesMut, kind: u8, term: u64, copy: u16, index: u64) {
    out.put_u8(kind);
    out.put_u64(term);
    out.put_u16(copy);
    out.put_u64(index);
}

fn read_index(reader: &mut Reader<'_>) -> Result<(u64, u16, u64), Malformed> {
    Ok((reader.u64("term")?, reader.u16("copy")?, reader.u64("index")?))
}

fn read_item(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Item, Malformed> {
    let (term, len) = (reader.u64("term")?, reader.u32("length")? as usize);
    let from = reader.at();
    reader.take(len, "entry")?;
    Ok((term, bytes.slice(from..from + len)))
}

fn read_text(reader: &mut Reader<'_>, what: &'static str) -> Result<String, Malformed> {
    let before = reader.clone();
    let len = usize::from(reader.u16(what)?);
    let text = reader.take(len, what)?;
    String::from_utf8(text.to_vec()).map_err(|_| before.bad(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    fn all() -> Vec<Said> {
        let meeting = MeetingId { view: 4, change: 1 };
        let runs = vec![Run { term: 2, last: 5 }, Run { term: 3, last: 9 }];
        let hello = Hello {
            meeting,
            copy: 2,
            copies: 3,
            token: 1 << 99,
            history: 7,
            promised: 6,
            term: 5,
            remembers: true,
            lost: false,
            forces: false,
            extent: Extent { base: 1, end: 9, committed: 4, runs },
            address: "127.0.0.1:9".into(),
            label: "b".into(),
        };
        vec![
            Said::Hello(hello),
            Said::Promised { meeting, term: 8, copy: 1 },
            Said::Synced { term: 8, copy: 3, index: 10 },
            Said::Ask { term: 8, copy: 3, from: 4 },
            Said::Part { term: 8, to: 3, from: 4, items: vec![(1, Bytes::from_static(b"set")), (2, Bytes::new())] },
        ]
    }

    fn encoded(said: &Said) -> Bytes {
        let mut out = BytesMut::new();
        said.put(&mut out);
        out.freeze()
    }

    fn read(bytes: &Bytes) -> Result<Said, Malformed> {
        let mut reader = Reader::new(bytes);
        let said = Said::read(&mut reader, bytes)?;
        reader.end("end of word")?;
        Ok(said)
    }

    #[test]
    fn words_read_back_and_cut_or_changed_ones_are_words_or_malformed() {
        let mut rng = Rng::new(3);
        for said in all() {
            let bytes = encoded(&said);
            assert_eq!(read(&bytes).unwrap(), said);
            (0..bytes.len()).for_each(|len| assert!(read(&bytes.slice(..len)).is_err(), "{said:?} to {len}"));
            for _ in 0..2_000 {
                let mut changed = bytes.to_vec();
                let at = rng.below(changed.len() as u64) as usize;
                changed[at] = rng.next_u64() as u8;
                let _ = read(&changed.into());
            }
        }
    }

    #[test]
    fn what_no_copy_can_have_is_malformed() {
        let [Said::Hello(hello), ..] = &all()[..] else { panic!() };
        let wrongs: [fn(&mut Hello); 5] = [
            |hello| hello.copy = 0,
            |hello| hello.copy = 4,
            |hello| hello.extent.committed = 10,
            |hello| hello.extent.end = 10,
            |hello| hello.extent.runs.reverse(),
        ];
        for wrong in wrongs {
            let mut hello = hello.clone();
            wrong(&mut hello);
            read(&encoded(&Said::Hello(hello))).unwrap_err();
        }
    }
}
