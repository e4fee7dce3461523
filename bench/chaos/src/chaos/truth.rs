//! Whether daemons say the truth about themselves in a situation that lasts: one that says that it is ready orders a write.
use std::time::{Duration, Instant};

use consort::{Address, Client, ConnectOptions, Error, GroupName, Service, Status};

use super::outcome::ChaosError;

/// A write goes through within this time if a daemon is ready.
const SOON: Duration = Duration::from_secs(2);
/// How long it may take until all daemons have noticed what is so, on a machine that is busy.
const NOTICED: Duration = Duration::from_secs(15);

/// What a daemon says, and what a write at it comes to.
struct Look {
    before: String,
    goes: bool,
    after: String,
}

impl Look {
    fn take(address: &Address, group: &GroupName) -> Result<Self, Error> {
        let ready = |status: &Status| status.get("ready").unwrap_or_default().to_owned();
        let mut client = Client::connect(address, &ConnectOptions::default().connect_within(SOON))?;
        let before = ready(&client.status(SOON)?);
        client.multicast_within(Service::Agreed, std::slice::from_ref(group), b"write", SOON)?;
        let goes = client.wait_ordered(SOON).is_ok();
        Ok(Self { before, goes, after: ready(&client.status(SOON)?) })
    }

    /// It said before and after the write that it is ready, and the write was not ordered.
    fn is_false(&self) -> bool {
        !self.goes && self.before == "yes" && self.after == "yes"
    }
}

/// Looks at a daemon until it says the truth, and, where nothing is wrong, that it is ready. Returns whether it is.
///
/// # Errors
/// What it says instead at the end.
fn look_until_true(address: &Address, group: &GroupName, is_whole: bool) -> Result<bool, String> {
    let deadline = Instant::now() + NOTICED;
    loop {
        let why = match Look::take(address, group) {
            Ok(look) if look.is_false() => "it says that it is ready, and orders no write".to_owned(),
            Ok(look) if is_whole && look.after != "yes" => format!("nothing is wrong, and it says: {}", look.after),
            Ok(look) => return Ok(look.after == "yes"),
            Err(error) => format!("it does not answer: {error}"),
        };
        if Instant::now() > deadline {
            return Err(why);
        }
    }
}

/// Looks at all of these daemons, side by side, while these things are wrong; returns how many are ready.
///
/// # Errors
/// That one does not say the truth.
pub fn look(daemons: &[(usize, Address)], group: &GroupName, wrong: &str) -> Result<u64, ChaosError> {
    let looks = std::thread::scope(|scope| {
        let look = |address| scope.spawn(move || look_until_true(address, group, wrong.is_empty()));
        let looks: Vec<_> = daemons.iter().map(|(node, address)| (node + 1, look(address))).collect();
        looks.into_iter().map(|(node, look)| (node, look.join())).collect::<Vec<_>>()
    });
    let mut ready = 0;
    for (node, look) in looks {
        let look = look.map_err(|_| ChaosError::Bug("a look at a daemon"))?;
        let is_ready = look.map_err(|why| {
            let situation = if wrong.is_empty() { "nothing is wrong" } else { wrong };
            ChaosError::Untrue { node, situation: situation.into(), why }
        })?;
        ready += u64::from(is_ready);
    }
    Ok(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_that_is_ready_throughout_and_orders_nothing_says_what_is_not_so() {
        let says =
            |before: &str, goes, after: &str| Look { before: before.into(), goes, after: after.into() }.is_false();
        assert!(says("yes", false, "yes"));
        let others =
            [("yes", true, "yes"), ("no quorum", false, "yes"), ("yes", false, "no quorum"), ("no", true, "no")];
        assert!(others.iter().all(|(before, goes, after)| !says(before, *goes, after)));
    }
}
