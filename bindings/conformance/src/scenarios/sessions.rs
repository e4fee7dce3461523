//! Sessions over several daemons, for clients that have them.
use super::{Outcome, Stage};
use crate::daemon::Daemon;
use crate::player::Player;
use std::ops::RangeInclusive;

pub(super) fn fails_over(stage: &Stage<'_>) -> Outcome {
    let daemons = Daemon::start_three(stage.consort).map_err(|error| error.to_string())?;
    let addresses: Vec<_> = daemons.iter().map(|daemon| stage.address_of(daemon)).collect();
    let [first, _second, third] = daemons;
    let mut bob = stage.player()?;
    bob.expect(&format!("connect {} name=bob", stage.address_of(&third)), "ok node=3")?;
    bob.expect("join g", "ok send=1")?;
    bob.receive("group_view group=g")?;
    let mut ann = stage.player()?;
    ann.expect(&format!("session {}", addresses.join(" ")), "ok")?;
    ann.expect("read new g", "ok")?;
    ann.receive("connected")?;
    while ann.ask("receive 30000")?.kind() != "caught_up" {}
    send(&mut ann, 1..=20)?;
    first.kill();
    send(&mut ann, 21..=40)?;
    each_once(&mut ann, 40)?;
    for length in 1..=40 {
        // The group's members may become the primary part only now.
        let mut told = bob.ask("receive 30000")?;
        while told.kind() == "group_view" {
            told = bob.ask("receive 30000")?;
        }
        told.is(&format!("message length={length}"))?;
    }
    ann.expect("close", "ok").map(drop)
}

/// Sends payloads of these lengths, and waits for their fates.
fn send(ann: &mut Player, lengths: RangeInclusive<u64>) -> Outcome {
    for length in lengths {
        ann.expect(&format!("send agreed 5a*{length} g"), &format!("ok send={length}"))?;
    }
    ann.expect("wait 50000", "ok").map(drop)
}

/// The session is told so many messages and fates, in their order, and of the loss.
fn each_once(ann: &mut Player, last: u64) -> Outcome {
    let (mut read, mut fates, mut lost, mut connected) = (0, 0, 0, 1);
    while read < last || fates < last || lost == 0 || connected <= lost {
        let told = ann.ask("receive 30000")?;
        match told.kind() {
            "read" => {
                read += 1;
                told.is(&format!("read length={read} to=g"))?;
            }
            "sent" => {
                fates += 1;
                told.is(&format!("sent send={fates} fate=ordered"))?;
            }
            "lost" => lost += 1,
            "connected" => connected += 1,
            "none" | "error" | "gap" | "parted" | "reading_ended" => {
                return Err(format!("`{}` came behind {read} messages and {fates} fates", told.line()));
            }
            _ => {}
        }
    }
    Ok(())
}
