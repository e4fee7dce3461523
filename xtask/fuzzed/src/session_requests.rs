//! What a client sends, cut anywhere, to a daemon's end of the connection.
use bytes::{Bytes, BytesMut};
use consort_session::{Ask, ClientName, DaemonEnd, Hello, HistoryPlace, Limits, Numbered, OpenRequest};
use consort_types::{ClientId, MemberId};

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let limits = Limits { message_max: 1_000, credit: 4_096, ..Limits::default() };
    let mut session = DaemonEnd::new(ClientId(1));
    let unchosen = || ClientName::unchosen(ClientId(1));
    if bytes.first().is_some_and(|byte| byte % 8 != 0) {
        let mut hello = BytesMut::new();
        Hello::default().put(&mut hello);
        session.feed(hello.freeze());
    }
    for piece in crate::pieces(bytes) {
        session.feed(Bytes::copy_from_slice(piece));
        while let Ok(Some(ask)) = session.next(&limits) {
            match ask {
                Ask::Hello(name) => session.welcome(name.unwrap_or_else(unchosen), MemberId::new(1, 1), "n1", &limits),
                Ask::Join { .. } | Ask::Leave(_) | Ask::Multicast { .. } => drop(session.accept()),
                Ask::Open(OpenRequest { producer, .. }) => {
                    session.number(Numbered { producer, epoch: HistoryPlace::default(), number: 1 });
                }
                Ask::Refused
                | Ask::Status
                | Ask::Ping(_)
                | Ask::List(_)
                | Ask::Read(_)
                | Ask::Forget
                | Ask::Declare(_)
                | Ask::Copies(_)
                | Ask::Bind(_)
                | Ask::Rotate
                | Ask::Goodbye => {}
            }
        }
        assert!(session.outstanding() <= limits.credit.max(limits.frame_max()), "the credit holds");
    }
}
