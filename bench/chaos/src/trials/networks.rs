//! What a network or a file does to daemons.
use std::time::Duration;

use consort::Service;

use super::forge;
use super::outcome::Figures;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, config, text, with};
use super::watch::Beat;
use consort_sim::fault::Disk;
use consort_testbed::network::Network;
use consort_testbed::network::port::INTERFACE;

/// How long daemons may need to come together again.
const AGAIN: Duration = Duration::from_secs(10);
/// The longest pause where nothing but a stranger came.
const SHORT: Duration = Duration::from_millis(200);

const fn beat(node: usize) -> Beat {
    Beat { node, every: Duration::from_millis(100), service: Service::Safe }
}

/// What is sent from n1 to n3 alone is lost; what is multicast arrives.
pub fn stale_arp(site: &Site<'_>) -> Result<Figures, String> {
    let all = [0, 1, 2, 3];
    with(
        site,
        &Setup { hosts: Hosts::Apart { empty: 0 }, nodes: 4, first: &all, beat: beat(2), protocol: "ring" },
        |stage| {
            let wrong = format!(
                "neigh replace {} lladdr 02:00:00:00:00:99 nud permanent dev {INTERFACE}\n",
                Network::address(2)
            );
            stage.network.namespace(0).configure(&wrong).map_err(text)?;
            stage.pass(site.lengths.network)?;
            Ok(stage.figures(&all, 1))
        },
    )
}

/// n2 listens at another port than the others think.
pub fn wrong_address(site: &Site<'_>) -> Result<Figures, String> {
    let well = [0, 2];
    with(
        site,
        &Setup { hosts: Hosts::Apart { empty: 0 }, nodes: 3, first: &well, beat: beat(0), protocol: "ring" },
        |stage| {
            let address = Network::address(1);
            let wrong =
                config(3, "ring", site.settings).replace(&format!("{address}:4841"), &format!("{address}:4941"));
            std::fs::write(stage.directory.join("consort-2.toml"), wrong).map_err(text)?;
            stage.fleet.start(1).map_err(text)?;
            stage.pass(site.lengths.network)?;
            let mut figures = stage.figures(&well, 0);
            let pause = figures.pause;
            figures.wants(pause <= SHORT, || format!("a pause above {SHORT:?}"));
            Ok(figures)
        },
    )
}

/// The others are told of an incarnation of n2 that cannot be. Then n3 goes and comes twice, and n2 once: six views.
pub fn future_incarnation(site: &Site<'_>) -> Result<Figures, String> {
    let all = [0, 1, 2];
    with(
        site,
        &Setup { hosts: Hosts::Apart { empty: 1 }, nodes: 3, first: &all, beat: beat(0), protocol: "ring" },
        |stage| {
            let forged =
                stage.network.namespace(3).enter(|| forge::from_the_future(2, Network::address(3))).map_err(text)?;
            let bytes = forged.map_err(|error| format!("cannot forge a beacon: {error}"))?;
            stage.pass(Duration::from_secs(3))?;
            let mut missing = Vec::new();
            for node in [2, 1, 2] {
                if !restarts(stage, node, &all)? {
                    missing.push(format!("not all in one view {AGAIN:?} after n{} came back", node + 1));
                }
            }
            let mut figures = stage.figures(&[0], 6);
            figures.notes.push(format!("forged {bytes} bytes"));
            figures.missed.extend(missing);
            Ok(figures)
        },
    )
}

/// Kills a daemon and starts it again. False if not all come together.
fn restarts(stage: &mut Stage<'_>, node: usize, all: &[usize]) -> Result<bool, String> {
    stage.fleet.kill(node, Disk::Kept).map_err(text)?;
    stage.pass(Duration::from_secs(1))?;
    stage.fleet.start(node).map_err(text)?;
    stage.until(AGAIN, |watch| watch.is_one_view(all))
}
