//! Producers: what daemons know of them, through views that count and others.
use super::exchange::Cluster;
use super::*;
use crate::{
    CountsWhen, HistoryPlace, NumberRefused, Numbered, OpenRefused, OpenRequest, Opened, ProducerId, Producers,
};
use consort_types::Rng;

const P: ProducerId = ProducerId([1; 16]);
const Q: ProducerId = ProducerId([2; 16]);

/// Three daemons of three configured ones.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(3);
    (0..3).for_each(|me| cluster.groups(me).configure(3, false));
    cluster
}

/// One that takes the producer from whoever has it.
fn claim(producer: ProducerId, known: bool) -> OpenRequest {
    OpenRequest { producer, session: 1, attempt: 0, opened: 0, known }
}

fn open(cluster: &mut Cluster, at: u16, producer: ProducerId, known: bool) -> Result<Opened, OpenRefused> {
    open_as(cluster, at, claim(producer, known))
}

fn open_as(cluster: &mut Cluster, at: u16, request: OpenRequest) -> Result<Opened, OpenRefused> {
    let payload = ordered::open(ClientId(1), &request).into();
    let nodes = cluster.with(at);
    let mut answers = nodes.iter().map(|me| match deliver(cluster.groups(*me), at, &payload) {
        GroupDelivery::Opened { opened, .. } => opened,
        other => panic!("{other:?}"),
    });
    let first = answers.next().unwrap();
    answers.for_each(|answer| assert_eq!(answer, first));
    first
}

fn numbered(producer: ProducerId, epoch: HistoryPlace, number: u64) -> Payload {
    let head = ordered::numbered_prefix(Numbered { producer, epoch, number });
    std::iter::once(head).chain(multicast(1, &["g"], b"x").parts().cloned()).collect()
}

/// Why it has no effect at one daemon.
fn judged(groups: &mut Groups, sender: u16, payload: &Payload) -> Option<NumberRefused> {
    match deliver(groups, sender, payload) {
        GroupDelivery::NotNumbered { cause, .. } => Some(cause),
        GroupDelivery::Multicast { .. } => None,
        other => panic!("{other:?}"),
    }
}

fn send(cluster: &mut Cluster, at: u16, payload: &Payload) -> Option<NumberRefused> {
    let nodes = cluster.with(at);
    let causes: Vec<_> = nodes.iter().map(|me| judged(cluster.groups(*me), at, payload)).collect();
    assert!(causes.iter().all(|cause| *cause == causes[0]), "{causes:?}");
    causes[0]
}

fn last(cluster: &mut Cluster, at: u16, producer: ProducerId) -> Option<u64> {
    cluster.groups(at).producers().get(producer).map(|record| record.last)
}

#[test]
fn each_number_has_its_effect_once_and_in_its_turn() {
    //= E01 test
    //= E02 test
    //= E03 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    assert_eq!(send(&mut cluster, 0, &numbered(P, HistoryPlace::default(), 1)), Some(NumberRefused::Forgotten));
    let first = open(&mut cluster, 0, P, false).unwrap();
    assert_eq!((first.last, first.forgotten), (0, false));
    for (number, cause) in [
        (2, Some(NumberRefused::Missing)),
        (1, None),
        (1, Some(NumberRefused::Missing)),
        (2, None),
        (u64::MAX, Some(NumberRefused::Missing)),
    ] {
        assert_eq!(send(&mut cluster, 0, &numbered(P, first.epoch, number)), cause, "{number}");
    }
    let second = open(&mut cluster, 1, P, true).unwrap();
    assert_eq!((second.last, second.forgotten), (2, false));
    assert!(second.epoch > first.epoch && second.at < second.epoch);
    assert_eq!(send(&mut cluster, 0, &numbered(P, first.epoch, 3)), Some(NumberRefused::Fenced));
    assert_eq!(send(&mut cluster, 1, &numbered(P, second.epoch, 3)), None);
    assert!(open(&mut cluster, 2, Q, true).unwrap().forgotten, "nobody knows of it");
}

