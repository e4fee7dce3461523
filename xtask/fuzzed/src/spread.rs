//! What a Spread client sends, cut anywhere, to a daemon's end of the connection, and what comes of it.
use bytes::Bytes;
use consort_group::Targets;
use consort_spread::messages::RegularMessage;
use consort_spread::{SpreadRequest, SpreadSession};
use consort_wire::Payload;

/// The handshake of the library 5.0.1 under the name `a`.
const HELLO: &[u8] = &[5, 0, 1, 1, 1, b'a'];

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let mut session = SpreadSession::new();
    if bytes.first().is_some_and(|byte| byte % 8 != 0) {
        let mut choice = [0; 90];
        choice[..4].copy_from_slice(b"NULL");
        session.feed([HELLO, &choice].concat().into());
    }
    for piece in crate::pieces(bytes) {
        session.feed(Bytes::copy_from_slice(piece));
        while let Ok(Some(ask)) = session.ask() {
            carry_out(&mut session, ask);
        }
        assert!(!session.is_open() || session.outstanding() == 0, "everything asked for was ordered");
        session.written(session.output().len() / 2);
    }
}

fn carry_out(session: &mut SpreadSession, ask: SpreadRequest) {
    match ask {
        SpreadRequest::Name(_) => session.name("#a#n1"),
        SpreadRequest::Entered | SpreadRequest::GivenBack => {}
        SpreadRequest::Kill => session.close(false),
        SpreadRequest::Join(_) | SpreadRequest::Leave(_) => {
            session.accept();
            session.order(true);
        }
        SpreadRequest::Multicast { note, targets, data, .. } => {
            session.accept();
            session.order(data.len() % 2 == 0);
            let payload = Payload::from(data);
            let targets = Targets::read(&targets).expect("the session writes lists that can be read");
            session.tell_message(&RegularMessage { sender: "#a#n1", note, targets, payload: &payload, from: 0 }, true);
        }
    }
}
