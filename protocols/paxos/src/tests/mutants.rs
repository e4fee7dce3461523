//! Every rule that is broken on purpose is noticed, and by which promise.
use super::seeds::{draw, run};
use super::{
    advice as a, away as w, copies as c, lost_logs as l, put_back as p, retention as r, scenes as s, stalls,
    violations as v,
};
use crate::Mutant;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static BROKEN: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// The rule that is broken in all worlds of this thread, or by `cargo xtask mutants` in all.
pub fn broken() -> Option<Mutant> {
    let name = || std::env::var("CONSORT_PAXOS_MUTANT").unwrap_or_default();
    BROKEN.get().or_else(|| Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name()))
}

/// What a judge says of it, if anything: the promise's name stands before the colon.
fn noticed(mutant: Mutant, play: impl FnOnce()) -> Option<String> {
    BROKEN.set(Some(mutant));
    let played = catch_unwind(AssertUnwindSafe(play));
    BROKEN.set(None);
    let panic = played.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
}

/// Where a rule is missed.
enum Where {
    /// In one of the first seeds.
    Seeds,
    /// Where it is made to happen.
    Scene(fn()),
}
use Where::{Scene, Seeds};

/// Each rule, the promise that its loss breaks, and where.
const NOTICED: &[(Mutant, &str, Where)] = &[
    (Mutant::SmallQuorum, "quorum", Seeds),
    (Mutant::VotesCounted, "quorum", Scene(v::a_vote_that_comes_twice_counts_once)),
    (Mutant::OldVotesCount, "quorum", Scene(v::votes_of_an_incarnation_that_has_a_later_one_do_not_count)),
    (Mutant::OldPromisesCount, "quorum", Scene(v::promises_of_an_incarnation_that_has_a_later_one_do_not_count)),
    (Mutant::OldItemKept, "one value for a ballot", Scene(v::what_is_voted_for_is_what_is_kept)),
    (Mutant::AcceptsBelow, "promises", Scene(v::an_older_ballot_does_not_overwrite_what_a_later_one_had_accepted)),
    (Mutant::PromiseUnraised, "promises", Scene(v::an_older_ballot_does_not_overwrite_what_a_later_one_had_accepted)),
    (Mutant::PromisesBelow, "promises", Scene(v::a_ballot_below_the_promise_is_refused)),
    (Mutant::EqualRefused, "liveness", Scene(v::a_request_that_comes_again_is_promised_again)),
    (Mutant::RefusesSilently, "refusal", Scene(s::a_refused_candidate_is_told_by_whom_and_stands_above_that)),
    (Mutant::PromisesUnkept, "kept first", Seeds),
    (Mutant::VotesUnkept, "quorum", Seeds),
    (Mutant::StandsUnkept, "kept first", Seeds),
    (Mutant::RoundReused, "ballots", Scene(s::nobody_uses_a_ballot_before_its_disk_holds_it)),
    (Mutant::BallotWithoutIncarnation, "ballots", Scene(v::two_lives_of_one_node_never_share_a_ballot)),
    (Mutant::AcceptedIgnored, "one value", Seeds),
    (Mutant::StartsBelow, "one value", Scene(v::a_coordinator_learns_what_is_decided_and_fills_no_holes_below)),
    (Mutant::PayloadReplaced, "liveness", Scene(v::a_payload_outlives_the_item_that_alone_held_it)),
    (Mutant::InheritsUnheld, "payloads", Scene(v::what_others_accepted_is_proposed_again_once_its_payload_is_held)),
    (Mutant::ProposesUnheld, "payloads", Scene(v::a_value_is_proposed_once_its_payload_is_held)),
    (Mutant::InheritedOvertaken, "sender's order", Scene(v::nothing_new_overtakes_what_others_accepted)),
    (Mutant::AcceptsOnce, "liveness", Seeds),
    (
        Mutant::RecoversAlone,
        "quorum",
        Scene(v::it_votes_when_a_majority_of_the_others_has_told_it_what_it_may_have_promised),
    ),
    (Mutant::AdoptsUnlearnt, "one value", Scene(v::it_votes_once_it_has_learnt_what_any_of_them_knows_to_be_decided)),
    (Mutant::EmptyDiskTrusted, "quorum", Scene(v::an_acceptor_that_forgot_neither_promises_nor_votes)),
    (
        Mutant::AnyIncarnationBegan,
        "quorum",
        Scene(s::an_acceptor_that_forgot_is_not_taken_for_the_one_that_began_the_log),
    ),
    (Mutant::BlankVotes, "quorum", Scene(v::an_acceptor_that_forgot_neither_promises_nor_votes)),
    (Mutant::LogNameFirst, "promises", Scene(v::half_of_what_it_adopted_counts_as_nothing)),
    (Mutant::LearntUnwritten, "replay", Seeds),
    (Mutant::CopiesTrusted, "one value", Scene(p::a_copy_does_not_vote_before_a_majority_of_others_answers)),
    (Mutant::PutBackVotes, "put back", Scene(p::records_that_end_before_a_vote_another_knows_of_count_as_lost)),
    (Mutant::AskersVote, "liveness", Scene(w::one_that_only_asked_makes_its_earlier_records_no_older)),
    (Mutant::AnyLogsVoters, "away", Scene(w::votes_in_another_log_make_no_records_older)),
    (
        Mutant::Unannounced,
        "put back",
        Scene(v::it_votes_when_a_majority_of_the_others_has_told_it_what_it_may_have_promised),
    ),
    (
        Mutant::AdopterForgotten,
        "announced",
        Scene(w::one_that_has_not_voted_since_it_forgot_needs_a_quorum_of_the_others_after_a_restart_too),
    ),
    (Mutant::AnyWitness, "witness", Scene(w::one_that_may_come_back_with_another_disk_is_no_witness)),
    (Mutant::OlderAnswers, "older", Scene(w::one_whose_records_are_older_answers_no_others)),
    (Mutant::GivenUpAlone, "given up", Scene(w::no_records_are_given_up_that_too_few_others_make_up_for)),
    (
        Mutant::ConfirmedUndone,
        "confirmed",
        Scene(w::an_announcement_that_came_to_nothing_makes_no_confirmed_records_older),
    ),
    (Mutant::LogByMajority, "one log", Scene(s::a_log_is_begun_by_all_acceptors_together_and_by_no_fewer)),
    (
        Mutant::BindsSuperseded,
        "one log",
        Scene(v::one_that_promised_nothing_binds_itself_to_no_log_that_others_may_leave),
    ),
    (Mutant::AnyLogHeeded, "one log", Scene(s::packets_of_another_log_are_not_heeded)),
    (Mutant::LiveLogLeft, "one log", Scene(l::no_log_is_left_while_enough_acceptors_vote_in_it)),
    (Mutant::LostLogKept, "liveness", Scene(l::who_lives_on_follows_acceptors_that_have_all_restarted)),
    (Mutant::HolesDecided, "one value", Scene(v::nobody_tells_of_what_it_does_not_know)),
    (Mutant::NothingRelearnt, "liveness", Seeds),
    (Mutant::AwaitsTheGone, "liveness", Scene(s::who_cannot_answer_is_not_waited_for)),
    (Mutant::AnyTurnCounts, "sender's order", Scene(v::values_count_in_their_view_in_their_turn_and_once)),
    (Mutant::DuplicatesCount, "sender's order", Scene(v::values_count_in_their_view_in_their_turn_and_once)),
    (Mutant::AnyViewCounts, "sender's order", Scene(v::values_count_in_their_view_in_their_turn_and_once)),
    (Mutant::NamesReused, "names", Scene(v::no_two_values_have_one_name)),
    (Mutant::HeldStops, "liveness", Scene(v::a_value_that_is_sent_again_goes_all_the_way_round)),
    (Mutant::RingUnmended, "ring", Scene(v::a_silent_node_is_left_out_of_the_ring)),
    (Mutant::LeaseIgnored, "lease", Scene(s::two_that_do_not_hear_each_other_do_not_take_turns_in_leading)),
    (Mutant::LeadsUnprotected, "lease", Scene(s::two_that_are_far_from_each_other_do_not_lead_in_turn)),
    (Mutant::FetchesForEach, "traffic", Scene(s::what_an_acceptor_that_recovers_lacks_is_asked_for_once_in_a_while)),
    (Mutant::OutbidIgnored, "liveness", Scene(s::a_coordinator_stands_again_above_what_one_that_hears_it_has_promised)),
    (Mutant::LeadsForEver, "lease", Scene(s::a_coordinator_that_hears_no_majority_stops_calling_itself_one)),
    (Mutant::PrimaryUnasked, "primary", Scene(v::a_view_is_called_primary_once_all_have_installed_it)),
    (Mutant::CreditIgnored, "credit", Scene(v::no_more_is_under_way_than_the_credit_allows)),
    (Mutant::LeavesFirst, "leaving", Scene(v::one_that_leads_leaves_once_the_others_have_the_view_without_it)),
    (Mutant::LeavesUnsaid, "leaving", Scene(v::one_that_leaves_with_messages_of_its_own_not_ordered_says_so_at_last)),
    (Mutant::DecidedUncounted, "window", Scene(v::no_value_is_proposed_a_window_beyond_what_is_not_decided)),
    (Mutant::WindowIgnored, "window", Seeds),
    (Mutant::OneTrimmed, "history", Scene(r::a_node_asks_everybody_for_what_one_has_trimmed)),
    (
        Mutant::UnreadIgnored,
        "history",
        Scene(r::what_a_program_has_yet_to_read_is_held_for_it_up_to_four_times_as_much),
    ),
    (
        Mutant::DeclaredIgnored,
        "history",
        Scene(r::what_a_majority_of_the_copies_of_a_program_lacks_is_held_for_them_at_every_node),
    ),
    (Mutant::BindsAnyTime, "copies", Scene(c::a_binding_that_comes_late_changes_nothing)),
    (Mutant::EpochsIgnored, "copies", Scene(c::what_is_declared_under_an_epoch_that_was_replaced_does_not_count)),
    (Mutant::BindsUpwards, "copies", Scene(c::a_copy_that_lost_its_disk_says_that_it_keeps_less)),
    (Mutant::UnboundCopiesIgnored, "copies", Scene(c::nothing_goes_that_a_majority_of_the_copies_of_a_program_lacks)),
    (Mutant::TrimsByAny, "copies", Scene(c::nothing_goes_that_a_majority_of_the_copies_of_a_program_lacks)),
    (Mutant::BudgetLetsGo, "copies", Scene(c::nothing_goes_that_a_majority_of_the_copies_of_a_program_lacks)),
    (Mutant::RoomIgnored, "room", Scene(stalls::little_waits_for_a_disk_that_stalls)),
    (Mutant::PoolKept, "memory", Scene(v::payloads_of_values_that_cannot_count_any_more_are_dropped)),
    (Mutant::AdvisedUnseen, "advice", Scene(a::an_advised_node_that_is_not_there_is_not_waited_for)),
    (Mutant::OutdatedUnanswered, "liveness", Seeds),
    (Mutant::TwinAnswered, "twin", Scene(s::an_earlier_incarnation_is_told_the_later_one_once_that_says_nothing)),
    (Mutant::AdviceChurns, "advice", Scene(a::advice_that_changes_all_the_time_changes_coordinators_seldom)),
];