#[test]
fn a_batch_takes_as_many_numbers_as_it_has_messages() {
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let epoch = open(&mut cluster, 0, P, false).unwrap().epoch;
    let frames = Bytes::from_static(b"\0\0\0\x06\x14\0\x01\x01ga\0\0\0\x05\x14\0\x01\x01g");
    let head = ordered::numbered_prefix(Numbered { producer: P, epoch, number: 1 });
    let prefix = ordered::batch_prefix(ClientId(1), &ClientName::unchosen(ClientId(1)));
    let batch: Payload = [head, prefix, frames].into_iter().collect();
    assert_eq!(send(&mut cluster, 0, &batch), None);
    assert_eq!(last(&mut cluster, 2, P), Some(2));
    assert_eq!(send(&mut cluster, 0, &batch), Some(NumberRefused::Missing));
}

#[test]
fn what_a_closed_group_refuses_takes_no_number() {
    //= E04 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let epoch = open(&mut cluster, 0, P, false).unwrap().epoch;
    for me in 0..3 {
        step(cluster.groups(me), 2, &join_closed(9, "g"));
        let shut = deliver(cluster.groups(me), 0, &numbered(P, epoch, 1));
        assert!(matches!(shut, GroupDelivery::Shut { .. }), "{shut:?}");
    }
    assert_eq!(last(&mut cluster, 1, P), Some(0));
    assert_eq!(send(&mut cluster, 0, &numbered(P, epoch, 2)), Some(NumberRefused::Missing));
}

#[test]
fn a_view_counts_once_it_is_primary_and_all_have_completed_it() {
    //= E05 test
    //= E08 test
    let mut cluster = cluster();
    assert_eq!(open(&mut cluster, 0, P, false), Err(OpenRefused::NotPrimary));
    cluster.count(&[0, 1]);
    assert_eq!(cluster.groups(0).counts_when(), CountsWhen::Remembered, "a first start needs all");
    cluster.install(&[0, 1, 2]);
    cluster.exchange(&[0, 1, 2]);
    assert_eq!(cluster.groups(0).counts_when(), CountsWhen::Completed);
    assert!(cluster.parts(0).is_empty(), "it is not primary yet");
    (0..3).for_each(|me| cluster.become_primary(me));
    for (sender, counts) in [(2, false), (0, false), (1, true)] {
        let complete = cluster.parts(sender);
        assert_eq!(complete.len(), 1);
        cluster.deliver(&[0, 1, 2], sender, &complete[0]);
        cluster.deliver(&[0, 1, 2], sender, &complete[0]);
        assert_eq!(cluster.groups(2).counts_when() == CountsWhen::Now, counts, "{sender}");
    }
    open(&mut cluster, 0, P, false).unwrap();
    cluster.count(&[1, 2]);
    assert_eq!(cluster.groups(1).counts_when(), CountsWhen::Now, "a majority remembers");
    cluster.install(&[0]);
    assert_eq!(open(&mut cluster, 0, P, true), Err(OpenRefused::NotPrimary));
    assert_eq!(last(&mut cluster, 0, P), Some(0), "a table that does not count is kept");
}

#[test]
fn no_policy_and_no_number_of_nodes_never_count() {
    let mut cluster = Cluster::new(1);
    cluster.count(&[0]);
    assert_eq!(cluster.groups(0).counts_when(), CountsWhen::NoPolicy);
    cluster.groups(0).configure(1, false);
    let none = View { primary: Primary::NoPolicy, ..view(9, &[0]) };
    cluster.groups(0).install(&none);
    drain(cluster.groups(0));
    assert_eq!(cluster.groups(0).counts_when(), CountsWhen::NoPolicy);
}

