//! One visit of the token: answer, number, send, update, pass on, send the rest.
use super::state::TokenState;
use super::{Mode, PacketSource, Rotation};
use crate::config::{Acceleration, Priority, Windows};
use crate::flow::{self, Shares, UnstableLoad};
use crate::io::RingIo;
use crate::load::{RotationSigns, SentLoad};
use crate::packet::{DATA_LEN, DataContent, DataPacket, RUN_LEN, RingPacket, SEQ_END, TOKEN_LEN, Token};
use crate::store::Inserted;
use crate::tuning::RotationSample;
use consort_order::Destination;
use consort_types::{Instant, Seq};
use consort_wire::Lane;

impl Rotation {
    /// Handles an accepted token and passes it on. What became deliverable is the caller's to deliver.
    pub fn on_token(
        &mut self,
        io: &mut RingIo,
        now: Instant,
        mut token: Token,
        pace: Mode,
        source: &mut dyn PacketSource,
    ) {
        io.check(self.fresh.is_empty(), "G5: what was numbered at the last visit has left");
        let (arrived, sent_before) = ((token.seq, token.aru), token.fcc);
        let windows = flow::windows(&io.config, &token);
        let answered = self.answer(io, &mut token, &windows);
        let new = self.number(io, &mut token, pace, source);
        let load = answered.plus(new);
        //= R47
        if std::mem::take(&mut token.granted) && self.may_return(io, &token, pace) {
            return self.return_token(io, now, token, load);
        }
        let after_token = self.after_token(io, &windows, pace);
        let before_token = self.fresh.len() - after_token;
        self.send_fresh(io, 0..before_token, self.round_before(io));
        self.update_aru(io, &mut token, arrived);
        self.update_fcc(io, &mut token, load);
        self.update_requests(io, &mut token, arrived.0, pace);
        self.update_room(io, &mut token);
        self.update_windows(io, &mut token, sent_before, pace);
        self.note_idleness(io, now, &mut token, load);
        token.token_seq += 1;
        io.check_told(token.token_seq > self.last_token_seq, "G2: token_seq grows");
        let passed_aru = token.aru;
        self.pass_on(io, now, token);
        self.visits += 1;
        io.counters.visits += 1;
        io.counters.packets_sent_after_token += after_token as u64;
        self.send_fresh(io, before_token..before_token + after_token, self.visits);
        if crate::mutated!(io.config, StoreWhenSent) {
            for data in &self.fresh {
                self.store.insert(data.clone());
            }
        }
        self.fresh.clear();
        self.advance_stable(io, passed_aru);
    }

    /// Sends what others miss and we hold, before everything else.
    fn answer(&mut self, io: &mut RingIo, token: &mut Token, windows: &Windows) -> SentLoad {
        //= R7
        let mut answered = SentLoad::default();
        if token.requests.is_empty() || crate::mutated!(io.config, RetransmissionNotAnswered) {
            return answered;
        }
        let cap = windows.global;
        let (store, stable) = (&self.store, self.stable);
        token.requests.retain(|seq| match store.get(seq) {
            // An answer cap can leave requests on the token that were satisfied since; they go silently.
            _ if seq <= stable => false,
            Some(data) if answered.packets < cap => {
                answered.add_packet(data.wire_len());
                let again = DataPacket { retransmission: true, ack_request: false, round: 0, ..data.clone() };
                io.send(Destination::All, Lane::Data, RingPacket::Data(again));
                false
            }
            Some(_) => true,
            None => true,
        });
        io.counters.retransmissions_sent += u64::from(answered.packets);
        answered
    }

