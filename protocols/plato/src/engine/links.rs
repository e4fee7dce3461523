//! What is asked of others, and what is told them.
use super::{Plato, ViewStage, backed_off};
use crate::PlatoConfig;
use crate::packet::{PlatoPacket, RetransmitRequest, StreamPacket, StreamStatus};
use consort_member::vs::Laggards;
use consort_order::Destination;
use consort_types::{Instant, MemberId};
use consort_wire::Lane;

/// When to ask and to tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    /// When to ask for what is missing; and how often that was done since something came.
    request: Option<Instant>,
    requests: u32,
    /// When to tell what is held.
    status: Option<Instant>,
    /// How often that was done since anything changed.
    statuses: u32,
    /// What was told last.
    told: Vec<u64>,
    /// Somebody asked.
    asked: bool,
}

impl Patience {
    pub fn due(&self) -> Option<Instant> {
        [self.request, self.status].into_iter().flatten().min()
    }
}

/// A member that takes nothing in for so many times what silence costs is deaf.
const DEAF: u32 = 2;

/// Nobody of a view of `n` members lags yet.
pub(super) fn laggards(config: &PlatoConfig, now: Instant, n: usize) -> Laggards {
    let silence = config.membership.silence;
    Laggards::new(now, n, silence * DEAF, silence)
}

impl Plato {
    pub(super) fn on_data(&mut self, data: StreamPacket, arrived: Instant) {
        let Some(index) = self.streams.index(data.key.origin) else {
            self.io.counters.wrong += 1;
            return;
        };
        let agreed = match &self.stage {
            ViewStage::Open | ViewStage::Halted => false,
            ViewStage::Fetching(cut) if cut.held.get(index).is_some_and(|last| data.key.seq <= *last) => true,
            ViewStage::Frozen | ViewStage::Fetching(_) => return,
        };
        let (repair, mut next) = (data.repair, Vec::new());
        if !self.streams.take(index, (data, arrived), agreed, &mut next) && repair {
            self.io.counters.needless += 1;
        }
        if !next.is_empty() {
            self.patience.requests = 0;
            self.patience.request = None;
            self.patience.statuses = 0;
        }
        next.iter().for_each(|(data, arrived)| self.take_in(data, Some(*arrived)));
        self.see_to_fetching();
    }

    pub(super) fn on_status(&mut self, from: MemberId, status: &StreamStatus) {
        let Some(index) = self.membership.index(from) else { return };
        if matches!(self.stage, ViewStage::Open | ViewStage::Halted) {
            let before = self.streams.stable().to_vec();
            self.streams.on_status(index, status);
            self.patience.asked |= status.asks;
            if self.streams.stable() != before {
                self.patience.statuses = 0;
            }
        }
    }

    pub(super) fn on_request(&mut self, from: MemberId, request: &RetransmitRequest) {
        //= P02
        if crate::mutated!(self.config, NoAnswers) {
            return;
        }
        for data in self.streams.answers(request) {
            self.io.counters.repairs += 1;
            self.send(Destination::One(from.node), Lane::Data, PlatoPacket::Data(data));
        }
    }

    /// Tells the membership once nothing of the agreed set is lacking.
    pub(super) fn see_to_fetching(&mut self) {
        let ViewStage::Fetching(cut) = &self.stage else { return };
        if self.streams.held().iter().zip(&cut.held).all(|(held, wanted)| held >= wanted) {
            self.membership.complete(self.now);
        }
    }

    /// Arms and serves the timers of requests and of status.
    pub(super) fn see_to_links(&mut self) {
        self.see_to_requests();
        self.see_to_status();
    }

    fn see_to_requests(&mut self) {
        //= P02
        let now = self.now;
        let wanted = self.wanted();
        if wanted.is_empty() {
            self.patience.request = None;
            return;
        }
        let links = self.config.links;
        let first = if matches!(self.stage, ViewStage::Fetching(_)) { now } else { now + links.request };
        let due = *self.patience.request.get_or_insert(first);
        if due > now || crate::mutated!(self.config, NoRequests) {
            return;
        }
        for (index, last) in wanted {
            self.ask(index, last);
        }
        self.patience.requests += 1;
        let pause = backed_off(links.request, self.patience.requests, links.request_max);
        self.patience.request = Some(now + pause);
    }

    /// Which streams lack something, and up to where that is known to have been sent.
    fn wanted(&self) -> Vec<(usize, u64)> {
        match &self.stage {
            ViewStage::Frozen => Vec::new(),
            ViewStage::Open | ViewStage::Halted => {
                self.streams.gaps().map(|index| (index, self.streams.sent(index))).collect()
            }
            ViewStage::Fetching(cut) => {
                let lacking = self.streams.held().iter().zip(&cut.held).enumerate();
                lacking
                    .filter(|(_, (held, wanted))| held < wanted)
                    .map(|(index, (_, wanted))| (index, *wanted))
                    .collect()
            }
        }
    }

    fn ask(&mut self, index: usize, last: u64) {
        let runs = crate::packet::runs_in(self.config.datagram.packet_room());
        let Some((whom, request)) = self.streams.request(index, last, runs) else { return };
        let holder = match &self.stage {
            ViewStage::Fetching(cut) => cut.holders.get(index).copied().unwrap_or(whom),
            _ => whom,
        };
        self.io.counters.requests += 1;
        self.send(Destination::One(holder.node), Lane::Data, PlatoPacket::Request(request));
    }

    fn see_to_status(&mut self) {
        //= P04
        if !matches!(self.stage, ViewStage::Open | ViewStage::Halted) || self.members().len() == 1 {
            self.patience.status = None;
            return;
        }
        let news = self.streams.held() != self.patience.told || self.patience.asked;
        if !news && !self.streams.is_unstable() {
            self.patience.status = None;
            return;
        }
        let links = self.config.links;
        let span = if self.receiver.waits_for_stability() { links.status_safe } else { links.status };
        let pause = backed_off(span, self.patience.statuses, self.config.membership.heartbeat.max(span));
        let due = self.now + if news { span } else { pause };
        let due = *self.patience.status.insert(self.patience.status.map_or(due, |before| before.min(due)));
        if due <= self.now {
            self.speak();
        }
    }

    /// Tells what is held, and what was sent.
    pub(super) fn speak(&mut self) {
        if crate::mutated!(self.config, NoStatus) {
            return;
        }
        self.patience.status = None;
        self.patience.asked = false;
        self.patience.statuses += 1;
        self.patience.told = self.streams.held().to_vec();
        self.io.counters.statuses += 1;
        let sent = self.streams.next_key().seq - 1;
        let asks = self.streams.is_unstable();
        let status = StreamStatus { view: self.view(), sent, asks, received: self.patience.told.clone() };
        self.send(Destination::All, Lane::Data, PlatoPacket::Status(status));
        self.exclude_the_deaf();
    }

    /// A member that is heard but takes nothing in would hold up everybody for ever. Where all others lack what this node
    /// sent, and only that, it is this one.
    fn exclude_the_deaf(&mut self) {
        //= P07
        let deaf = self.laggards.deaf(self.now, self.streams.me(), self.streams.reports());
        if let Some(deaf) = deaf.filter(|_| matches!(self.stage, ViewStage::Open)) {
            self.membership.exclude(self.now, self.members()[deaf]);
        }
    }

    /// A new view: nothing is owed from the last one.
    pub(super) fn forget_links(&mut self) {
        self.patience = Patience::default();
    }
}