/// Schedule 1 and 7: what one daemon alone delivers is no number of the others, who go on without it.
#[test]
fn what_only_a_lost_daemon_delivered_is_not_known_and_its_table_is_not_taken() {
    //= E07 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let epoch = open(&mut cluster, 0, P, false).unwrap().epoch;
    assert_eq!(judged(cluster.groups(0), 0, &numbered(P, epoch, 1)), None);
    cluster.install(&[0]);
    cluster.count(&[1, 2]);
    let again = open(&mut cluster, 1, P, true).unwrap();
    assert_eq!(again.last, 0);
    assert_eq!(send(&mut cluster, 1, &numbered(P, again.epoch, 1)), None);
    assert_eq!(send(&mut cluster, 1, &numbered(P, again.epoch, 2)), None);
    cluster.count(&[0, 1, 2]);
    assert_eq!([0, 1, 2].map(|me| last(&mut cluster, me, P)), [Some(2); 3], "of the view that counted later");
    assert_eq!(send(&mut cluster, 0, &numbered(P, epoch, 3)), Some(NumberRefused::Fenced));
}

/// Schedule 3: of two tables of which one is of a later view that counts, that one is taken, whoever is lowest.
#[test]
fn the_table_of_the_latest_view_that_counts_is_taken_not_the_lowest_daemons() {
    //= E07 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    open(&mut cluster, 0, P, false).unwrap();
    cluster.install(&[0]);
    cluster.count(&[1, 2]);
    let epoch = open(&mut cluster, 2, P, true).unwrap().epoch;
    assert_eq!(send(&mut cluster, 2, &numbered(P, epoch, 1)), None);
    cluster.install(&[1]);
    cluster.count(&[0, 2]);
    assert_eq!([0, 2].map(|me| last(&mut cluster, me, P)), [Some(1); 2]);
    //= E29 test
    assert_eq!([0, 2].map(|me| cluster.groups(me).took_history()), [true, false]);
    cluster.count(&[0, 2]);
    assert!(!cluster.groups(0).took_history(), "from here on both have one history");
}

/// Schedule 4: the last *complete* is delivered while the view is closing, and still counts.
#[test]
fn a_view_that_is_completed_while_it_closes_is_the_latest() {
    //= E05 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let epoch = open(&mut cluster, 1, P, false).unwrap().epoch;
    assert_eq!(send(&mut cluster, 1, &numbered(P, epoch, 1)), None);
    cluster.install(&[0]);
    cluster.install(&[1, 2]);
    cluster.exchange(&[1, 2]);
    [1, 2].iter().for_each(|me| cluster.become_primary(*me));
    let completes = [1, 2].map(|me| cluster.parts(me).remove(0));
    for me in [1, 2] {
        cluster.deliver(&[me], 1, &completes[0]);
    }
    cluster.deliver(&[1], 2, &completes[1]);
    let again = ordered::open(ClientId(1), &claim(P, true)).into();
    let GroupDelivery::Opened { opened: Ok(opened), .. } = deliver(cluster.groups(1), 1, &again) else { panic!() };
    let second = numbered(P, opened.epoch, 2);
    assert_eq!(judged(cluster.groups(1), 1, &second), None);
    // Daemon 2 holds all of it, and delivers it while the view is closing.
    let closing = View { kind: ViewKind::Transitional, members: vec![daemon(2)], ..view(0, &[2]) };
    cluster.groups(2).install(&closing);
    drain(cluster.groups(2));
    cluster.deliver(&[2], 2, &completes[1]);
    cluster.deliver(&[2], 1, &again);
    assert_eq!(judged(cluster.groups(2), 1, &second), None);
    cluster.count(&[0, 2]);
    assert_eq!([0, 2].map(|me| last(&mut cluster, me, P)), [Some(2); 2]);
}

#[test]
fn nothing_numbered_has_an_effect_before_the_next_view_counts() {
    //= E03 test
    //= E05 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let epoch = open(&mut cluster, 1, P, false).unwrap().epoch;
    cluster.install(&[0, 1, 2]);
    assert_eq!(send(&mut cluster, 1, &numbered(P, epoch, 1)), Some(NumberRefused::NotPrimary));
    assert_eq!(last(&mut cluster, 0, P), Some(0));
}

