//! Which copy a replica binds, judged by what the order says of all copies and by what its directory says of itself.
use super::identity::Identity;
use consort::{Binding, Copies, GroupName, Holder, Position, Seat};
use std::path::Path;

/// What a replica wants, whatever the order says.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub group: &'a GroupName,
    pub directory: &'a Path,
    /// This server and the address where others fetch its checkpoints, as the order shows them to people.
    pub label: &'a str,
    /// How many copies there are; 0 for as many as the order says, or as there are voters.
    pub copies: u16,
    /// Which copy it is to be, if an operator says so.
    pub takes: Option<u16>,
    /// Which copy it takes where it may choose.
    pub prefers: u16,
    /// The first position that the older of its two checkpoints lacks.
    pub from: Position,
    /// The directory has a state.
    pub has_state: bool,
    /// What copies of the directory do not share.
    pub mark: u128,
    pub token: u128,
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    Bind(Binding),
    /// The daemon has yet to read the log of its start: it is to be asked again.
    Later,
    /// It can't begin with this directory, here: why, and what to do.
    Refuse(String),
}

/// Which copy to bind.
pub fn choose(copies: &Copies, identity: Option<&Identity>, wanted: &Wanted<'_>) -> Choice {
    match identity {
        Some(identity) if wanted.has_state || is_bound_by(copies, identity) => return_to(copies, identity, wanted),
        // One that was killed before it had any state has nothing to lose.
        _ => take_one(copies, identity, wanted),
    }
}

/// Whether an operator took it out of the order: anybody may bind it again.
const fn is_withdrawn(seat: &Seat) -> bool {
    seat.token == 0
}

/// Whether the copy's present binding is this directory's.
fn is_bound_by(copies: &Copies, identity: &Identity) -> bool {
    let asked = |seat: &Seat| seat.epoch == identity.epoch || family_of(seat.token) == family_of(identity.token);
    let is_own = |seat: &Seat| !is_withdrawn(seat) && asked(seat);
    identity.order == copies.order && copies.seats.iter().any(|seat| seat.holder == identity.seat && is_own(seat))
}

/// What the tokens have in common that a directory asks with until it sees that one of them counts.
const fn family_of(token: u128) -> u128 {
    token >> 32
}

/// The token of the next binding. A start that was killed may have asked for one that is still under way, and may yet count
/// instead: so the next token shows that both are this directory's.
fn token_of(identity: Option<&Identity>, wanted: &Wanted<'_>, seat: &Holder, copies: &Copies) -> u128 {
    //= RS08
    let known = copies.seats.iter().find(|of| of.holder == *seat).map(|of| family_of(of.token));
    let is_under_way = |identity: &&Identity| {
        let is_own = wanted.takes.is_none() && is_of(identity, copies, wanted);
        is_own && identity.seat == *seat && known != Some(family_of(identity.token))
    };
    let asked = identity.filter(is_under_way).map(|identity| identity.token);
    asked.map_or(wanted.token, |token| family_of(token) << 32 | u128::from((token as u32).wrapping_add(1)))
}

/// Whether a directory is of this group and order, and no copy of another one.
fn is_of(identity: &Identity, copies: &Copies, wanted: &Wanted<'_>) -> bool {
    let is_own = identity.mark == wanted.mark && identity.order == copies.order;
    is_own && identity.group == wanted.group.to_string()
}

/// The epoch that a directory knows as its own when this binding is asked for. A daemon that has yet to read the log of its
/// start knows of no seat, or of an earlier epoch: then this is the later one.
pub fn known_epoch(identity: Option<&Identity>, binding: &Binding) -> u64 {
    //= RS08
    let is_same = |identity: &&Identity| identity.order == binding.order && identity.seat == binding.holder;
    identity.filter(is_same).map_or(0, |identity| identity.epoch).max(binding.replaces)
}

