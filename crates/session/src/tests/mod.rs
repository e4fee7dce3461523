//! Both ends against each other, by theme.
mod batches;
mod codecs;
mod credit;
mod dialogue;
mod garbage;
mod page;
mod positions;
mod producers;

use crate::event;
use crate::{Ask, ClientEnd, DaemonEnd, DaemonEvent, Disconnect, Hello, Limits};
use bytes::{Bytes, BytesMut};
use consort_group::ordered::{self, MulticastLayout, Ordered};
use consort_types::{ClientId, GroupName, MemberId, NodeId, Service};
use consort_wire::Payload;

pub(super) fn group(name: &str) -> GroupName {
    GroupName::new(name.as_bytes()).unwrap()
}

/// What stands where in a client's ordered multicast.
pub(super) fn told_of(payload: &Payload) -> MulticastLayout {
    let Ok(Ordered::Multicast { told, .. }) = ordered::decode(payload) else { panic!("no multicast: {payload:?}") };
    told
}

/// Both ends of one connection and a daemon that does nothing but count.
pub(super) struct Pair {
    pub client: ClientEnd,
    pub session: DaemonEnd,
    pub limits: Limits,
    /// What stands in the order: payload and cost.
    pub ordered: Vec<(Bytes, usize)>,
    /// How many of it are known to be ordered.
    pub settled: usize,
    pub asks: Vec<Ask>,
    services: [Service; 2],
}

impl Pair {
    pub fn new(limits: Limits) -> Self {
        let hello = Hello { wants_views: true, ..Hello::default() };
        let (client, session) = (ClientEnd::new(&hello), DaemonEnd::new(ClientId(7)));
        Self {
            client,
            session,
            limits,
            ordered: Vec::new(),
            settled: 0,
            asks: Vec::new(),
            services: [Service::Fifo, Service::Agreed],
        }
    }

    /// The same, with the hello and the welcome behind it.
    pub fn open(limits: Limits) -> Self {
        let mut pair = Self::new(limits);
        pair.serve().unwrap();
        assert!(matches!(&pair.events()[..], [DaemonEvent::Welcome(_)]));
        pair
    }

    /// Carries the client's output over and takes all it asks.
    pub fn serve(&mut self) -> Result<(), Disconnect> {
        let bytes = self.client.take_output();
        self.session.feed(bytes);
        self.take()
    }

    pub fn take(&mut self) -> Result<(), Disconnect> {
        while let Some(ask) = self.session.next(&self.limits)? {
            if ask == Ask::Refused {
                continue;
            }
            let before = self.session.input_held();
            match &ask {
                Ask::Hello(name) => {
                    let name = name.clone().unwrap_or_else(|| self.session.name().clone());
                    self.session.welcome(name, MemberId::new(1, 5), "n1", &self.limits);
                }
                Ask::Join { .. } | Ask::Leave(_) | Ask::Multicast { .. } => {
                    self.session.accept();
                    let payload =
                        if let Ask::Multicast { payload, .. } = &ask { payload.to_bytes() } else { Bytes::new() };
                    self.ordered.push((payload, before - self.session.input_held()));
                }
                Ask::Ping(token) => {
                    let mut pong = BytesMut::new();
                    event::put_pong(&mut pong, *token);
                    self.session.tell(&pong);
                }
                Ask::Refused
                | Ask::Status
                | Ask::List(_)
                | Ask::Read(_)
                | Ask::Open(_)
                | Ask::Forget
                | Ask::Declare(_)
                | Ask::Copies(_)
                | Ask::Bind(_)
                | Ask::Rotate
                | Ask::Goodbye => {}
            }
            self.asks.push(ask);
        }
        Ok(())
    }

    /// Puts the oldest request into the order.
    pub fn order(&mut self) -> u64 {
        let cost = self.ordered[self.settled].1;
        self.settled += 1;
        self.session.order(cost)
    }

    /// Carries the daemon's output over.
    pub fn events(&mut self) -> Vec<DaemonEvent> {
        self.session.tell_progress();
        let bytes = Bytes::copy_from_slice(self.session.output().front());
        self.session.written(bytes.len());
        self.client.feed(bytes);
        std::iter::from_fn(|| self.client.next_event().unwrap()).collect()
    }

    /// Sends a message to `g` that is not like the one before: no batch comes of them.
    pub fn multicast(&mut self, payload: &[u8]) -> u64 {
        self.services.rotate_left(1);
        self.client.multicast(self.services[0], &[group("g")], payload).unwrap()
    }

    pub const fn sender() -> NodeId {
        NodeId(3)
    }
}