/// An engine may mark the positions of what it delivers while the view is closing.
#[test]
fn an_epoch_is_one_for_those_who_deliver_it_while_the_view_is_closing() {
    //= E02 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let open = ordered::open(ClientId(1), &claim(P, false)).into();
    let place = Position(cluster.groups(0).place().at.0 + 1);
    let marked = Position(place.0 | 1 << 63);
    let opened = cluster.groups(0).deliver(daemon(0), place, &open).unwrap();
    let GroupDelivery::Opened { opened: Ok(Opened { epoch, .. }), .. } = opened else { panic!("{opened:?}") };
    let closing = View { kind: ViewKind::Transitional, members: vec![daemon(1), daemon(2)], ..view(0, &[1, 2]) };
    cluster.groups(1).install(&closing);
    drain(cluster.groups(1));
    cluster.groups(1).deliver(daemon(0), marked, &open).unwrap();
    assert_eq!(cluster.groups(1).producers().get(P).unwrap().epoch, epoch);
    assert_eq!([0, 1].map(|me| judged(cluster.groups(me), 0, &numbered(P, epoch, 1))), [None, None]);
}

/// Schedule 5 and 6: a daemon that starts anew makes no majority with one that was away.
#[test]
fn a_daemon_that_forgot_counts_for_no_majority() {
    //= E08 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    open(&mut cluster, 0, P, false).unwrap();
    cluster.install(&[0]);
    cluster.count(&[1, 2]);
    let epoch = open(&mut cluster, 1, P, true).unwrap().epoch;
    assert_eq!(send(&mut cluster, 1, &numbered(P, epoch, 1)), None);
    cluster.restart(2);
    cluster.groups(2).configure(3, false);
    cluster.count(&[0, 2]);
    assert_eq!(cluster.groups(0).counts_when(), CountsWhen::Remembered);
    assert_eq!(open(&mut cluster, 0, P, true), Err(OpenRefused::NotPrimary));
    // It has the table of another now. That is no memory of what it was there for.
    cluster.count(&[0, 2]);
    assert_eq!(cluster.groups(0).counts_when(), CountsWhen::Remembered, "without an exchange");
    cluster.install(&[0]);
    cluster.install(&[2]);
    cluster.count(&[0, 2]);
    assert_eq!(cluster.groups(2).counts_when(), CountsWhen::Remembered, "with one");
    cluster.count(&[0, 1, 2]);
    assert_eq!([0, 1, 2].map(|me| last(&mut cluster, me, P)), [Some(1); 3], "whoever remembers the latest is heard");
    for me in 0..3 {
        cluster.restart(me);
        cluster.groups(me).configure(3, false);
    }
    cluster.count(&[0, 1, 2]);
    assert!(open(&mut cluster, 0, P, true).unwrap().forgotten);
}

/// Tables that no one remembers live on with those who took them.
#[test]
fn a_table_that_went_from_daemon_to_daemon_is_no_memory() {
    //= E08 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let epoch = open(&mut cluster, 1, P, false).unwrap().epoch;
    cluster.install(&[0]);
    cluster.count(&[1, 2]);
    let epoch = open(&mut cluster, 1, P, true).map_or(epoch, |opened| opened.epoch);
    assert_eq!(send(&mut cluster, 1, &numbered(P, epoch, 1)), None);
    for me in [1, 2] {
        cluster.restart(me);
        cluster.groups(me).configure(3, false);
    }
    cluster.count(&[0, 1]);
    assert_eq!(cluster.groups(0).counts_when(), CountsWhen::Remembered);
    cluster.restart(0);
    cluster.groups(0).configure(3, false);
    cluster.count(&[0, 1]);
    assert_eq!(last(&mut cluster, 0, P), Some(0), "of the view before that in which it sent");
    cluster.count(&[0, 1, 2]);
    assert!(open(&mut cluster, 0, P, true).unwrap().forgotten);
    assert_eq!(last(&mut cluster, 2, P), Some(0));
}

