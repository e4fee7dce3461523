//! What becomes of a node that missed a part of some ring's log; and what it takes along into its next incarnation.
use super::{Farewell, MultiRingPaxos, merge_config};
use crate::merge::Merge;
use crate::slot::RingId;
use bytes::{BufMut, Bytes, BytesMut};
use consort_order::Output;
use consort_paxos::Paxos;
use consort_types::Incarnation;

impl MultiRingPaxos {
    /// A ring's log is not retained any more where the merge stands. Who has not asked to be let in begins where the
    /// logs do now.
    pub(super) fn on_missed(&mut self, ring: RingId) {
        //= MP55
        if self.seek_again(ring) {
            return;
        }
        let first = |engine: &Paxos| engine.learner().first().clone();
        let Some(global) = self.rings.get(&self.config.global).map(first) else { return };
        let known =
            [&global.present.last, &global.present.away].iter().any(|incarnations| incarnations.contains_key(&self.me));
        if self.asked || known {
            return self.restart(&format!("{ring} does not retain what is yet to be merged"), None, None);
        }
        self.read_again();
        let read = self.rings.iter().filter(|(ring, _)| self.is_read(**ring));
        let starts: Vec<_> = read.map(|(ring, engine)| (*ring, first(engine))).collect();
        self.current = global.present.number;
        self.merge = Merge::new(merge_config(&self.config), starts);
    }

    /// This node cannot go on. What it has promised in each ring goes along.
    pub(super) fn restart(&mut self, cause: &str, exceed: Option<Incarnation>, told: Option<(RingId, Vec<Bytes>)>) {
        //= MP56
        if self.farewell == Farewell::Restarts {
            return;
        }
        self.farewell = Farewell::Restarts;
        let mut records = Vec::new();
        for (ring, engine) in &self.rings {
            let own = match &told {
                Some((other, records)) if other == ring => records.clone(),
                _ => engine.carried(),
            };
            records.extend(own.iter().map(|record| tagged(*ring, record)));
        }
        self.output.push_back(Output::Restart { cause: cause.to_owned(), records, exceed });
    }

    /// The records of a ring among all.
    pub(super) fn records_of(ring: RingId, records: &[Bytes]) -> Vec<Bytes> {
        //= MP56
        let own = records.iter().filter(|record| record.first() == Some(&ring.0));
        own.map(|record| record.slice(1..)).collect()
    }
}

fn tagged(ring: RingId, record: &Bytes) -> Bytes {
    let mut tagged = BytesMut::with_capacity(record.len() + 1);
    tagged.put_u8(ring.0);
    tagged.put_slice(record);
    tagged.freeze()
}
