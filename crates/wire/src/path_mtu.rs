//! What drivers say to each other, below the engines: probes of the ways between them, and pieces of datagrams that are
//! too long for one. No engine sees either.
//!
//! Both wear the [`envelope`] with a kind in the lane's place, so that a node which knows neither drops them and counts them
//! by that cause.
//!
//! A probe, kind 16, as long as the size that it tries:
//!
//! | off | size | field |
//! |---|---|---|
//! | 0 | 56 | envelope, nonce 0 |
//! | 56 | 4 | round: all probes of a round have the same, the next round's is higher by one |
//! | 60 | 2 | count of reports |
//! | 62 | 5 each | reports: node 2; the longest datagram that comes from it, 2, 0 while not known; flags 1 |
//! | | | zeros to the end |
//!
//! Flags: 1, the node doubts what it reports and wants to be probed sooner; 2, it wants all sizes; 4, probes arrive by
//! multicast; 8, they arrive, but not by multicast.
//!
//! A piece, kind 17, of a datagram that is longer than what passes:
//!
//! | off | size | field |
//! |---|---|---|
//! | 0 | 32 | as in the envelope |
//! | 32 | 4 | id: all pieces of a datagram have the same, no two datagrams of a sender that are near each other have |
//! | 36 | 2 | length of the datagram |
//! | 38 | 1 | which piece, from 0 |
//! | 39 | 1 | number of pieces, 2 or more |
//! | 40 | 16 | as in the envelope |
//! | 56 | | the datagram's bytes; all pieces but the last have the same length, rounded up |
//!
//! What a node says of the settings that all must share, kind 18: the envelope, nonce 0, then lines `key=value` in UTF-8.
//! It is opened whatever configuration hash the envelope has: it is for those whose hash is another.
//!
//! A datagram that was joined again is opened like any other: its own envelope covers its bytes, not those of its pieces.
use crate::envelope::{self, EnvelopeView, LEN, Proof, Rejected};
use crate::{Identity, Malformed, Reader, Writer};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{ConfigHash, MemberId, NodeId};
use std::ops::Range;

/// Stands where other packets have their lane.
const PROBE: u8 = 16;
const FRAGMENT: u8 = 17;
const SETTINGS: u8 = 18;
/// So many characters of a key, and of a value, are told.
const WORDS: usize = 80;
/// What every IPv4 path carries, in bytes of UDP payload: 576 less the longest headers. No probe is shorter.
pub const ALWAYS: usize = 508;
/// Before the reports of a probe.
const PROBE_LEN: usize = LEN + 6;
const REPORT_LEN: usize = 5;
/// How many reports the shortest probe has room for.
pub const REPORTS_MAX: usize = (ALWAYS - PROBE_LEN) / REPORT_LEN;
const DOUBTS: u8 = 1;
const WANTS_ALL: u8 = 2;
const BY_GROUP: u8 = 4;
const NOT_BY_GROUP: u8 = 8;
/// The most pieces of one datagram.
const PIECES_MAX: usize = 255;

/// One of a driver's packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverPacket {
    /// Tries a size.
    Probe(Probe),
    /// Part of a datagram.
    Fragment(Fragment),
    /// Some of the settings of a node.
    Settings(SettingsNotice),
}

/// Whether a datagram may be a driver's, by one byte of it; an engine's never is.
#[inline]
pub fn is_for_driver(datagram: &[u8]) -> bool {
    datagram.get(3).is_some_and(|kind| *kind >= PROBE)
}

/// Opens a driver's packet.
///
/// # Errors
/// [`Rejected`] says why it is none, or none for this node.
pub fn open(identity: &Identity, datagram: &Bytes) -> Result<(MemberId, DriverPacket), Rejected> {
    open_as(identity, Proof::Checksum, datagram)
}

/// The same of a datagram that has that proof.
///
/// # Errors
/// [`Rejected`] says why it is none, or none for this node.
pub fn open_as(identity: &Identity, proof: Proof, datagram: &Bytes) -> Result<(MemberId, DriverPacket), Rejected> {
    let view = EnvelopeView::new(datagram)?;
    //= W11
    let config = if view.kind() == SETTINGS { view.config() } else { identity.config };
    view.check(&Identity { config, ..*identity }, proof)?;
    let packet = match view.kind() {
        SETTINGS => DriverPacket::Settings(SettingsNotice::decode(config, &datagram[LEN..])?),
        PROBE => DriverPacket::Probe(Probe::decode(&datagram[LEN..])?),
        FRAGMENT => DriverPacket::Fragment(Fragment::decode(view.nonce(), datagram.slice(LEN..))?),
        kind => return Err(Rejected::Lane(kind)),
    };
    Ok((view.from(), packet))
}