/// Where all views are in one order, one that missed none knows what was the latest.
#[test]
fn in_one_order_one_member_of_the_view_before_is_memory_enough() {
    //= E08 test
    let mut cluster = cluster();
    (0..3).for_each(|me| cluster.groups(me).configure(3, true));
    cluster.count(&[0, 1]);
    assert_eq!(cluster.groups(0).counts_when(), CountsWhen::Remembered, "a first start needs all");
    cluster.count(&[0, 1, 2]);
    let send_anew = |cluster: &mut Cluster, me| {
        let opened = open(cluster, me, P, true).unwrap();
        assert_eq!(send(cluster, me, &numbered(P, opened.epoch, opened.last + 1)), None);
        (opened.last, opened.forgotten)
    };
    let restart = |cluster: &mut Cluster, me| {
        cluster.restart(me);
        cluster.groups(me).configure(3, true);
    };
    open(&mut cluster, 0, P, false).unwrap();
    assert_eq!(send_anew(&mut cluster, 0), (0, false));
    cluster.count(&[0]);
    assert_eq!(send_anew(&mut cluster, 0), (1, false), "two were left out");
    restart(&mut cluster, 1);
    cluster.count(&[0, 1]);
    assert_eq!(send_anew(&mut cluster, 1), (2, false));
    [0, 1].into_iter().for_each(|me| restart(&mut cluster, me));
    cluster.missed.insert(2);
    cluster.count(&[1, 2]);
    assert_eq!(cluster.groups(2).counts_when(), CountsWhen::Remembered, "what it remembers is of an earlier view");
    cluster.count(&[0, 1, 2]);
    assert!(open(&mut cluster, 0, P, true).unwrap().forgotten);
}

/// Whoever asked may have lost its connection, or its view, before it was told.
#[test]
fn that_a_producer_was_forgotten_is_told_until_it_sends() {
    //= E08 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    assert!(open(&mut cluster, 0, P, true).unwrap().forgotten);
    cluster.count(&[0, 1]);
    cluster.count(&[0, 1, 2]);
    let again = open(&mut cluster, 2, P, true).unwrap();
    assert!(again.forgotten, "nobody may have been told so far");
    assert_eq!(send(&mut cluster, 2, &numbered(P, again.epoch, 1)), None);
    assert!(!open(&mut cluster, 1, P, true).unwrap().forgotten, "who sends was told");
}

/// They may have waited since the view before.
#[test]
fn what_daemons_say_of_producers_is_not_early() {
    let mut cluster = cluster();
    cluster.install(&[0, 1, 2]);
    let early = |groups: &mut Groups| {
        let mut early = 0;
        groups.observe(&mut |name, value| early += if name == "group_early_messages" { value } else { 0 });
        early
    };
    let open = ordered::open(ClientId(1), &claim(P, false));
    for (payload, counted) in [(ordered::confirm(), 0), (ordered::complete(ViewId::default()), 0), (open, 1)] {
        deliver(cluster.groups(0), 1, &payload.into());
        assert_eq!(early(cluster.groups(0)), counted);
    }
}

#[test]
fn an_opening_that_comes_late_fences_nobody() {
    //= E12 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let own = |attempt| OpenRequest { attempt, opened: 1, known: true, ..claim(P, false) };
    let other = OpenRequest { session: 2, ..claim(P, true) };
    assert!(open_as(&mut cluster, 0, OpenRequest { attempt: 1, ..claim(P, false) }).is_ok());
    assert!(open_as(&mut cluster, 1, own(2)).is_ok());
    let epoch = open_as(&mut cluster, 1, own(2)).unwrap().epoch;
    // Its daemon before ordered this one late; the session has gone on.
    assert_eq!(open_as(&mut cluster, 0, own(1)), Err(OpenRefused::Fenced));
    assert_eq!(open_as(&mut cluster, 0, claim(P, false)), Err(OpenRefused::Fenced));
    assert_eq!(send(&mut cluster, 1, &numbered(P, epoch, 1)), None);
    let taken = open_as(&mut cluster, 2, other).unwrap();
    assert_eq!((taken.last, taken.forgotten), (1, false));
    assert_eq!(open_as(&mut cluster, 1, own(3)), Err(OpenRefused::Fenced));
    assert_eq!(send(&mut cluster, 2, &numbered(P, taken.epoch, 2)), None);
}