    /// Numbers as many packets as flow control allows. They are stored at once: from here on they are part of the
    /// order, whether or not they were sent.
    fn number(&mut self, io: &mut RingIo, token: &mut Token, pace: Mode, source: &mut dyn PacketSource) -> SentLoad {
        //= R10
        //= R11
        let under_way = UnstableLoad { packets: self.stable.behind(token.seq), bytes: self.store.bytes() };
        let shares = Shares { mine: self.last_load, members: self.members.len() as u32 };
        let most = flow::allowance(&io.config, token, shares, under_way);
        //= R47
        let allowed = if token.granted { most.minus(self.last_load) } else { most };
        let room = io.config.body_room();
        let mut new = SentLoad::default();
        while new.packets < allowed.packets
            && allowed.bytes.saturating_sub(new.bytes) >= (DATA_LEN + room) as u32
            && token.seq.0 + 1 < SEQ_END
            && let Some(content) = source.next(&mut io.queue, room)
        {
            let reused = crate::mutated!(io.config, SeqReused) && new.packets == 1;
            token.seq = if reused { token.seq } else { token.seq.next() };
            self.last_own = token.seq;
            let stamp = if io.config.stamped { stamp(io.clock, token, &content) } else { 0 };
            let data = DataPacket {
                ring: self.ring,
                seq: token.seq,
                originator: self.me.node,
                round: 0,
                retransmission: false,
                ack_request: false,
                stamp,
                content,
            };
            new.add_packet(data.wire_len());
            let recovers = matches!(data.content, DataContent::Recovered(_));
            io.check(
                recovers == (pace == Mode::Original),
                "G6: messages in Operational, recovered packets in Recovery",
            );
            if !crate::mutated!(io.config, StoreWhenSent) {
                let new = self.store.insert(data.clone()) == Inserted::New;
                io.check_told(new, "G4: the sequence number of an own packet was free");
            }
            self.fresh.push(data);
        }
        self.note_what_binds(io, token, most, under_way);
        let personal = io.config.windows_at(u32::from(token.personal)).personal;
        io.check(new.packets <= personal, "R41: no visit sends more than the token says");
        io.counters.packets_sent += u64::from(new.packets);
        let held = self.fresh.last().is_none_or(|data| self.store.get(data.seq).is_some());
        io.check_told(held, "R10: own packets are held from their numbering on");
        let reach = flow::reach(&io.config.windows);
        io.check(self.stable.behind(token.seq) <= reach, "R24: nothing is numbered beyond the windows");
        new
    }

    /// Notes what kept a visit from sending more: the store's window, or those that the ring may tune.
    fn note_what_binds(&mut self, io: &RingIo, token: &Token, allowed: SentLoad, under_way: UnstableLoad) {
        let windows = flow::windows(&io.config, token);
        let more = io.queue.is_ready();
        self.store_is_full = more && flow::store_binds(&io.config, &windows, allowed, under_way);
        self.hungry = more && flow::windows_bind(&io.config, token, allowed, under_way);
    }

    /// How many of the fresh packets leave after the token.
    fn after_token(&self, io: &RingIo, windows: &Windows, pace: Mode) -> usize {
        //= R12
        let accelerated = io.config.acceleration == Acceleration::Accelerated && pace == Mode::Configured;
        let worthwhile = accelerated && self.fresh.len() >= windows.accelerated_from as usize;
        if worthwhile { self.fresh.len().min(windows.accelerated as usize) } else { 0 }
    }

    /// What packets that leave before the token are stamped with.
    pub(super) const fn round_before(&self, io: &RingIo) -> u64 {
        //= R17
        match io.config.priority {
            Priority::Method1 => self.visits + 1,
            Priority::Method2 => self.visits,
        }
    }

    pub(super) fn send_fresh(&self, io: &mut RingIo, range: std::ops::Range<usize>, round: u64) {
        for data in &self.fresh[range] {
            io.send(Destination::All, Lane::Data, RingPacket::Data(DataPacket { round, ..data.clone() }));
        }
    }

    fn update_aru(&mut self, io: &mut RingIo, token: &mut Token, (arrived_seq, arrived_aru): (Seq, Seq)) {
        //= R13
        let mine = self.store.aru();
        let lowered_by_me = token.aru_by == Some(self.me.node) && !crate::mutated!(io.config, AruNeverRaised);
        let complete = arrived_aru == arrived_seq;
        let blindly = crate::mutated!(io.config, AruRaisedBlindly);
        if mine < token.aru || lowered_by_me || complete || blindly {
            token.aru = mine.min(token.seq);
            token.aru_by = (token.aru < token.seq).then_some(self.me.node);
        }
        self.behind = token.aru_by;
        io.check(token.aru <= token.seq, "R13: aru never passes seq");
    }

