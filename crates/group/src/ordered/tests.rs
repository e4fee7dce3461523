//! Every kind is read back as it was written, and garbage is refused.
use super::*;
use crate::{KeyAnswer, KeyName, ProposalId};
use consort_types::{MemberId, Position};

const BOB: ClientId = ClientId(9);

fn group() -> GroupName {
    GroupName::new(b"orders").unwrap()
}

fn name() -> ClientName {
    ClientName::new(b"bob").unwrap()
}

fn numbered() -> Numbered {
    Numbered { producer: ProducerId([7; 16]), epoch: HistoryPlace { view: 3, at: Position(9) }, number: 12 }
}

fn every_kind() -> [(Payload, Ordered); 17] {
    let (client, name, group) = (BOB, name(), group());
    let body = Bytes::from_static(b"\0\x01\x01gpayload");
    let batch = Bytes::from_static(b"\0\0\0\x06\x14\0\x01\x01ga\0\0\0\x05\x14\0\x01\x01g");
    let Numbered { producer, epoch, .. } = numbered();
    let request = OpenRequest { producer, session: 3, attempt: 4, opened: 2, known: true };
    let view = ViewId { number: 4, representative: MemberId::new(1, 7) };
    let key = KeyName { epoch: 2, fingerprint: 0x0123_4567_89ab_cdef };
    let proposal = ProposalId { by: MemberId::new(1, 7), number: 5 };
    let propose = KeyMessage::Propose { key, number: 5 };
    let answer = KeyMessage::Answer { proposal, key, answer: KeyAnswer::Differs };
    let joins = |closed| Ordered::Join { client, name: name.clone(), group: group.clone(), closed };
    [
        (
            [multicast_prefix(client, &name), body.clone()].into_iter().collect(),
            Ordered::Multicast {
                client,
                told: MulticastLayout { at: 1, targets_at: 9, batch: false, note: None },
                numbered: None,
            },
        ),
        (
            [batch_prefix(client, &name), batch.clone()].into_iter().collect(),
            Ordered::Multicast {
                client,
                told: MulticastLayout { at: 1, targets_at: 14, batch: true, note: None },
                numbered: None,
            },
        ),
        (
            [numbered_prefix(numbered()), multicast_prefix(client, &name), body.clone()].into_iter().collect(),
            Ordered::Multicast {
                client,
                told: MulticastLayout { at: 42, targets_at: 50, batch: false, note: None },
                numbered: Some(numbered()),
            },
        ),
        (
            [numbered_prefix(numbered()), batch_prefix(client, &name), batch].into_iter().collect(),
            Ordered::Multicast {
                client,
                told: MulticastLayout { at: 42, targets_at: 55, batch: true, note: None },
                numbered: Some(numbered()),
            },
        ),
        (open(client, &request).into(), Ordered::Open { client, request }),
        (forget(client, producer, epoch).into(), Ordered::Forget { client, producer, at: epoch }),
        (complete(view).into(), Ordered::Complete(view)),
        (confirm().into(), Ordered::Confirm),
        (
            [noted_prefix(client, &name, *b"12345").freeze(), body].into_iter().collect(),
            Ordered::Multicast {
                client,
                told: MulticastLayout { at: 6, targets_at: 14, batch: false, note: Some(*b"12345") },
                numbered: None,
            },
        ),
        (join(client, &name, &group, false).into(), joins(false)),
        (join(client, &name, &group, true).into(), joins(true)),
        (leave(client, &group).into(), Ordered::Leave { client, group: group.clone() }),
        (disconnect(client).into(), Ordered::Disconnect { client }),
        (hold(client, &[group]).into(), Ordered::Hold { client, targets_at: Some(6) }),
        (hold::<GroupName>(client, &[]).into(), Ordered::Hold { client, targets_at: None }),
        (propose.encode().into(), Ordered::Keys(propose)),
        (answer.encode().into(), Ordered::Keys(answer)),
    ]
}

#[test]
fn every_kind_reads_back_however_it_was_cut() {
    for (payload, meant) in every_kind() {
        let bytes = payload.to_bytes();
        for cut in 0..=bytes.len() {
            let rope: Payload = [bytes.slice(..cut), bytes.slice(cut..)].into_iter().collect();
            assert_eq!(decode(&rope), Ok(meant.clone()));
            if let Ordered::Multicast { told, .. } = &meant {
                assert_eq!(told.name(&rope), b"bob");
            }
        }
    }
}

#[test]
fn no_mutation_panics() {
    //= G01 test
    for (payload, _) in every_kind() {
        consort_wire::mutate::each(&payload.to_bytes(), 3_000, |bytes| {
            let _ = decode(&Bytes::copy_from_slice(bytes).into());
        });
    }
}

#[test]
fn trailing_bytes_and_giants_are_refused() {
    let long = [disconnect(BOB), Bytes::from_static(b"x")].into_iter().collect();
    assert_eq!(decode(&long), Err(Malformed { what: "end", at: 5 }));
    let held = |bytes: &'static [u8]| [hold::<GroupName>(BOB, &[]), Bytes::from_static(bytes)].into_iter().collect();
    assert_eq!(decode(&held(b"x")), Err(Malformed { what: "hold", at: 5 }), "it ends, but something follows");
    let more = [hold(BOB, &[group()]), Bytes::from_static(b"x")].into_iter().collect::<Payload>();
    assert_eq!(decode(&more), Err(Malformed { what: "end", at: more.len() - 1 }));
    let giant = [leave(BOB, &group()), Bytes::from(vec![0; 1 << 20])].into_iter().collect();
    assert_eq!(decode(&giant), Err(Malformed { what: "length", at: CONTROL_MAX }));
    assert_eq!(decode(&Payload::new()), Err(Malformed { what: "kind", at: 0 }));
}

#[test]
fn what_daemons_do_not_say_of_keys_is_malformed() {
    let key = KeyName { epoch: 2, fingerprint: 3 };
    let good = KeyMessage::Propose { key, number: 5 }.encode();
    let with = |at: usize, byte: u8| {
        let mut bad = good.to_vec();
        bad[at] = byte;
        decode(&Bytes::from(bad).into()).unwrap_err().what
    };
    assert_eq!((with(1, 5), with(3, 0), with(1, 1)), ("answer", "epoch", "proposal"));
    assert_eq!(decode(&good.slice(..9).into()).unwrap_err().what, "fingerprint");
}
