//! What members that go on together tell and give each other before the next view: the messages that some of them lack, and up to
//! where each of them knows that everything has come.
use super::{JoinedRings, Room, Stage};
use crate::carrier::Message;
use crate::horizon::{Horizon, least};
use crate::key::RingNumber;
use crate::packet::{PIECE_AROUND, Piece, RelayedContent};
use consort_member::vs::AgreedSet;
use consort_types::{Instant, MemberId};
use consort_wire::Payload;
use std::collections::BTreeMap;

/// The state's data.
#[derive(Clone, Debug)]
pub(super) struct Closing {
    cut: AgreedSet,
    /// What each of those that go on together knows of each ring.
    known: BTreeMap<MemberId, Vec<(RingNumber, Horizon)>>,
    /// The beginnings of the messages that come, by their senders.
    partial: BTreeMap<usize, Payload>,
    /// Parts that came before what stands before them, by member, number and offset.
    early: BTreeMap<(usize, u64, u32), Piece>,
    /// When to ask again.
    ask_at: Instant,
    complete: bool,
}

/// So many pieces answer one request at most.
const BURST: usize = 128;
/// So many pieces may wait for what stands before them.
const EARLY: usize = 4096;
/// So many bytes answer one request, one piece always.
const BURST_BYTES: usize = 96 << 10;

impl JoinedRings {
    /// The agreed set is known: what is lacking is asked for.
    pub(super) fn begin_closing(&mut self, now: Instant, cut: AgreedSet) {
        //= TM41
        let Some(room) = &self.room else { return };
        let known = [(self.vs.me(), room.horizons.all())].into();
        let (partial, early, ask_at) = (BTreeMap::new(), BTreeMap::new(), now);
        self.stage = Stage::Closing(Box::new(Closing { cut, known, partial, early, ask_at, complete: false }));
        self.on_closing_timeout(now);
    }