/// A directory that was bound before.
fn return_to(copies: &Copies, identity: &Identity, wanted: &Wanted<'_>) -> Choice {
    let directory = wanted.directory.display();
    if identity.group != wanted.group.to_string() {
        return Choice::Refuse(format!(
            "the directory {directory} has the state of group {}, and this is a replica of group {}; give it a directory of \
             its group, or an empty one",
            identity.group, wanted.group
        ));
    }
    //= RS14
    if identity.order != copies.order {
        return Choice::Refuse(format!(
            "the directory {directory} has a state of the order {:016x}, and the daemons keep the order {:016x}, which was \
             begun without it: they lost their votes, or they are another cluster. Have the daemons take up their old state \
             directories; only if those are lost for good, move this directory away to begin with what the daemons have, and \
             put what it has into that (`consort kv load`)",
            identity.order, copies.order
        ));
    }
    if let Some(other) = wanted.takes.map(|takes| holder(wanted, takes)).filter(|seat| *seat != identity.seat) {
        return Choice::Refuse(format!(
            "the directory {directory} is that of copy {}, and this server is to be copy {}; give it an empty directory, or \
             have it be copy {}",
            copy_of(&identity.seat),
            copy_of(&other),
            copy_of(&identity.seat)
        ));
    }
    let copy = copy_of(&identity.seat);
    //= RS08
    if identity.mark != wanted.mark && wanted.takes.is_none() {
        return Choice::Refuse(format!(
            "the directory {directory} is a copy of one that was bound as copy {copy}, or was moved, or put back from a \
             backup. If that one is not used any more, start this server with `--copy {copy}`; otherwise give it its own \
             directory, or an empty one"
        ));
    }
    match copies.seats.iter().find(|seat| seat.holder == identity.seat) {
        None => bind(wanted, Some(identity), &identity.seat, copies),
        Some(seat) if is_withdrawn(seat) || is_bound_by(copies, identity) || wanted.takes.is_some() => {
            bind(wanted, Some(identity), &identity.seat, copies)
        }
        //= RS08
        Some(seat) if seat.epoch < identity.epoch => Choice::Later,
        Some(seat) => Choice::Refuse(format!(
            "the directory {directory} was bound last as copy {copy} by entry {} of the log, and since then copy {copy} was \
             bound by entry {}, as {}. So this directory was copied from that server's, or put back from a backup. Use that \
             server's own directory; or stop that server and start this one with `--copy {copy}` to have this directory \
             instead",
            identity.epoch, seat.epoch, seat.label,
        )),
    }
}

/// A directory in which nothing was.
fn take_one(copies: &Copies, identity: Option<&Identity>, wanted: &Wanted<'_>) -> Choice {
    if let Some(takes) = wanted.takes {
        let seat = holder(wanted, takes);
        return bind(wanted, identity, &seat, copies);
    }
    // The same server without its disk.
    let bound: Vec<_> = copies.seats.iter().filter(|seat| !is_withdrawn(seat)).collect();
    if let Some(own) = bound.iter().find(|seat| server_of(&seat.label) == server_of(wanted.label)) {
        return bind(wanted, identity, &own.holder, copies);
    }
    let most = most(copies, wanted);
    let free = |number: &u16| bound.iter().all(|seat| seat.holder != holder(wanted, *number));
    // What it asked for before may be under way: it must not have two.
    let asked = identity.filter(|identity| is_of(identity, copies, wanted)).map(|identity| copy_of(&identity.seat));
    let asked = asked.and_then(|copy| copy.parse().ok());
    let free = asked
        .into_iter()
        .chain([wanted.prefers])
        .find(|number| (1..=most).contains(number) && free(number))
        .or_else(|| (1..=most).find(free));
    if let Some(number) = free.filter(|_| bound.len() < usize::from(most)) {
        let seat = holder(wanted, number);
        return bind(wanted, identity, &seat, copies);
    }
    let list: Vec<_> = bound.iter().map(|seat| format!("{} by {}", copy_of(&seat.holder), seat.label)).collect();
    Choice::Refuse(format!(
        "group {} has {most} copies, and all are bound: {}. To have this server replace one whose directory is lost, \
         start it with `--copy NUMBER`; what only that directory had is lost then",
        wanted.group,
        list.join(", ")
    ))
}

fn most(copies: &Copies, wanted: &Wanted<'_>) -> u16 {
    match (copies.copies, wanted.copies) {
        (0, 0) => copies.voters.max(1),
        (0, given) => given,
        (known, _) => known,
    }
}

fn bind(wanted: &Wanted<'_>, identity: Option<&Identity>, seat: &Holder, copies: &Copies) -> Choice {
    let known = copies.copies;
    if known > 0 && wanted.copies > 0 && wanted.copies != known {
        return Choice::Refuse(format!(
            "group {} has {known} copies, as its first server said, and not {}; give that number, or none",
            wanted.group, wanted.copies
        ));
    }
    let replaces = copies.seats.iter().find(|of| of.holder == *seat).map_or(0, |of| of.epoch);
    let (order, label, from) = (copies.order, wanted.label.to_owned(), wanted.from);
    let token = token_of(identity, wanted, seat, copies);
    Choice::Bind(Binding { order, holder: seat.clone(), token, replaces, from, copies: most(copies, wanted), label })
}

/// The copy of a group's program that has this number.
fn holder(wanted: &Wanted<'_>, number: u16) -> Holder {
    Holder::of_group(wanted.group, number)
}

/// A copy of this group's program, whichever: to ask about all of them.
pub fn any_of(group: &GroupName) -> Holder {
    Holder::of_group(group, 1)
}

