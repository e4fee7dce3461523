//! What the rings' engines ask for.
use super::{Farewell, MultiRingPaxos};
use crate::outgoing::OwnLine;
use crate::packet::{Content, Packet, Stamp, stamp};
use crate::slot::RingId;
use consort_order::{Engine, Output, Submission};
use consort_types::{Class, Instant, OrderStream, View, ViewKind};

impl MultiRingPaxos {
    /// Takes all that the rings put out. Their messages and views are read from their logs instead.
    pub(super) fn drain_rings(&mut self, now: Instant) {
        for ring in self.rings.keys().copied().collect::<Vec<_>>() {
            while let Some(output) = self.rings.get_mut(&ring).and_then(Engine::poll_output) {
                self.on_output(now, ring, output);
            }
        }
    }

    fn on_output(&mut self, now: Instant, ring: RingId, output: Output<consort_paxos::packet::Packet>) {
        //= MP50
        let is_global = ring == self.config.global;
        match output {
            Output::Send { to, lane, packet } => {
                let packet = Packet { ring, content: Content::Ring(packet) };
                self.output.push_back(Output::Send { to, lane, packet });
            }
            Output::Install(view) => self.on_install(now, ring, view),
            Output::Primary(view) if is_global => {
                self.views.primaries.insert(view.number, view);
            }
            Output::Beacon { from, annotation } if is_global => {
                self.output.push_back(Output::Beacon { from, annotation });
            }
            Output::Left => self.on_left(ring),
            Output::Restart { exceed: None, .. } if self.may_forget(ring) => self.forget_ring(ring),
            Output::Restart { cause, records, exceed } => {
                self.restart(&format!("{ring}: {cause}"), exceed, Some((ring, records)));
            }
            _ => {}
        }
    }

    /// A ring has another view. The gate of each ring is open at once: this engine has its own.
    fn on_install(&mut self, now: Instant, ring: RingId, view: View) {
        //= MP53
        let (id, kind) = (view.id, view.kind);
        if ring == self.config.global {
            match kind {
                ViewKind::Regular if id.number == 0 => self.output.push_back(Output::Install(view)),
                ViewKind::Regular => {
                    let closing = self.views.closing.take();
                    self.views.installs.insert(id.number, closing.into_iter().chain([view]).collect());
                }
                ViewKind::Transitional => self.views.closing = Some(view),
            }
        }
        if let Some(engine) = self.rings.get_mut(&ring).filter(|_| kind == ViewKind::Regular) {
            engine.resume(now, id);
        }
    }

    fn on_left(&mut self, ring: RingId) {
        self.left.insert(ring);
        if self.left.len() == self.rings.len() && self.farewell == Farewell::Leaves {
            self.output.push_back(Output::Left);
        }
    }

    /// Hands own messages to their rings, as far as they may go; whether any went.
    pub(super) fn send_on(&mut self, now: Instant) -> bool {
        if self.inside.is_none() {
            return false;
        }
        let control = self.send_class(now, Class::Control);
        let client = self.open && self.send_class(now, Class::Client);
        control || client
    }

    fn send_class(&mut self, now: Instant, class: Class) -> bool {
        let mut any = false;
        for line in self.outgoing.lines(class) {
            any |= self.send_line(now, line);
        }
        any
    }

    fn send_line(&mut self, now: Instant, line: OwnLine) -> bool {
        let (class, mut any) = (line.0, false);
        while let Some((number, own)) = self.outgoing.next(line) {
            //= MP71
            if !self.is_read(own.ring) {
                break;
            }
            //= MP51
            let payload = stamp(Stamp { view: self.current, number }, own.payload.clone());
            let submission = Submission { class, service: own.service, stream: OrderStream(0), payload };
            let taken = self.rings.get_mut(&own.ring).is_some_and(|ring| ring.submit(now, submission).is_ok());
            if !taken {
                break;
            }
            self.outgoing.sent(line);
            any = true;
        }
        any
    }
}