/// What a node says of the settings that all must share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsNotice {
    /// The hash of all of them.
    pub config: ConfigHash,
    /// Some of them by name, [`shortened`].
    pub lines: Vec<(String, String)>,
}

/// A key or value as it is told: no longer than 80 characters, and on one line.
pub fn shortened(text: &str) -> String {
    text.chars().take(WORDS).map(|c| if c.is_control() || c == '=' { ' ' } else { c }).collect()
}

/// The datagram that tells as many of these settings as fit into one that passes everywhere, and how many they are.
pub fn seal_settings(identity: &Identity, lines: &[(String, String)]) -> (Bytes, usize) {
    let mut datagram = BytesMut::with_capacity(ALWAYS);
    envelope::reserve(&mut datagram);
    let mut taken = 0;
    for (key, value) in lines {
        let line = format!("{}={}\n", shortened(key), shortened(value));
        // The longest there is has 642 bytes, and passes alone at least where 1,500 do.
        if taken > 0 && datagram.len() + line.len() > ALWAYS {
            break;
        }
        datagram.put_slice(line.as_bytes());
        taken += 1;
    }
    envelope::stamp(identity, SETTINGS, 0, &mut datagram, &[]);
    (datagram.freeze(), taken)
}

impl SettingsNotice {
    //= W11
    fn decode(config: ConfigHash, bytes: &[u8]) -> Result<Self, Malformed> {
        let bad = || Reader::new(bytes).bad("settings");
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        let line = |line: &str| {
            let (key, value) = line.split_once('=')?;
            let fits = |text: &str| shortened(text) == text;
            (fits(key) && fits(value)).then(|| (key.to_owned(), value.to_owned()))
        };
        let lines = text.split_terminator('\n').map(line).collect::<Option<_>>();
        Ok(Self { config, lines: lines.ok_or_else(bad)? })
    }
}

/// Asks whether datagrams of its own length arrive, and answers that question to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Which round of probes it belongs to.
    pub round: u32,
    /// What arrives from others; [`REPORTS_MAX`] at most.
    pub reports: Vec<PathReport>,
}

/// What arrives from one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// Which node.
    pub node: NodeId,
    /// The longest datagram that arrives from it, in bytes; `None` while that is not known.
    pub passes: Option<u16>,
    /// Something else than that has begun to arrive: the node should probe sooner.
    pub doubts: bool,
    /// The node should try all sizes.
    pub wants_all: bool,
    /// Whether what the node multicasts arrives; `None` while that is not known.
    pub by_group: Option<bool>,
}

impl Probe {
    /// The datagram of `size` bytes that tries that size; longer only if the reports need it.
    pub fn seal(&self, identity: &Identity, size: usize) -> Bytes {
        let mut datagram = BytesMut::with_capacity(size.max(PROBE_LEN + self.reports.len() * REPORT_LEN));
        envelope::reserve(&mut datagram);
        datagram.put_u32(self.round);
        datagram.put_count(self.reports.len());
        for report in &self.reports {
            datagram.put_u16(report.node.0);
            datagram.put_u16(report.passes.unwrap_or(0));
            datagram.put_u8(report.flags());
        }
        datagram.put_bytes(0, size.saturating_sub(datagram.len()));
        envelope::stamp(identity, PROBE, 0, &mut datagram, &[]);
        datagram.freeze()
    }

    //= W02
    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let round = reader.u32("round")?;
        let count = reader.count(REPORT_LEN, "reports")?;
        let reports = (0..count).map(|_| PathReport::decode(&mut reader)).collect::<Result<_, _>>()?;
        match reader.rest().iter().any(|byte| *byte != 0) {
            true => Err(reader.bad("padding")),
            false => Ok(Self { round, reports }),
        }
    }
}

