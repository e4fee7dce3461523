//! What members that go on together tell and give each other before the next view: the messages that some of them lack, and up to
//! where each of them knows that everything has come.
use super::{MultiRing, Room, Stage};
use crate::carrier::Message;
use crate::horizon::{Horizon, least};
use crate::key::RingNumber;
use crate::packet::{PIECE_HEADER, PIECES_AROUND, Piece, Relayed, RelayedContent};
use consort_member::vs::AgreedSet;
use consort_types::{Duration, Instant, MemberId};
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
    /// When it was first asked for what has to come next.
    asked_at: Instant,
    /// When to ask again.
    ask_at: Instant,
    /// How long to wait for the next answer.
    patience: Duration,
    complete: bool,
}

impl Closing {
    /// What has to come next of a member's messages: the number, and the offset in that message.
    fn next_part(&self, room: &Room, member: usize) -> Option<(u64, u32)> {
        let offset = self.partial.get(&member).map_or(0, |payload| payload.len() as u32);
        Some((room.store.held().get(member)? + 1, offset))
    }
}

/// A number of a member's messages, and an offset in that message.
pub(super) type Spot = (u64, usize);

/// What a member asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub asker: MemberId,
    /// By which it came, and its answer goes.
    pub ring: RingNumber,
    /// Whose messages, and from where on.
    pub member: usize,
    pub first: Spot,
}

/// What was answered last to somebody who asked for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    request: Request,
    /// It ended before there.
    next: Spot,
    to_all: bool,
    at: Instant,
}

/// So many pieces may wait for what stands before them; in tests fewer, so that more come.
const EARLY: usize = if cfg!(test) { 256 } else { 4096 };
/// So many bytes answer one request, one piece always.
const BURST: usize = 96 << 10;
/// Nobody waits for an answer longer than this part of the time after which the membership takes a member for silent.
const PATIENCE_MOST: u32 = 4;

impl MultiRing {
    /// The agreed set is known: what is lacking is asked for.
    pub(super) fn begin_closing(&mut self, now: Instant, cut: AgreedSet) {
        //= TM41
        let Some(room) = &self.room else { return };
        let known = [(self.vs.me(), room.horizons.all())].into();
        self.stage = Stage::Closing(Box::new(Closing {
            cut,
            known,
            partial: BTreeMap::new(),
            early: BTreeMap::new(),
            asked_at: now,
            ask_at: now,
            patience: self.config.membership.repeat,
            complete: false,
        }));
        self.on_closing_timeout(now);
    }