/// Where others fetch the checkpoints of a copy: the last word of its label.
pub fn address_of(seat: &Seat) -> &str {
    seat.label.rsplit_once(' ').map_or(&seat.label, |(_, address)| address)
}

/// The server that bound a copy: the rest of its label.
fn server_of(label: &str) -> &str {
    label.rsplit_once(' ').map_or(label, |(server, _)| server)
}

/// The number of a copy, as text.
pub fn copy_of(holder: &Holder) -> &str {
    holder.as_str().split_once('/').map_or("1", |(_, copy)| copy)
}

/// The copies that have what this one lacks, the furthest first.
pub fn donors<'a>(copies: &'a Copies, own: &'a Holder) -> impl Iterator<Item = &'a Seat> {
    let mut seats: Vec<_> = copies.seats.iter().filter(|seat| seat.holder != *own && !is_withdrawn(seat)).collect();
    seats.sort_by_key(|seat| std::cmp::Reverse(seat.from));
    seats.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    fn group() -> GroupName {
        GroupName::new("kv.main.1").unwrap()
    }

    fn seat(number: u16, epoch: u64, label: &str) -> Seat {
        let holder = Holder::of_group(&group(), number);
        Seat { holder, epoch, token: u128::from(epoch) << 32, from: Position(1), label: label.into() }
    }

    fn copies(seats: &[Seat]) -> Copies {
        Copies {
            holder: Holder::of_group(&group(), 1),
            order: 9,
            lasts: true,
            copies: if seats.is_empty() { 0 } else { 3 },
            began: Position(1),
            first: Position(1),
            last: Position(5),
            held: 0,
            budget: 1,
            voters: 3,
            seats: seats.to_vec(),
        }
    }

    fn wanted(label: &str) -> Wanted<'_> {
        static GROUP: LazyLock<GroupName> = LazyLock::new(group);
        let directory = Path::new("kv1");
        Wanted {
            group: &GROUP,
            directory,
            label,
            copies: 0,
            takes: None,
            prefers: 2,
            from: Position(1),
            has_state: true,
            mark: 3,
            token: 77,
        }
    }

    fn identity(number: u16, epoch: u64, token: u128) -> Identity {
        Identity {
            group: group().to_string(),
            order: 9,
            seat: Holder::of_group(&group(), number),
            epoch,
            token: token << 32,
            mark: 3,
        }
    }

    fn bound(choice: Choice) -> (String, u64, u16) {
        match choice {
            Choice::Bind(binding) => (copy_of(&binding.holder).to_owned(), binding.replaces, binding.copies),
            other => panic!("{other:?}"),
        }
    }

    fn refused(choice: Choice) -> String {
        match choice {
            Choice::Refuse(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_empty_directory_takes_a_free_copy_or_its_own_former_one() {
        //= RS08 test
        assert_eq!(bound(choose(&copies(&[]), None, &wanted("a"))), ("2".into(), 0, 3), "as many as there are voters");
        let two = [seat(2, 40, "b"), seat(3, 41, "c")];
        assert_eq!(bound(choose(&copies(&two), None, &wanted("a"))), ("1".into(), 0, 3));
        assert_eq!(bound(choose(&copies(&two), None, &wanted("c"))), ("3".into(), 41, 3), "it lost its disk");
        let all = [&two[..], &[seat(1, 42, "a")]].concat();
        let why = refused(choose(&copies(&all), None, &wanted("x")));
        assert!(why.contains("all are bound: 2 by b, 3 by c, 1 by a") && why.contains("--copy NUMBER"), "{why}");
        let takes = Wanted { takes: Some(3), ..wanted("x") };
        assert_eq!(bound(choose(&copies(&all), None, &takes)), ("3".into(), 41, 3));
        let other = Wanted { copies: 5, ..wanted("a") };
        assert!(
            refused(choose(&copies(&all), None, &other)).contains("has 3 copies, as its first server said, and not 5")
        );
    }

    #[test]
    fn a_directory_returns_as_its_copy_unless_another_was_bound_since() {
        //= RS08 test
        let known = copies(&[seat(1, 40, "a"), seat(2, 41, "b")]);
        assert_eq!(bound(choose(&known, Some(&identity(2, 41, 5)), &wanted("b"))), ("2".into(), 41, 3));
        assert_eq!(
            bound(choose(&known, Some(&identity(2, 0, 41)), &wanted("b"))),
            ("2".into(), 41, 3),
            "its own binding"
        );
        assert_eq!(bound(choose(&known, Some(&identity(3, 30, 5)), &wanted("c"))), ("3".into(), 0, 3), "deregistered");
        let old = identity(2, 35, 6);
        let why = refused(choose(&known, Some(&old), &wanted("b")));
        assert!(why.contains("bound by entry 41, as b") && why.contains("put back from a backup"), "{why}");
        let nothing = Wanted { has_state: false, ..wanted("b") };
        assert_eq!(
            bound(choose(&known, Some(&old), &nothing)),
            ("2".into(), 41, 3),
            "it was killed before its first state"
        );
        let takes = Wanted { takes: Some(2), ..wanted("b") };
        let copied = Identity { mark: 4, ..identity(2, 41, 5) };
        let why = refused(choose(&known, Some(&copied), &wanted("b")));
        assert!(why.contains("is a copy of one that was bound as copy 2") && why.contains("--copy 2"), "{why}");
        assert_eq!(bound(choose(&known, Some(&copied), &takes)), ("2".into(), 41, 3), "the operator knows better");
        assert_eq!(bound(choose(&known, Some(&old), &takes)), ("2".into(), 41, 3));
        assert!(refused(choose(&known, Some(&identity(1, 40, 1)), &takes)).contains("is that of copy 1"));
    }

    #[test]
    fn a_binding_that_was_under_way_at_a_crash_is_its_own() {
        //= RS08 test
        let ask = |identity: &Identity, known: &Copies, wanted: &Wanted<'_>| match choose(known, Some(identity), wanted)
        {
            Choice::Bind(binding) => (binding.token, binding.replaces),
            other => panic!("{other:?}"),
        };
        // A start asks for a binding, and is killed; the next asks before that one is ordered.
        let known = copies(&[seat(2, 40, "b")]);
        let mut identity = identity(2, 40, 500);
        identity.token = ask(&identity, &known, &wanted("b")).0;
        assert_eq!(identity.token, (500 << 32) + 1, "the one before may be under way");
        let first = Seat { token: 500 << 32, ..seat(2, 41, "b") };
        let (token, replaces) = ask(&identity, &copies(std::slice::from_ref(&first)), &wanted("b"));
        assert_eq!((token, replaces), (77, 41), "the first counts: nothing else is under way");
        let empty = Wanted { has_state: false, prefers: 1, ..wanted("b") };
        assert_eq!(bound(choose(&copies(&[]), Some(&identity), &empty)).0, "2", "it does not take two");
        let later = Identity { epoch: 41, token: 600 << 32, ..identity };
        let other = copies(&[Seat { epoch: 42, token: 700 << 32, ..first }]);
        assert!(refused(choose(&other, Some(&later), &wanted("b"))).contains("bound by entry 42"));
    }

    #[test]
    fn a_daemon_that_has_yet_to_read_its_log_makes_nobody_forget() {
        //= RS08 test
        let own = identity(2, 40, 5);
        let Choice::Bind(binding) = choose(&copies(&[]), Some(&own), &wanted("b")) else { panic!("it is its own") };
        assert_eq!((binding.replaces, known_epoch(Some(&own), &binding)), (0, 40));
        let token = binding.token;
        let asked = Identity { epoch: known_epoch(Some(&own), &binding), token, ..own };
        let known = copies(&[seat(2, 40, "b")]);
        assert_eq!(bound(choose(&known, Some(&asked), &wanted("b"))), ("2".into(), 40, 3));
        assert_eq!(choose(&copies(&[seat(2, 30, "b")]), Some(&asked), &wanted("b")), Choice::Later);
    }

    #[test]
    fn a_copy_that_was_withdrawn_is_free() {
        //= RS08 test
        let withdrawn = Seat { token: 0, label: String::new(), ..seat(3, 50, "") };
        let known = copies(&[seat(1, 40, "a"), seat(2, 41, "b"), withdrawn]);
        assert_eq!(bound(choose(&known, None, &wanted("x"))), ("3".into(), 50, 3));
        assert_eq!(bound(choose(&known, Some(&identity(3, 42, 9)), &wanted("c"))), ("3".into(), 50, 3));
        let own = Holder::of_group(&group(), 1);
        assert_eq!(donors(&known, &own).map(|seat| seat.epoch).collect::<Vec<_>>(), [41]);
    }

    #[test]
    fn a_directory_of_another_group_or_order_is_refused_and_both_are_named() {
        //= RS14 test
        let known = copies(&[]);
        let other = Identity { group: "kv.other.1".into(), ..identity(1, 1, 1) };
        let why = refused(choose(&known, Some(&other), &wanted("a")));
        assert!(why.contains("group kv.other.1") && why.contains("group kv.main.1"), "{why}");
        let other = Identity { order: 8, ..identity(1, 1, 1) };
        let why = refused(choose(&known, Some(&other), &wanted("a")));
        assert!(why.contains("order 0000000000000008") && why.contains("order 0000000000000009"), "{why}");
    }
}