impl PathReport {
    fn flags(&self) -> u8 {
        let by_group = match self.by_group {
            None => 0,
            Some(true) => BY_GROUP,
            Some(false) => NOT_BY_GROUP,
        };
        u8::from(self.doubts) * DOUBTS + u8::from(self.wants_all) * WANTS_ALL + by_group
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (node, passes, flags) = (reader.u16("node")?, reader.u16("size")?, reader.u8("flags")?);
        let by_group = match flags & !(DOUBTS | WANTS_ALL) {
            0 => None,
            BY_GROUP => Some(true),
            NOT_BY_GROUP => Some(false),
            _ => return Err(reader.bad("flags")),
        };
        let (doubts, wants_all) = (flags & DOUBTS != 0, flags & WANTS_ALL != 0);
        Ok(Self { node: NodeId(node), passes: (passes > 0).then_some(passes), doubts, wants_all, by_group })
    }
}

/// How a datagram is cut: into pieces as equal as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    total: u16,
    count: u8,
}

impl Shape {
    /// For a datagram of `total` bytes such that no piece is longer than `limit` with its envelope, if so many pieces are
    /// possible; at most 255 are. `None` for what needs no cutting or is longer than a datagram can be.
    pub fn new(total: usize, limit: usize) -> Option<Self> {
        let room = limit.saturating_sub(LEN).max(total.div_ceil(PIECES_MAX)).max(1);
        let count = u8::try_from(total.div_ceil(room)).ok()?;
        (count > 1).then_some(Self { total: u16::try_from(total).ok()?, count })
    }

    /// The datagram's length in bytes.
    pub const fn total(self) -> usize {
        self.total as usize
    }

    /// How many pieces there are; 2 to 255.
    pub const fn count(self) -> usize {
        self.count as usize
    }

    /// Which bytes of the datagram a piece holds; none for a piece that there is not.
    pub fn range(self, index: u8) -> Range<usize> {
        let step = self.total().div_ceil(self.count().max(1));
        let end = |pieces: usize| (pieces * step).min(self.total());
        end(usize::from(index))..end(usize::from(index) + 1)
    }

    fn indices(self) -> Range<u8> {
        0..self.count
    }

    /// Whether somebody would cut so.
    //= W03
    fn is_right(self) -> bool {
        self.count > 1 && !self.range(self.count - 1).is_empty()
    }
}

/// Part of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Names the datagram among those of its sender.
    pub id: u32,
    /// How it was cut.
    pub shape: Shape,
    /// Which piece this is.
    pub index: u8,
    /// Its bytes; exactly as many as the shape says.
    pub bytes: Bytes,
}

impl Fragment {
    fn decode(nonce: u64, bytes: Bytes) -> Result<Self, Malformed> {
        let [a, b, c, d, e, f, index, count] = nonce.to_be_bytes();
        let shape = Shape { total: u16::from_be_bytes([e, f]), count };
        if !shape.is_right() || index >= count || shape.range(index).len() != bytes.len() {
            return Err(Malformed { what: "piece", at: 0 });
        }
        Ok(Self { id: u32::from_be_bytes([a, b, c, d]), shape, index, bytes })
    }
}

/// Cuts the datagram that consists of `head` and `body`: one datagram for each piece.
pub fn cut<'a>(
    identity: Identity,
    id: u32,
    shape: Shape,
    head: &'a [u8],
    body: &'a [u8],
) -> impl Iterator<Item = Bytes> + 'a {
    shape.indices().map(move |index| {
        let range = shape.range(index);
        let mut piece = BytesMut::with_capacity(LEN + range.len());
        envelope::reserve(&mut piece);
        piece.put_slice(clip(head, &range, 0));
        piece.put_slice(clip(body, &range, head.len()));
        let [a, b, c, d] = id.to_be_bytes();
        let [e, f] = shape.total.to_be_bytes();
        let nonce = u64::from_be_bytes([a, b, c, d, e, f, index, shape.count]);
        envelope::stamp(&identity, FRAGMENT, nonce, &mut piece, &[]);
        piece.freeze()
    })
}

/// What of `part`, which begins at `at`, lies in the range.
fn clip<'a>(part: &'a [u8], range: &Range<usize>, at: usize) -> &'a [u8] {
    let within = |place: usize| place.saturating_sub(at).min(part.len());
    &part[within(range.start)..within(range.end)]
}

#[cfg(test)]
mod tests;
