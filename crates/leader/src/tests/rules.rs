//! The rules one by one.
use crate::{Act, CandidateId, Command, Effect, Election, Fence, LostCause, Notice, Timing, TimingError};
use consort_types::Instant;
use std::time::Duration;

const ME: CandidateId = CandidateId([1; 16]);
const OTHER: CandidateId = CandidateId([2; 16]);

fn ms(ms: u64) -> Instant {
    Instant(ms * 1_000_000)
}

fn other(view: u64, act: Act) -> Command {
    Command { candidate: OTHER, serial: 1, view, act }
}

/// A candidate in view 7, with a lease of a second and clocks that err by a tenth at most.
struct Script(Election);

impl Script {
    fn new() -> Self {
        let mut election = Election::new(ME, Timing::new(Duration::from_secs(1), 100_000).unwrap());
        election.stand(ms(0));
        election.handle_view(ms(0), 7);
        Self(election)
    }

    /// It has said that it stands, and that stands at position 1.
    fn started() -> Self {
        let mut script = Self::new();
        script.receive_own(0, 1, &Act::Stand);
        script
    }

    /// It has claimed at 1300 ms, at position 2, received at 1350 ms.
    fn elected() -> Self {
        let mut script = Self::started();
        script.0.handle_timeout(ms(1_300));
        script.receive_own(1_350, 2, &Act::Claim { anchor: 1 });
        assert_eq!(script.0.leads(ms(1_350)), Some(Fence::new(7, 2)));
        script
    }

    fn sent(&mut self) -> Option<Command> {
        std::iter::from_fn(|| self.0.poll_effect()).find_map(|effect| match effect {
            Effect::Send(command) => Some(command),
            Effect::Tell(_) => None,
        })
    }

    fn told(&mut self) -> Vec<Notice> {
        let tell = |effect| match effect {
            Effect::Tell(notice) => Some(notice),
            Effect::Send(_) => None,
        };
        std::iter::from_fn(|| self.0.poll_effect()).filter_map(tell).collect()
    }

    /// It has sent this, and now receives it.
    fn receive_own(&mut self, now: u64, position: u128, act: &Act) {
        let command = self.sent().unwrap_or_else(|| panic!("{act:?} was not sent"));
        assert_eq!(command.act, *act);
        self.0.handle_command(ms(now), position, &command);
        self.0.handle_settled(ms(now), command.serial, true);
    }
}

#[test]
fn a_lease_is_counted_from_sending_and_renewed_in_time() {
    //= L01 test
    let mut script = Script::elected();
    assert_eq!(script.0.lease(), Some((Fence::new(7, 2), ms(2_300))), "sent at 1300");
    script.0.handle_timeout(ms(1_549));
    assert_eq!(script.sent(), None);
    script.0.handle_timeout(ms(1_550));
    script.receive_own(1_900, 3, &Act::Renew { fence: Fence::new(7, 2) });
    assert_eq!(script.0.lease(), Some((Fence::new(7, 2), ms(2_550))));
    assert_eq!(script.0.leads(ms(2_550)), None);
    script.told();
    script.0.handle_timeout(ms(2_550));
    let lost = Notice::Lost { fence: Fence::new(7, 2), cause: LostCause::Expired };
    assert_eq!(script.told(), [lost]);
}

#[test]
fn a_renewal_that_is_received_when_the_lease_has_ended_renews_nothing() {
    //= L01 test
    let mut script = Script::elected();
    script.0.handle_timeout(ms(2_200));
    let renewal = script.sent().unwrap();
    assert_eq!(renewal.act, Act::Renew { fence: Fence::new(7, 2) });
    script.told();
    script.0.handle_command(ms(2_310), 3, &renewal);
    assert_eq!(script.0.lease(), None, "it stood still from 2200 to 2310 ms, and its lease ended at 2300");
    let lost = Notice::Lost { fence: Fence::new(7, 2), cause: LostCause::Expired };
    assert!(script.told().contains(&lost), "it must claim again");
}

#[test]
fn who_hears_nothing_in_a_view_says_that_it_stands_and_whoever_hears_a_message_does_not() {
    //= L02 test
    let mut silent = Script::new();
    assert_eq!(silent.sent().map(|command| command.act), Some(Act::Stand));
    let mut election = Election::new(ME, Timing::default());
    election.handle_view(ms(0), 7);
    let first = election.poll_effect();
    assert!(matches!(first, Some(Effect::Send(Command { view: 7, act: Act::Stand, .. }))), "{first:?}");
    election.handle_command(ms(1), 4, &other(7, Act::Stand));
    assert_eq!(election.poll_effect(), None);
}

#[test]
fn another_view_ends_the_wait_and_not_the_lease() {
    //= L03 test
    let mut script = Script::elected();
    script.0.handle_view(ms(1_400), 9);
    assert_eq!(script.0.leads(ms(1_400)), Some(Fence::new(7, 2)));
    script.receive_own(1_450, 1, &Act::Renew { fence: Fence::new(7, 2) });
    assert_eq!(script.0.lease(), Some((Fence::new(7, 2), ms(2_400))));
    let mut waits = Script::started();
    waits.0.handle_view(ms(1_200), 9);
    waits.receive_own(1_210, 1, &Act::Stand);
    waits.0.handle_timeout(ms(2_400));
    assert_eq!(waits.sent(), None);
    waits.0.handle_command(ms(2_401), 2, &other(7, Act::Claim { anchor: 1 }));
    assert_eq!(waits.0.leader(), None, "it is meant for an earlier view");
}

