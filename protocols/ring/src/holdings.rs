//! Who holds what of an old ring, collected by the commit token as it goes round.
use bytes::{BufMut, BytesMut};
use consort_types::Seq;
use consort_wire::{Malformed, Reader, Writer};

/// One state for each sequence number of a range. Everything below the range is held by all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldingsMap {
    /// The sequence number before the first of the range.
    base: Seq,
    states: Vec<u8>,
}

/// Nobody who told so far holds it.
const NOBODY: u8 = 0;
/// All who told so far hold it.
const ALL: u8 = 0xff;

/// What is known of one sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Nobody holds it: a hole.
    Nobody,
    /// This member holds it, another lacks it: the index of the first holder in the commit token.
    Some(u8),
    /// All hold it.
    All,
}

/// The most sequence numbers a map may cover.
pub const SEQS_MAX: usize = 1 << 17;
/// The bytes of a run: state and length.
const RUN_LEN: usize = 3;

impl HoldingsMap {
    /// A member tells: it holds everything up to `aru` and beyond that what `holds` says, up to `highest`. `index` is its
    /// own in the commit token, `first` that of the first member that told before it, if any did.
    ///
    /// Answers false, and does nothing, where the map would outgrow [`SEQS_MAX`]: such a map is not ours.
    pub fn tell(&mut self, index: u8, first: Option<u8>, aru: Seq, highest: Seq, holds: impl Fn(Seq) -> bool) -> bool {
        //= M41
        let lowest = if first.is_some() { aru.min(self.base) } else { aru };
        if lowest.behind(highest.max(self.highest())) > SEQS_MAX as u64 {
            return false;
        }
        let Some(first) = first else {
            self.base = aru;
            self.states = (aru.0 + 1..=highest.0).map(|seq| if holds(Seq(seq)) { ALL } else { NOBODY }).collect();
            return true;
        };
        if aru < self.base {
            // Below the range everybody who told before holds everything.
            let more = (self.base.0 - aru.0) as usize;
            self.states.splice(0..0, std::iter::repeat_n(ALL, more));
            self.base = aru;
        }
        let len = highest.0.saturating_sub(self.base.0) as usize;
        if len > self.states.len() {
            self.states.resize(len, NOBODY);
        }
        for (seq, state) in (self.base.0 + 1..).map(Seq).zip(&mut self.states) {
            *state = match (*state, seq <= aru || holds(seq)) {
                (NOBODY, true) => index + 1,
                (ALL, false) => first + 1,
                (known, _) => known,
            };
        }
        true
    }

    /// What is known of a sequence number.
    pub fn at(&self, seq: Seq) -> SlotState {
        let Some(index) = seq.0.checked_sub(self.base.0 + 1) else { return SlotState::All };
        match self.states.get(index as usize) {
            None | Some(&NOBODY) => SlotState::Nobody,
            Some(&ALL) => SlotState::All,
            Some(holder) => SlotState::Some(holder - 1),
        }
    }

    /// The sequence numbers that someone lacks and someone holds, each with its first holder.
    pub fn needed(&self) -> impl Iterator<Item = (Seq, u8)> {
        let some = |state: &u8| (*state != NOBODY && *state != ALL).then(|| *state - 1);
        (self.base.0 + 1..).map(Seq).zip(&self.states).filter_map(move |(seq, state)| Some((seq, some(state)?)))
    }

    /// How many sequence numbers of the range nobody holds.
    pub fn holes(&self) -> usize {
        self.states.iter().filter(|state| **state == NOBODY).count()
    }

    /// Every holder named.
    pub fn holders(&self) -> impl Iterator<Item = u8> {
        self.needed().map(|(_, holder)| holder)
    }

    /// The last sequence number of the range.
    pub fn highest(&self) -> Seq {
        self.base.plus(self.states.len() as u64)
    }

    /// Everything up to here is held by all.
    pub const fn base(&self) -> Seq {
        self.base
    }

    pub(crate) fn encode(&self, head: &mut BytesMut) {
        head.put_u64(self.base.0);
        let runs: Vec<_> =
            self.states.chunk_by(|a, b| a == b).flat_map(|run| run.chunks(usize::from(u16::MAX))).collect();
        head.put_count(runs.len());
        for run in runs {
            head.put_u8(run[0]);
            head.put_u16(run.len() as u16);
        }
    }

    /// How many sequence numbers the range has.
    pub const fn seqs(&self) -> usize {
        self.states.len()
    }

    /// Reads a map of at most `most` sequence numbers, and never more than [`SEQS_MAX`].
    pub(crate) fn decode(reader: &mut Reader<'_>, most: usize) -> Result<Self, Malformed> {
        let base = Seq(reader.u64("base")?);
        if base.0 >= crate::SEQ_END {
            return Err(reader.bad("base"));
        }
        let n = reader.count(RUN_LEN, "held")?;
        let (mut states, mut last) = (Vec::new(), None);
        for _ in 0..n {
            let (state, len) = (reader.u8("held")?, usize::from(reader.u16("held")?));
            let continues = last.replace((state, len)).is_some_and(|(s, l)| s == state && l < usize::from(u16::MAX));
            if len == 0 || continues || states.len() + len > most.min(SEQS_MAX) {
                return Err(reader.bad("held"));
            }
            states.resize(states.len() + len, state);
        }
        Ok(Self { base, states })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(map: &mut HoldingsMap, index: u8, first: Option<u8>, held: &[u64], aru: u64) {
        let highest = held.iter().copied().max().unwrap_or(aru).max(aru);
        assert!(map.tell(index, first, Seq(aru), Seq(highest), |seq| held.contains(&seq.0)));
    }

    #[test]
    fn one_first_holder_for_each_place_that_somebody_lacks() {
        //= M41 test
        let mut map = HoldingsMap::default();
        tell(&mut map, 0, None, &[11, 12, 14], 10);
        tell(&mut map, 2, Some(0), &[11, 13, 16], 9);
        tell(&mut map, 3, Some(0), &[12], 11);
        let states: Vec<_> = (9..=17).map(|seq| map.at(Seq(seq))).collect();
        let (all, nobody, by) = (SlotState::All, SlotState::Nobody, SlotState::Some);
        assert_eq!(states, [all, by(0), all, by(0), by(2), by(0), nobody, by(2), nobody]);
        assert_eq!(map.needed().map(|(seq, _)| seq.0).collect::<Vec<_>>(), [10, 12, 13, 14, 16]);
        assert_eq!(map.highest(), Seq(16));
    }

    #[test]
    fn a_map_reads_back() {
        let mut map = HoldingsMap::default();
        tell(&mut map, 0, None, &(20..90_000).filter(|n| n % 1_000 != 0).collect::<Vec<_>>(), 10);
        let mut head = BytesMut::new();
        map.encode(&mut head);
        assert!(head.len() < 1_000);
        assert_eq!(HoldingsMap::decode(&mut Reader::new(&head), SEQS_MAX), Ok(map));
    }
}