/// Seed 3582 of Ring Paxos: all daemons but one had restarted, and one of them still had the request of a connection before.
#[test]
fn an_opening_that_comes_late_makes_no_record_that_its_session_takes_for_its_own() {
    //= E08 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let own = |attempt, opened| OpenRequest { attempt, opened, known: opened > 0, ..claim(P, false) };
    let epoch = open_as(&mut cluster, 0, own(2, 0)).unwrap().epoch;
    assert_eq!(send(&mut cluster, 0, &numbered(P, epoch, 1)), None);
    for me in 0..3 {
        cluster.restart(me);
        cluster.groups(me).configure(3, false);
    }
    cluster.count(&[0, 1, 2]);
    let late = open_as(&mut cluster, 1, own(1, 0)).unwrap();
    assert!(!late.forgotten, "it knew nothing of the producer");
    assert!(open_as(&mut cluster, 1, own(3, 2)).unwrap().forgotten);
    let again = open_as(&mut cluster, 2, own(4, 2)).unwrap();
    assert!(again.forgotten, "the answer to the one before may be lost");
    assert_eq!(send(&mut cluster, 2, &numbered(P, again.epoch, 1)), None);
    let told = open_as(&mut cluster, 0, own(5, 4)).unwrap();
    assert_eq!((told.last, told.forgotten), (1, false));
}

#[test]
fn a_record_is_forgotten_only_where_it_still_stands() {
    //= E10 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let epoch = open(&mut cluster, 0, P, false).unwrap().epoch;
    assert_eq!(send(&mut cluster, 0, &numbered(P, epoch, 1)), None);
    let at = cluster.groups(0).producers().get(P).unwrap().at;
    cluster.deliver(&[0, 1, 2], 1, &ordered::forget(ClientId(0), P, epoch).into());
    assert_eq!(last(&mut cluster, 2, P), Some(1), "it has moved since");
    cluster.deliver(&[0, 1, 2], 1, &ordered::forget(ClientId(0), P, at).into());
    assert_eq!(last(&mut cluster, 2, P), None);
    assert_eq!(send(&mut cluster, 0, &numbered(P, epoch, 2)), Some(NumberRefused::Forgotten));
}

#[test]
fn a_full_table_refuses_others_and_is_exchanged_in_parts_of_bounded_size() {
    //= E11 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let producer = |n: usize| ProducerId((n as u128).to_be_bytes());
    for n in 0..Producers::MOST {
        open(&mut cluster, 0, producer(n), false).unwrap();
    }
    assert_eq!(open(&mut cluster, 1, P, false), Err(OpenRefused::Full));
    assert!(open(&mut cluster, 1, producer(7), true).is_ok());
    cluster.install(&[2]);
    cluster.count(&[0, 1]);
    cluster.restart(2);
    cluster.groups(2).configure(3, false);
    cluster.install(&[0, 1, 2]);
    let parts: Vec<_> = (0..3).flat_map(|me| cluster.parts(me).into_iter().map(move |part| (me, part))).collect();
    assert!(parts.iter().all(|(_, part)| part.len() <= crate::part::PART_MAX) && parts.len() > 100);
    for (sender, part) in parts {
        cluster.deliver(&[0, 1, 2], sender, &part);
    }
    assert_eq!(cluster.groups(2).producers().len(), Producers::MOST);
    assert_eq!(known(&mut cluster, 2), known(&mut cluster, 0));
}

