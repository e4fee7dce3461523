//! What a daemon sends, cut anywhere, to a client's end of the connection.
#![no_main]
use bytes::Bytes;
use consort_session::{Client, Event, Hello, Inquirer, Offer};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut inquirer = Inquirer::new();
    for piece in consort_fuzz::pieces(bytes) {
        inquirer.feed(Bytes::copy_from_slice(piece));
        while let Ok(Some(_)) = inquirer.next_reply() {}
    }
    let mut client = Client::new(&Hello::default());
    for piece in consort_fuzz::pieces(bytes) {
        client.feed(Bytes::copy_from_slice(piece));
        while let Ok(Some(event)) = client.next_event() {
            if let Event::Message(message) | Event::Offer(Offer { message, .. }) = event {
                assert!(message.groups().count() >= 1 && message.payload().len() < bytes.len());
            }
        }
    }
});