    /// When to ask again for what is lacking.
    pub(super) fn closing_at(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Closing(closing) if !closing.complete => Some(closing.ask_at),
            _ => None,
        }
    }

    pub(super) fn on_closing_timeout(&mut self, now: Instant) {
        //= TM41
        let again = now + self.config.membership.repeat;
        let (Some(room), Stage::Closing(closing)) = (&self.room, &mut self.stage) else { return };
        if closing.complete || closing.ask_at > now {
            return;
        }
        closing.ask_at = again;
        let view = room.view.id;
        let asks = closing.cut.together.iter().any(|member| !closing.known.contains_key(member));
        let horizons = room.horizons.all();
        if closing.cut.together.len() > 1 {
            self.say(None, RelayedContent::Known { view, asks, horizons });
        }
        self.want();
    }

    /// Asks for the next messages of the first member of whom some are lacking: of one at a time, so that what all who lack
    /// something ask for together does not fill their sockets.
    fn want(&mut self) {
        let (Some(room), Stage::Closing(closing)) = (&self.room, &self.stage) else { return };
        let mut each = room.store.held().iter().zip(&closing.cut.held).enumerate();
        let Some((member, (held, _))) = each.find(|(_, (held, agreed))| held < agreed) else { return };
        let (Some(holder), Ok(index)) = (closing.cut.holders.get(member), u16::try_from(member)) else { return };
        let offset = closing.partial.get(&member).map_or(0, |payload| payload.len() as u32);
        let (view, number, holder) = (room.view.id, held + 1, holder.node);
        self.say(Some(holder), RelayedContent::Wants { view, member: index, number, offset });
    }

    /// A member tells what it knows of each ring.
    pub(super) fn on_known(&mut self, from: MemberId, asks: bool, horizons: Vec<(RingNumber, Horizon)>) {
        //= TM41
        let frozen = matches!(self.stage, Stage::Frozen | Stage::Closing(_));
        if let Stage::Closing(closing) = &mut self.stage
            && closing.cut.together.contains(&from)
        {
            closing.known.insert(from, horizons);
        }
        if let Some(room) = self.room.as_ref().filter(|_| asks && frozen) {
            let (view, horizons) = (room.view.id, room.horizons.all());
            self.say(Some(from.node), RelayedContent::Known { view, asks: false, horizons });
        }
    }

    /// A member lacks messages that this one may hold. What it holds does not change any more.
    pub(super) fn on_wants(&mut self, from: MemberId, member: usize, mut number: u64, offset: u32) {
        //= TM41
        let silent = crate::mutated!(self.config, FetchUnanswered);
        if !matches!(self.stage, Stage::Frozen | Stage::Closing(_)) || silent {
            return;
        }
        let room_left = self.config.ring.datagram.packet_room() - PIECE_AROUND;
        let (mut pieces, mut bytes, mut offset) = (Vec::new(), 0, offset as usize);
        while pieces.len() < BURST
            && bytes < BURST_BYTES
            && let Some(piece) = self.piece(member, number, offset, room_left)
        {
            offset += piece.bytes.len();
            bytes += piece.bytes.len();
            if offset >= piece.len as usize {
                (number, offset) = (number + 1, 0);
            }
            pieces.push(piece);
        }
        if let Some(last) = pieces.last_mut() {
            last.last = true;
        }
        self.counters.pieces_sent += pieces.len() as u64;
        for piece in pieces {
            self.say(Some(from.node), RelayedContent::Piece(piece));
        }
    }

    fn piece(&self, member: usize, number: u64, offset: usize, room_left: usize) -> Option<Piece> {
        let room = self.room.as_ref()?;
        let (key, message) = room.store.message(member, number)?;
        let mut bytes = bytes::BytesMut::new();
        message.payload.for_each(offset, room_left, |part| bytes.extend_from_slice(part));
        Some(Piece {
            view: room.view.id,
            member: u16::try_from(member).ok()?,
            number,
            key,
            level: message.level(),
            len: u32::try_from(message.payload.len()).ok()?,
            offset: u32::try_from(offset).ok()?,
            last: false,
            bytes: bytes.freeze(),
        })
    }

    /// A part came of a message that was asked for; a network may bring them out of order.
    pub(super) fn on_piece(&mut self, now: Instant, piece: Piece) {
        //= TM41
        let again = now + self.config.membership.repeat;
        let (Some(room), Stage::Closing(closing)) = (&self.room, &mut self.stage) else { return };
        let member = usize::from(piece.member);
        let lacks = room.store.held().get(member).is_some_and(|held| piece.number > *held);
        let agreed = closing.cut.held.get(member).is_some_and(|agreed| piece.number <= *agreed);
        if lacks && agreed && closing.early.len() < EARLY {
            closing.early.insert((member, piece.number, piece.offset), piece);
        }
        let mut answered = false;
        while let Some(last) = self.take_piece(member) {
            answered |= last;
            if let Stage::Closing(closing) = &mut self.stage {
                closing.ask_at = again;
            }
        }
        if answered {
            self.want();
        }
    }

    /// Takes the next part of a member's messages, if it is there: whether an answer ends with it.
    fn take_piece(&mut self, member: usize) -> Option<bool> {
        let (Some(room), Stage::Closing(closing)) = (&mut self.room, &mut self.stage) else { return None };
        let number = room.store.held().get(member)? + 1;
        let offset = closing.partial.get(&member).map_or(0, |payload| payload.len() as u32);
        let piece = closing.early.remove(&(member, number, offset))?;
        let mut payload = closing.partial.remove(&member).unwrap_or_default();
        payload.push(piece.bytes);
        if payload.len() < piece.len as usize {
            closing.partial.insert(member, payload);
        } else if let Some(message) = Message::of_level(piece.level, payload) {
            room.store.take(member, number, piece.key, message);
        }
        Some(piece.last)
    }

    /// Says so once all that is agreed is held, and known what the others know. Whether it did.
    pub(super) fn complete(&mut self, now: Instant) -> bool {
        //= TM41
        let (Some(room), Stage::Closing(closing)) = (&self.room, &mut self.stage) else { return false };
        let holds = room.store.held().iter().zip(&closing.cut.held).all(|(held, agreed)| held >= agreed);
        let knows = closing.cut.together.iter().all(|member| closing.known.contains_key(member));
        let alone = crate::mutated!(self.config, EdgesIgnored);
        if closing.complete || !holds || !knows && !alone {
            return false;
        }
        closing.complete = true;
        self.vs.complete(now);
        true
    }

    /// The regular part of what closes a view: up to where any of those that go on together knows that everything has come, for
    /// all of them hold it. It ends before a safe message that not all members of the view are known to hold.
    pub(super) fn close(&mut self, room: &mut Room, stage: Stage, cut: &AgreedSet) {
        //= TM42
        let Stage::Closing(mut closing) = stage else { return };
        let complete = closing.complete && closing.cut.together == cut.together;
        self.check(complete || cfg!(feature = "mutants"), "TM41: the agreed set is held before the view is closed");
        if crate::mutated!(self.config, EdgesIgnored) {
            let me = self.vs.me();
            closing.known.retain(|member, _| *member == me);
        }
        let best = room.horizons.rings().iter().map(|ring| best_of(*ring, &closing.known)).collect::<Vec<_>>();
        self.hand_out_to(room, least(best));
    }
}

/// The most that any of them knows of a ring.
fn best_of(ring: RingNumber, known: &BTreeMap<MemberId, Vec<(RingNumber, Horizon)>>) -> Horizon {
    let all = known.values().flatten().filter(|(other, _)| *other == ring);
    all.fold(Horizon::default(), |best, (_, horizon)| Horizon {
        reached: best.reached.max(horizon.reached),
        held: best.held.max(horizon.held),
    })
}