    fn update_fcc(&mut self, io: &mut RingIo, token: &mut Token, load: SentLoad) {
        //= R15
        if !crate::mutated!(io.config, FccNotSubtracted) {
            io.check_told(token.fcc.covers(self.last_load), "R15: the count contains this member's last visit");
            token.fcc = token.fcc.minus(self.last_load);
        }
        token.fcc = token.fcc.plus(load);
        self.last_load = load;
    }

    fn update_requests(&mut self, io: &mut RingIo, token: &mut Token, arrived_seq: Seq, pace: Mode) {
        //= R14
        //= R32
        let accelerated = io.config.acceleration == Acceleration::Accelerated && pace == Mode::Configured;
        let late = accelerated && !crate::mutated!(io.config, RequestTooEarly);
        let limit = if late { self.previous_seq.min(arrived_seq) } else { arrived_seq };
        self.previous_seq = arrived_seq;
        self.note_lost(limit);
        if self.store.aru() < limit {
            let max_runs = (io.config.datagram.packet_room() - TOKEN_LEN - io.config.stamp_len()) / RUN_LEN;
            io.counters.requests_made += self.store.missing_to(limit).count() as u64;
            token.requests.merge(self.store.missing_to(limit), max_runs);
        }
    }

    /// Counts what is missed for the first time.
    fn note_lost(&mut self, limit: Seq) {
        //= R39
        let since = self.asked_to.max(self.store.aru());
        self.asked_to = self.asked_to.max(limit);
        let lost = self.store.missing_to(limit).filter(|seq| *seq > since).count();
        self.lost = u16::try_from(lost).unwrap_or(u16::MAX);
    }

    /// Each member adds the signs it has seen; the representative turns those of the rotation that ends into the windows
    /// of the one that begins.
    fn update_windows(&mut self, io: &mut RingIo, token: &mut Token, sent: SentLoad, pace: Mode) {
        let backlog = std::mem::take(&mut io.backlog);
        if pace == Mode::Original || self.is_alone() {
            return; // a ring of one has nobody to overrun
        }
        let seen =
            RotationSigns { hungry: self.hungry, lost: self.lost, ..backlog.signs(&io.config, self.rotation, sent) };
        let signs = token.signs.and(seen);
        io.personal = flow::windows(&io.config, token).personal;
        if !self.is_representative() {
            token.signs = signs;
            return;
        }
        let (took, usual, token_loss) = (self.took, self.rotation, io.timeouts.token_loss);
        let last = RotationSample { signs, packets: sent.packets, took, usual, token_loss };
        let personal = self.tuner.tune(&io.config, io.personal, last);
        token.personal = u16::try_from(personal).unwrap_or(u16::MAX);
        token.signs = RotationSigns::default();
    }

    /// The representative turns the least room of the rotation that ends into the window of the one that begins.
    fn update_room(&self, io: &RingIo, token: &mut Token) {
        //= R9
        let mine = io.reported_room();
        if self.is_representative() {
            token.window = token.room.min(mine);
            token.room = mine;
        } else {
            token.room = token.room.min(mine);
        }
    }

    fn pass_on(&mut self, io: &mut RingIo, now: Instant, token: Token) {
        //= R16
        if self.successor == self.me {
            self.keep_for_myself(io, now, token);
            return;
        }
        self.send_token(io, now, TokenState::Passed(token));
    }

    /// Moves the stable line.
    pub(super) fn advance_stable(&mut self, io: &mut RingIo, passed_aru: Seq) {
        //= R20
        let proven = if crate::mutated!(io.config, OneAru) { passed_aru } else { passed_aru.min(self.passed_aru) };
        self.passed_aru = passed_aru;
        self.stable = self.stable.max(proven);
        io.check(self.stable <= self.store.aru(), "R20: what is stable is held here too");
    }
}

/// Stamps what is numbered next: above all that the token has stamped, and above what this node was told. The token goes on
/// behind the last message of the packet. What is recovered keeps the stamp that it has.
fn stamp(clock: u64, token: &mut Token, content: &DataContent) -> u64 {
    //= R49
    let many = match content {
        DataContent::Recovered(recovered) => return recovered.stamp,
        DataContent::Messages(body) => body.chunks().count() as u64,
        DataContent::Primary => 1,
    };
    let first = token.stamp.max(clock) + 1;
    token.stamp = first + many.saturating_sub(1);
    first
}