/// A promise's name, from what its judge says.
fn promise(said: &str) -> &str {
    said.lines().next().and_then(|line| line.split_once(':')).map_or(said, |(name, _)| name)
}

#[test]
fn every_rule_that_is_broken_on_purpose_is_noticed_by_the_promise_that_needs_it() {
    assert!(NOTICED.iter().map(|(mutant, ..)| mutant).eq(Mutant::ALL), "each mutant has its line, in their order");
    for (mutant, name, place) in NOTICED {
        let said = match place {
            Seeds => (1..=60).find_map(|seed| noticed(*mutant, || drop(run(draw(seed))))),
            Scene(play) => noticed(*mutant, play),
        };
        let said = said.unwrap_or_else(|| panic!("{} is not noticed: it {}", mutant.name(), mutant.what()));
        assert_eq!(promise(&said), *name, "{}: {said}", mutant.name());
    }
}

#[test]
fn every_scene_of_a_broken_rule_is_played_well_by_one_that_keeps_it() {
    for (mutant, _, place) in NOTICED.iter().filter(|_| broken().is_none()) {
        if let Scene(play) = place {
            let played = catch_unwind(AssertUnwindSafe(play));
            assert!(played.is_ok(), "the scene of {} fails without it", mutant.name());
        }
    }
}