#[test]
fn what_is_received_in_closing_begins_no_lease() {
    //= L04 test
    let mut script = Script::started();
    script.0.handle_timeout(ms(1_300));
    script.0.handle_closing(ms(1_310));
    script.receive_own(1_320, 2, &Act::Claim { anchor: 1 });
    assert_eq!((script.0.leads(ms(1_320)), script.sent()), (None, None));
    assert_eq!(script.0.leader(), Some((ME, Fence::new(7, 2))), "others may think so");
}

#[test]
fn a_claim_is_void_behind_anything_that_touched_the_lease() {
    //= L05 test
    //= L06 test
    for act in [Act::Claim { anchor: 1 }, Act::Renew { fence: Fence::new(6, 1) }, Act::Resign { anchor: 0 }] {
        let mut script = Script::started();
        script.0.handle_timeout(ms(1_300));
        script.0.handle_command(ms(1_310), 2, &other(7, act.clone()));
        script.receive_own(1_320, 3, &Act::Claim { anchor: 1 });
        assert_eq!(script.0.leads(ms(1_320)), None, "{act:?}");
        script.0.handle_timeout(ms(2_500));
        assert_eq!(script.sent(), None, "it waits anew: {act:?}");
    }
}

#[test]
fn a_claim_of_which_the_start_was_missed_counts_as_anothers() {
    //= L06 test
    let mut election = Election::new(ME, Timing::default());
    election.handle_view(ms(0), 7);
    election.handle_command(ms(1), 5, &other(7, Act::Claim { anchor: 3 }));
    assert_eq!(election.leader(), Some((OTHER, Fence::new(7, 5))));
    // Another that claimed from the same anchor came too late, whatever stands before.
    election.handle_command(ms(1), 6, &Command { candidate: ME, ..other(7, Act::Claim { anchor: 3 }) });
    assert_eq!(election.leader(), Some((OTHER, Fence::new(7, 5))));
    assert!(election.is_current(Fence::new(7, 5)));
    // What renews is right.
    election.handle_command(ms(2), 7, &other(7, Act::Renew { fence: Fence::new(7, 4) }));
    assert_eq!(election.leader(), Some((OTHER, Fence::new(7, 4))));
}

#[test]
fn a_successor_waits_for_a_lease_on_the_slowest_clock_by_the_fastest() {
    //= L07 test
    let timing = Timing::new(Duration::from_secs(1), 100_000).unwrap();
    assert_eq!(timing.wait().as_nanos(), 1_222_222_224);
    let mut script = Script::started();
    script.0.handle_command(ms(500), 2, &other(7, Act::Renew { fence: Fence::new(6, 9) }));
    script.0.handle_timeout(ms(1_722));
    assert_eq!(script.sent(), None);
    script.0.handle_timeout(ms(1_723));
    assert_eq!(script.sent().map(|command| command.act), Some(Act::Claim { anchor: 2 }));
}

#[test]
fn behind_a_hole_nothing_sent_before_begins_a_lease() {
    //= L08 test
    let mut script = Script::started();
    script.0.handle_timeout(ms(1_300));
    let claim = script.sent().unwrap();
    script.0.handle_hole(ms(1_310));
    script.0.handle_view(ms(1_320), 7);
    script.0.handle_command(ms(1_330), 9, &claim);
    assert_eq!(script.0.leads(ms(1_330)), None);
    let mut leads = Script::elected();
    leads.0.handle_hole(ms(1_360));
    assert_eq!(leads.0.leads(ms(1_360)), Some(Fence::new(7, 2)), "its lease goes on");
}

#[test]
fn fences_rise_with_views_and_places() {
    //= L09 test
    let late = crate::fence::place(u64::MAX, 7);
    assert!(crate::fence::place(1 << 62, 0) < late && late < crate::fence::place(u64::MAX, 8));
    assert!(
        Fence::new(5, late) < Fence::new(6, 0) && Fence::from(u128::from(Fence::new(5, late))) == Fence::new(5, late)
    );
    let fences = [Fence::new(1, 9), Fence::new(2, 1), Fence::new(2, 3), Fence::new(1 << 40, 0)];
    assert!(fences.is_sorted() && fences.map(u128::from).is_sorted());
    for fence in fences {
        assert_eq!((fence.to_string().parse(), u128::from(fence).into()), (Ok(fence), fence));
    }
    assert!("x".parse::<Fence>().unwrap_err().to_string().contains("decimal number"));
}

#[test]
fn who_resigns_stops_first_and_others_do_not_wait() {
    //= L10 test
    let mut leads = Script::elected();
    leads.told();
    leads.0.resign(ms(1_400));
    assert_eq!(leads.0.leads(ms(1_400)), None);
    leads.receive_own(1_410, 3, &Act::Resign { anchor: 2 });
    assert_eq!(leads.0.leader(), None);
    let mut waits = Script::started();
    waits.0.handle_command(ms(1_000), 2, &other(7, Act::Claim { anchor: 1 }));
    waits.0.handle_command(ms(1_010), 3, &other(7, Act::Resign { anchor: 2 }));
    assert_eq!(waits.sent().map(|command| command.act), Some(Act::Claim { anchor: 3 }));
}

#[test]
fn what_an_earlier_leader_decides_does_not_count() {
    //= L11 test
    let script = Script::elected();
    assert!(script.0.is_current(Fence::new(7, 2)) && script.0.is_current(Fence::new(8, 1)));
    assert!(!script.0.is_current(Fence::new(7, 1)));
}

#[test]
fn bad_timings_are_told_with_what_would_do() {
    let short = Timing::new(Duration::from_millis(99), 0).unwrap_err();
    assert!(matches!(short, TimingError::Lease { .. }) && short.to_string().contains("100 ms to one hour"), "{short}");
    let bad = Timing::new(Duration::from_secs(1), 250_001).unwrap_err();
    assert!(matches!(bad, TimingError::Drift { .. }) && bad.to_string().contains("0 to 250000"), "{bad}");
}
