//! What is sent, and what comes of it.
use super::{Outcome, Stage};
use crate::player::Player;
use crate::words::told_payload as of;

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn services(stage: &Stage<'_>) -> Outcome {
    let [mut ann, mut bob] = stage.members(["ann", "bob"])?;
    let names = ["reliable", "fifo", "causal", "agreed", "safe"];
    for (service, number) in names.iter().zip(0_u8..) {
        let (of_ann, of_bob) = ([number, 1], [number, 2]);
        ann.expect(&format!("send {service} {} g", hex(of_ann)), "ok")?;
        bob.expect(&format!("send {service} {} g", hex(of_bob)), "ok")?;
        let first = ann.receive(&format!("message service={service} to=g"))?;
        let second = ann.receive(&format!("message service={service} to=g"))?;
        let mut came: Vec<_> = [&first, &second].map(|reply| (reply.field("sender"), reply.field("crc"))).to_vec();
        for reply in [&first, &second] {
            bob.receive(reply.line())?;
        }
        came.sort_unstable();
        let crc = |payload: [u8; 2]| format!("{:08x}", crc32fast::hash(&payload));
        let (crc_ann, crc_bob) = (crc(of_ann), crc(of_bob));
        if came != [(Some("#ann#n1"), Some(&*crc_ann)), (Some("#bob#n1"), Some(&*crc_bob))] {
            return Err(format!("{service}: {came:?} came"));
        }
    }
    Ok(())
}

pub(super) fn several_groups(stage: &Stage<'_>) -> Outcome {
    let [mut ann, mut bob] = stage.members(["ann", "bob"])?;
    ann.expect("join h", "ok send=2")?;
    ann.receive("group_view group=h")?;
    bob.expect("send agreed 6869 g h #ann#n1", "ok send=2")?;
    for player in [&mut ann, &mut bob] {
        player.receive(&format!("message sender=#bob#n1 to=g,h,#ann#n1 {}", of(b"hi")))?;
        player.hear_nothing()?;
    }
    Ok(())
}

pub(super) fn private(stage: &Stage<'_>) -> Outcome {
    let [mut ann, mut bob, mut eve] = stage.members(["ann", "bob", "eve"])?;
    ann.expect("send agreed 6869 #bob#n1", "ok send=2")?;
    bob.receive(&format!("message sender=#ann#n1 to=#bob#n1 {}", of(b"hi")))?;
    ann.expect("send agreed 6869 #nobody#n1", "ok send=3")?;
    ann.expect("wait 20000", "ok")?;
    [&mut ann, &mut bob, &mut eve].into_iter().try_for_each(Player::hear_nothing)
}

pub(super) fn payloads(stage: &Stage<'_>) -> Outcome {
    let [mut ann, mut bob] = stage.members(["ann", "bob"])?;
    let every: Vec<u8> = (0..=255).collect();
    for (written, payload) in
        [("-".to_owned(), Vec::new()), (hex(every.clone()), every), ("00*70000".into(), vec![0; 70_000])]
    {
        ann.expect(&format!("send agreed {written} g"), "ok")?;
        for player in [&mut ann, &mut bob] {
            player.receive(&format!("message sender=#ann#n1 {}", of(&payload)))?;
        }
    }
    Ok(())
}

pub(super) fn largest(stage: &Stage<'_>) -> Outcome {
    let mut ann = stage.player()?;
    let welcome = ann.expect(&format!("connect {} name=ann", stage.address()), "ok")?;
    let max = welcome.number("message_max")?;
    ann.expect("join g", "ok send=1")?;
    ann.receive("group_view group=g")?;
    ann.refuse(&format!("send agreed 5a*{} g", max + 1), "too_large")?;
    ann.expect(&format!("send agreed 5a*{max} g"), "ok send=2")?;
    let payload = vec![0x5a; usize::try_from(max).map_err(|_| "too large for this machine")?];
    ann.receive(&format!("message sender=#ann#n1 {}", of(&payload)))?;
    ann.expect("send agreed - g", "ok send=3")?;
    ann.receive("message length=0").map(drop)
}

pub(super) fn no_target(stage: &Stage<'_>) -> Outcome {
    let [mut ann] = stage.members(["ann"])?;
    ann.refuse("send agreed 6869", "targets")?;
    ann.expect("send agreed 6869 g", "ok send=2")?;
    ann.receive("message sender=#ann#n1").map(drop)
}

pub(super) fn more_than_credit(stage: &Stage<'_>) -> Outcome {
    const COUNT: u16 = 600;
    let [mut ann, mut bob] = stage.members(["ann", "bob"])?;
    for number in 0..COUNT {
        let payload = [number.to_be_bytes().to_vec(), vec![7; 1_998]].concat();
        ann.expect(&format!("send fifo {} g", hex(payload)), &format!("ok send={}", number + 2))?;
    }
    ann.expect("wait 30000", "ok")?;
    for number in 0..COUNT {
        let payload = [number.to_be_bytes().to_vec(), vec![7; 1_998]].concat();
        for player in [&mut ann, &mut bob] {
            player.receive(&format!("message service=fifo sender=#ann#n1 {}", of(&payload)))?;
        }
    }
    ann.hear_nothing()
}

pub(super) fn positions(stage: &Stage<'_>) -> Outcome {
    let mut ann = stage.client("name=ann positions")?;
    ann.expect("join g", "ok send=1")?;
    ann.receive("group_view group=g")?;
    let mut last = 0;
    for _ in 0..3 {
        ann.expect("send agreed 6869 g", "ok")?;
        ann.expect("wait 20000", "ok")?;
        let message = ann.receive("message sender=#ann#n1")?;
        let position = message.number("position")?;
        if position <= last || message.number("incarnation")? == 0 {
            return Err(format!("`{}` came behind position {last}", message.line()));
        }
        last = position;
    }
    let mut bob = stage.client("name=bob")?;
    bob.expect("send agreed 6869 #bob#n1", "ok")?;
    let message = bob.receive("message sender=#bob#n1")?;
    if message.field("position").is_some() { Err(format!("`{}`: nobody asked", message.line())) } else { Ok(()) }
}