    /// When to ask again for what is lacking.
    pub(super) fn closing_at(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Closing(closing) if !closing.complete => Some(closing.ask_at),
            _ => None,
        }
    }

    /// Says again what nobody answered, and waits for it twice as long: who is asked may have much to answer.
    pub(super) fn on_closing_timeout(&mut self, now: Instant) {
        //= TM41
        let longest = self.longest_patience();
        let (Some(room), Stage::Closing(closing)) = (&self.room, &mut self.stage) else { return };
        if closing.complete || closing.ask_at > now {
            return;
        }
        closing.ask_at = now + closing.patience;
        closing.patience = (closing.patience * 2).min(longest);
        let view = room.view.id;
        let asks = closing.cut.together.iter().any(|member| !closing.known.contains_key(member));
        let horizons = room.horizons.all();
        if closing.cut.together.len() > 1 {
            self.say(None, RelayedContent::Known { view, asks, horizons });
        }
        self.want();
    }

    fn longest_patience(&self) -> Duration {
        self.config.membership.repeat.max(self.config.membership.silence / PATIENCE_MOST)
    }

    /// Asks for the next messages of the first member of whom some are lacking: of one at a time, so that what all who lack
    /// something ask for together does not fill their sockets.
    fn want(&mut self) {
        let (Some(room), Stage::Closing(closing)) = (&self.room, &self.stage) else { return };
        let mut each = room.store.held().iter().zip(&closing.cut.held).enumerate();
        let Some((member, _)) = each.find(|(_, (held, agreed))| held < agreed) else { return };
        let (Some(holder), Ok(index)) = (closing.cut.holders.get(member), u16::try_from(member)) else { return };
        let Some((number, offset)) = closing.next_part(room, member) else { return };
        let (view, holder) = (room.view.id, holder.node);
        //= TM55
        let strict = closing.cut.hollow;
        self.say(Some(holder), RelayedContent::Wants { view, member: index, number, offset, strict });
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
    pub(super) fn on_wants(&mut self, now: Instant, request: Request) {
        //= TM41
        let silent = crate::mutated!(self.config, FetchUnanswered);
        if !matches!(self.stage, Stage::Frozen | Stage::Closing(_)) || silent {
            return;
        }
        let Some(to_all) = self.answers_all(now, &request) else { return };
        let Some(view) = self.room.as_ref().map(|room| room.view.id) else { return };
        let packet_room = self.config.ring.datagram.packet_room() - PIECES_AROUND;
        let (pieces, next) = self.burst(&request, packet_room - PIECE_HEADER);
        if pieces.is_empty() {
            return;
        }
        //= TM55
        let places = pieces.iter().any(Piece::is_passed) && !crate::mutated!(self.config, PlacesToAll);
        let to_all = to_all && !places;
        self.counters.pieces_sent += pieces.len() as u64;
        let to = (!to_all).then_some(request.asker.node);
        for pieces in packed(pieces, packet_room) {
            let content = RelayedContent::Pieces { view, pieces };
            let relayed = self.relayed(to, content);
            self.relay(request.ring, relayed);
        }
        if let Some(room) = &mut self.room {
            room.answer = Some(Answer { request, next, to_all, at: now });
        }
    }

    /// Whether an answer goes to all, as somebody else asked a short while ago; none if all were just given it.
    fn answers_all(&self, now: Instant, request: &Request) -> Option<bool> {
        //= TM41
        let last = self.room.as_ref().and_then(|room| room.answer).filter(|last| last.request.ring == request.ring);
        let Some(last) = last else { return Some(false) };
        let gave = last.request.member == request.member && (last.request.first..last.next).contains(&request.first);
        if last.to_all && gave && now < last.at + self.config.membership.repeat {
            return None;
        }
        Some(now < last.at + self.longest_patience() && (last.to_all || last.request.asker != request.asker))
    }

    /// As much as one answer has, and what comes behind it.
    fn burst(&self, request: &Request, most: usize) -> (Vec<Piece>, Spot) {
        let (mut pieces, mut bytes, (mut number, mut offset)) = (Vec::new(), 0, request.first);
        while bytes < BURST
            && let Some(piece) = self.piece(request.member, number, offset, most)
        {
            offset += piece.bytes.len();
            bytes += piece.size();
            if offset >= piece.len as usize {
                (number, offset) = (number + 1, 0);
            }
            pieces.push(piece);
        }
        if let Some(last) = pieces.last_mut() {
            last.last = true;
        }
        (pieces, (number, offset))
    }

    /// A request passes by. Where this node holds what is wanted it answers itself, and sends nothing on. Nor does it where it
    /// does not close the same view: what comes back would not be what those on this side are to have.
    pub(super) fn answers_instead(&mut self, now: Instant, ring: RingNumber, relayed: &Relayed) -> bool {
        //= TM41
        let RelayedContent::Wants { view, member, number, offset, strict } = relayed.content else { return false };
        let member = usize::from(member);
        let stands = view == self.vs.view().id && self.vs.is_member(relayed.from);
        let frozen = matches!(self.stage, Stage::Frozen | Stage::Closing(_));
        if !stands || !frozen {
            //= TM55
            return strict && !crate::mutated!(self.config, SendsWantsOn);
        }
        let holds = self.room.as_ref().is_some_and(|room| room.store.message(member, number).is_some());
        if holds {
            let first = (number, offset as usize);
            self.on_wants(now, Request { asker: relayed.from, ring, member, first });
        }
        holds
    }

    fn piece(&self, member: usize, number: u64, offset: usize, most: usize) -> Option<Piece> {
        let (key, message) = self.room.as_ref()?.store.message(member, number)?;
        let mut bytes = bytes::BytesMut::new();
        message.payload.for_each(offset, most, |part| bytes.extend_from_slice(part));
        Some(Piece {
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

    /// Messages came that were asked for, or parts of them; a network may bring them out of order.
    pub(super) fn on_pieces(&mut self, now: Instant, from: MemberId, pieces: Vec<Piece>) {
        //= TM41
        //= TM55
        let Stage::Closing(closing) = &self.stage else { return };
        let places = closing.cut.hollow && closing.cut.together.contains(&from);
        let mut answered = false;
        for piece in pieces.into_iter().filter(|piece| places || !piece.is_passed()) {
            answered |= self.on_piece(now, piece);
        }
        if answered {
            self.learn_patience(now);
            self.want();
        }
    }

    /// Whether an answer ends with this part, or with one that waited for it.
    fn on_piece(&mut self, now: Instant, piece: Piece) -> bool {
        let (Some(room), Stage::Closing(closing)) = (&self.room, &mut self.stage) else { return false };
        let member = usize::from(piece.member);
        // What stands before the next part would wait for ever.
        let lacks = closing.next_part(room, member).is_some_and(|next| (piece.number, piece.offset) >= next);
        let agreed = closing.cut.held.get(member).is_some_and(|agreed| piece.number <= *agreed);
        if lacks && agreed {
            closing.early.insert((member, piece.number, piece.offset), piece);
            // What is asked for is of the first member that something is lacking of: never the last of these.
            if closing.early.len() > EARLY {
                closing.early.pop_last();
            }
        }
        let mut answered = false;
        while let Some(last) = self.take_piece(member) {
            answered |= last;
            if let Stage::Closing(closing) = &mut self.stage {
                closing.ask_at = now + closing.patience;
            }
        }
        self.check(!self.waits_in_vain(member), "TM41: what waits stands behind what is held");
        answered
    }

    /// Whether a part waits for one that was taken already.
    fn waits_in_vain(&self, member: usize) -> bool {
        let (Some(room), Stage::Closing(closing)) = (&self.room, &self.stage) else { return false };
        let Some((number, offset)) = closing.next_part(room, member) else { return false };
        closing.early.range((member, 0, 0)..(member, number, offset)).next().is_some()
    }

    /// The next answer is awaited for twice as long as this one took.
    fn learn_patience(&mut self, now: Instant) {
        //= TM41
        let (least, most) = (self.config.membership.repeat, self.longest_patience());
        if let Stage::Closing(closing) = &mut self.stage {
            closing.patience = (now.since(closing.asked_at) * 2).clamp(least, most);
            (closing.asked_at, closing.ask_at) = (now, now + closing.patience);
        }
    }

    /// Takes the next part of a member's messages, if it is there: whether an answer ends with it.
    fn take_piece(&mut self, member: usize) -> Option<bool> {
        let (Some(room), Stage::Closing(closing)) = (&mut self.room, &mut self.stage) else { return None };
        let (number, offset) = closing.next_part(room, member)?;
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

/// In as few packets as they fit in, in their order.
fn packed(pieces: Vec<Piece>, room: usize) -> Vec<Vec<Piece>> {
    let (mut packets, mut taken) = (Vec::<Vec<Piece>>::new(), 0);
    for piece in pieces {
        taken += piece.size();
        match packets.last_mut().filter(|_| taken <= room) {
            Some(packet) => packet.push(piece),
            None => {
                taken = piece.size();
                packets.push(vec![piece]);
            }
        }
    }
    packets
}

/// The most that any of them knows of a ring.
fn best_of(ring: RingNumber, known: &BTreeMap<MemberId, Vec<(RingNumber, Horizon)>>) -> Horizon {
    let all = known.values().flatten().filter(|(other, _)| *other == ring);
    all.fold(Horizon::default(), |best, (_, horizon)| Horizon {
        reached: best.reached.max(horizon.reached),
        held: best.held.max(horizon.held),
    })
}
