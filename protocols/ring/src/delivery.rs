//! From numbered packets to delivered messages.
use crate::config::RingConfig;
use crate::packet::{DataContent, DataPacket};
use crate::store::Store;
use consort_order::SubmitQueue;
use consort_order::{Delivery, Output};
use consort_types::{MemberId, OrderStream, Position, Seq};
use consort_wire::pack::Assembly;
use std::collections::VecDeque;

/// How far delivery came, and the beginnings of messages whose ends are still to come.
#[derive(Clone, Debug)]
pub(crate) struct Deliverer {
    me: MemberId,
    members: Vec<(MemberId, Assembly)>,
    delivered: Seq,
    /// Pieces that did not continue what came before: a member broke the packing, or we did.
    pub torn: u64,
}

/// Where the `index`-th message of a packet stands.
pub(crate) const fn position(seq: Seq, index: u64) -> Position {
    Position(seq.0 << 16 | index)
}

/// The packet that a position lies in.
pub(crate) const fn seq_of(position: Position) -> Seq {
    Seq(position.0 >> 16)
}

impl Deliverer {
    /// Delivery starts behind what was recovered.
    pub fn new(me: MemberId, members: &[MemberId], recovered: Seq) -> Self {
        let members = members.iter().map(|member| (*member, Assembly::default())).collect();
        Self { me, members, delivered: recovered, torn: 0 }
    }

    /// Delivers what has become deliverable: packets in order up to the first that is missing, or that is safe and not
    /// yet stable.
    pub fn advance<P>(
        &mut self,
        config: &RingConfig,
        store: &Store,
        stable: Seq,
        queue: &mut SubmitQueue,
        output: &mut VecDeque<Output<P>>,
    ) {
        //= R19
        //= R21
        loop {
            let next = self.delivered.next();
            let Some(data) = store.get(next) else {
                if crate::mutated!(config, DeliverPastHole) && next < store.highest() && store.highest() > next.plus(3)
                {
                    self.delivered = next;
                    continue;
                }
                return;
            };
            let waits = data.content.is_safe() && next > stable && !crate::mutated!(config, SafeAsAgreed);
            if waits {
                return;
            }
            self.delivered = next;
            self.deliver(config, data, queue, output);
        }
    }

    /// Delivers all that is left: up to the first hole everything, after it only what an `owed` member numbered.
    pub fn finish<P>(
        &mut self,
        config: &RingConfig,
        store: &Store,
        owed: impl Fn(MemberId) -> bool,
        queue: &mut SubmitQueue,
        output: &mut VecDeque<Output<P>>,
    ) {
        let mut hole = false;
        for seq in (self.delivered.0 + 1..=store.highest().0).map(Seq) {
            let Some(data) = store.get(seq) else {
                hole = true;
                continue;
            };
            //= M55
            if data.content == DataContent::Primary && !crate::mutated!(config, PrimaryWhileClosed) {
                continue; // a view that is being closed does not become primary any more
            }
            let sender = self.members.iter().find(|(member, _)| member.node == data.originator);
            if !hole || sender.is_some_and(|(sender, _)| owed(*sender)) {
                self.deliver(config, data, queue, output);
            }
        }
        self.delivered = self.delivered.max(store.highest());
    }

    fn deliver<P>(
        &mut self,
        config: &RingConfig,
        data: &DataPacket,
        queue: &mut SubmitQueue,
        output: &mut VecDeque<Output<P>>,
    ) {
        let DataContent::Messages(body) = &data.content else {
            if data.content == DataContent::Primary {
                output.push_back(Output::Primary(data.ring));
            }
            return;
        };
        let Some((sender, assembly)) = self.members.iter_mut().find(|(member, _)| member.node == data.originator)
        else {
            return;
        };
        let sender = *sender;
        for (index, mut chunk) in body.chunks().enumerate() {
            if crate::mutated!(config, PiecesForgotten) && chunk.begins.is_none() && !chunk.ends {
                continue;
            }
            if crate::mutated!(config, PayloadCut) && chunk.bytes.len() > 100 {
                chunk.bytes = chunk.bytes.slice(..chunk.bytes.len() - 1);
                chunk.begins = chunk.begins.map(|_| chunk.bytes.len());
            }
            match assembly.push(chunk) {
                Ok(None) => {}
                Err(_) => self.torn += 1,
                Ok(Some(message)) => {
                    let id = if sender == self.me { queue.delivered(message.class, message.service) } else { None };
                    output.push_back(Output::Deliver(Delivery {
                        stream: OrderStream(0),
                        position: if data.stamp > 0 {
                            Position(data.stamp + index as u64)
                        } else {
                            position(data.seq, index as u64)
                        },
                        sender,
                        id,
                        class: message.class,
                        service: message.service,
                        payload: message.payload,
                    }));
                }
            }
        }
    }

    /// The last packet that was delivered.
    pub const fn delivered(&self) -> Seq {
        self.delivered
    }

    /// The bytes held of messages that are not complete.
    pub fn held(&self) -> usize {
        self.members.iter().map(|(_, assembly)| assembly.held()).sum()
    }
}
