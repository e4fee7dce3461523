//! What a daemon sends, cut anywhere, to a client's end of the connection.
use bytes::Bytes;
use consort_session::{ClientEnd, DaemonEvent, Hello, Inquirer, Offer};

/// Takes one input.
///
/// # Panics
/// Where a promise is broken.
pub fn run(bytes: &[u8]) {
    let mut inquirer = Inquirer::new();
    for piece in crate::pieces(bytes) {
        inquirer.feed(Bytes::copy_from_slice(piece));
        while let Ok(Some(_)) = inquirer.next_reply() {}
    }
    let mut client = ClientEnd::new(&Hello::default());
    for piece in crate::pieces(bytes) {
        client.feed(Bytes::copy_from_slice(piece));
        while let Ok(Some(event)) = client.next_event() {
            if let DaemonEvent::Message(message) | DaemonEvent::Offer(Offer { message, .. }) = event {
                assert!(message.groups().count() >= 1 && message.payload().len() < bytes.len());
            }
        }
    }
}