#[test]
fn a_set_whose_lowest_is_not_understood_has_no_table() {
    //= E07 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    open(&mut cluster, 1, P, false).unwrap();
    cluster.install(&[0]);
    cluster.count(&[1, 2]);
    open(&mut cluster, 1, Q, false).unwrap();
    cluster.install(&[0, 1, 2]);
    for sender in [0, 1, 2] {
        for part in cluster.parts(sender) {
            if sender == 1 {
                let broken = Bytes::from(part.to_bytes()[..20].to_vec());
                cluster.deliver(&[0, 1, 2], sender, &broken.into());
            } else {
                cluster.deliver(&[0, 1, 2], sender, &part);
            }
        }
    }
    for me in 0..3 {
        let known = [P, Q].map(|producer| cluster.groups(me).producers().get(producer).is_some());
        assert_eq!(known, [true, false], "all take what daemon 0 says, {me}");
    }
}

/// All that a daemon knows of producers.
fn known(cluster: &mut Cluster, at: u16) -> String {
    format!("{:?}", cluster.groups(at).producers().all().collect::<Vec<_>>())
}

/// Views, openings and sends of chance: at each place of a view that counts all its members know the same.
#[test]
fn members_of_a_view_that_counts_agree_whatever_happened_before() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut cluster = cluster();
        cluster.count(&[0, 1, 2]);
        let mut epochs = [HistoryPlace::default(); 2];
        for _ in 0..40 {
            let at = rng.below(3) as u16;
            let which = rng.below(2) as usize;
            let producer = [P, Q][which];
            match rng.below(6) {
                0 => {
                    let nodes: Vec<u16> = (0..3).filter(|_| rng.below(3) > 0).collect();
                    if !nodes.is_empty() {
                        cluster.part(&nodes);
                    }
                }
                1 => {
                    cluster.restart(at);
                    cluster.groups(at).configure(3, false);
                }
                2 | 3 => {
                    if let Ok(opened) = open(&mut cluster, at, producer, true) {
                        epochs[which] = opened.epoch;
                    }
                }
                _ => {
                    let next = last(&mut cluster, at, producer).unwrap_or(0) + 1;
                    send(&mut cluster, at, &numbered(producer, epochs[which], next));
                }
            }
            for me in 0..3_u16 {
                let nodes = cluster.with(me);
                if cluster.groups(me).counts_when() == CountsWhen::Now {
                    let own = known(&mut cluster, me);
                    nodes.iter().for_each(|other| assert_eq!(known(&mut cluster, *other), own, "seed {seed}"));
                }
            }
        }
    }
}

#[test]
fn what_can_have_no_effect_any_more_is_not_offered() {
    //= G40 test
    let mut cluster = cluster();
    cluster.count(&[0, 1, 2]);
    let first = open(&mut cluster, 0, P, false).unwrap();
    (0..3).for_each(|me| drop(step(cluster.groups(me), 1, &join(1, "g"))));
    let offered = |cluster: &mut Cluster, message: &Payload| {
        cluster.groups(1).recipients(daemon(0), message).map_or(0, |(_, who)| who.len())
    };
    let [one, two, three] = [1, 2, 3].map(|number| numbered(P, first.epoch, number));
    assert_eq!([&one, &two].map(|message| offered(&mut cluster, message)), [1, 1], "the second may follow the first");
    assert_eq!(send(&mut cluster, 0, &one), None);
    assert_eq!([&one, &two].map(|message| offered(&mut cluster, message)), [0, 1], "the first came before");
    let second = open(&mut cluster, 1, P, true).unwrap();
    assert_eq!(offered(&mut cluster, &three), 0, "another connection has the producer");
    let next = numbered(P, second.epoch, 2);
    assert_eq!(offered(&mut cluster, &next), 1);
    cluster.install(&[0, 1]);
    assert_eq!(offered(&mut cluster, &next), 0, "the view does not count yet");
}
