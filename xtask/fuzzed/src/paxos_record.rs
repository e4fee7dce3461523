//! Records of Ring Paxos are read or refused; what is read is read again as it was, and an engine that finds them starts.
use crate::pieces;
use bytes::Bytes;
use consort_order::Engine;
use consort_paxos::record::Record;
use consort_paxos::{Config, Paxos};
use consort_types::{Incarnation, Instant, NodeId};

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let whole = Bytes::copy_from_slice(bytes);
    if let Ok(record) = Record::decode(&whole) {
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }
    let records: Vec<_> = pieces(bytes).map(Bytes::copy_from_slice).collect();
    // Whole ones come through, so that what they mean is tried and not only how they are read.
    let readable: Vec<_> = records.into_iter().filter(|record| Record::decode(record).is_ok()).collect();
    let config = Config::new(NodeId(1), (1..=3).map(NodeId).collect());
    let mut engine = Paxos::new(config, Incarnation(9)).expect("the defaults are right");
    engine.start(Instant::ZERO, &readable);
    while engine.poll_output().is_some() {}
    let due = engine.poll_timeout().expect("it beats");
    engine.handle_timeout(due);
    while engine.poll_output().is_some() {}
}
