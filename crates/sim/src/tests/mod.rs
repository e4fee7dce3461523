mod flaws;
mod sequencer;
mod worlds;

use crate::checkers::Bounds;
use crate::fault::Kinds;
use crate::machine::{Bare, Whole};
use crate::plan::RunPlan;
use crate::world::{RunOptions, RunOutcome, SimWorld};
use consort_node::Limits;
use consort_types::{ClusterId, ConfigHash, GroupName, MemberId};
use consort_wire::Identity;
use sequencer::{Flaw, Sequencer};

fn identity(me: MemberId) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(2), me }
}

fn machines(plan: &RunPlan, flaw: Flaw) -> Vec<Bare<Sequencer>> {
    let engine = |me| Sequencer::new(me, plan.members(), flaw);
    let machine = |me| Bare::new(identity(me), engine(me), Some(Sequencer::holds));
    plan.members().into_iter().map(machine).collect()
}

fn whole_machines(plan: &RunPlan) -> Vec<Whole<Sequencer>> {
    let group = GroupName::new(b"all").unwrap();
    let limits = Limits { credit: 4 << 10, ..Limits::default() };
    let engine = |me| Sequencer::new(me, plan.members(), Flaw::None);
    let machine = |me| Whole::new(plan, identity(me), engine(me), limits, group.clone(), Some(Sequencer::holds));
    plan.members().into_iter().map(machine).collect()
}

fn bounds(plan: &RunPlan) -> Bounds {
    let quiet = [("store_packets", 0), ("queued_bytes", 0)].into();
    let needless = if plan.keeps_order() { ["asked"].into() } else { [].into() };
    Bounds { quiet, needless, ..Bounds::default() }
}

fn plan(seed: u64, faults: &str) -> RunPlan {
    lightened(RunPlan::draw_bare(seed, &faults.parse::<Kinds>().unwrap()))
}

/// Sequencers are no racers, and send each message whole.
fn lightened(mut plan: RunPlan) -> RunPlan {
    plan.datagram = 65_000;
    for sender in &mut plan.senders {
        sender.pace = crate::workload::SendPace::Poisson(consort_types::Duration::from_millis(40));
        sender.sizes = crate::workload::Sizes::SMALL;
    }
    plan
}

fn run(plan: &RunPlan, flaw: Flaw) -> RunOutcome {
    let options = RunOptions { bounds: bounds(plan), story: false, trace: true };
    SimWorld::new(plan.clone(), options, machines(plan, flaw)).run()
}
