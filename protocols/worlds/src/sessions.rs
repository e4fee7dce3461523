//! Which sessions a run of whole nodes has beside its clients.
use consort_sim::fault::{Activation, Disk, Fault};
use consort_sim::machine::{ElectionTouch, OrderBelow, ResumingReaders, RoamingSessions, ServerTouch, Servers};
use consort_sim::plan::RunPlan;
use consort_types::NodeId;
use std::collections::BTreeSet;

/// Which sessions a run of whole nodes has beside its clients.
#[derive(Clone, Default)]
pub enum SessionsDrawn {
    /// The seed says: some that send, or that read, or none.
    #[default]
    ByChance,
    /// As by chance, and where there are none perhaps some that want to lead, or servers. Mutants are not tried with these.
    AnyByChance {
        /// Whether any may want to lead.
        elects: bool,
    },
    /// Some that send.
    Senders,
    /// Some that read.
    Readers,
    /// Some that want to lead, with elections as they ship, or changed on purpose.
    Candidates(Option<ElectionTouch>),
    /// Servers with a replicated state, as they ship, or changed on purpose.
    Servers(ServerTouch),
}

/// What was drawn.
#[derive(Clone, Debug, Default)]
pub struct DrawnSessions {
    pub roaming: Option<RoamingSessions>,
    pub resuming: Option<ResumingReaders>,
    pub servers: Option<Servers>,
}

impl SessionsDrawn {
    /// Those of a run. Readers may go on by views where that is said. Servers have the daemons keep their log if the order
    /// lasts, and keep it themselves if not.
    pub(crate) fn of(&self, plan: &RunPlan, resumes: bool, order: OrderBelow) -> Result<DrawnSessions, String> {
        let none = DrawnSessions::default;
        Ok(match self {
            Self::ByChance => {
                let roaming = RoamingSessions::draw(plan);
                let resuming = ResumingReaders::draw(plan).filter(|_| roaming.is_none() && resumes);
                DrawnSessions { roaming, resuming, ..none() }
            }
            Self::AnyByChance { elects } => {
                let drawn = Self::ByChance.of(plan, resumes, order)?;
                if drawn.roaming.is_some() || drawn.resuming.is_some() {
                    return Ok(drawn);
                }
                let roaming = elects.then(|| RoamingSessions::draw_candidates(plan)).flatten();
                let servers = Servers::draw(plan, order).filter(|_| roaming.is_none());
                DrawnSessions { roaming, servers, ..none() }
            }
            Self::Senders => DrawnSessions { roaming: Some(RoamingSessions::senders(plan)), ..none() },
            Self::Readers if !resumes => {
                let text = "positions of this protocol belong to no view, and readers that resume by views are for those \
                            that do: the readers of every run are judged by position";
                return Err(text.into());
            }
            Self::Readers => DrawnSessions { resuming: Some(ResumingReaders::new(plan)), ..none() },
            Self::Candidates(touch) => {
                let roaming = Some(RoamingSessions::candidates(plan, touch.as_ref()));
                DrawnSessions { roaming, ..none() }
            }
            Self::Servers(touch) => DrawnSessions { servers: Some(Servers::new(plan, order, touch.clone())), ..none() },
        })
    }
}

impl DrawnSessions {
    /// The same where everything never crashes at once: the order is in the memory of a majority, and is lost with that.
    pub fn without_blackout(self) -> Self {
        Self { servers: self.servers.map(Servers::without_blackout), ..self }
    }

    /// Whether everything crashes at once.
    pub fn blacks_out(&self) -> bool {
        self.servers.as_ref().is_some_and(|servers| servers.blackout().is_some())
    }

    /// The plan of a run that has these: where there are servers, everything may crash at once, and a majority of the nodes
    /// is there in the end, because servers wait for it.
    pub fn suited(&self, mut plan: RunPlan) -> RunPlan {
        let Some(servers) = &self.servers else { return plan };
        keep_majority(&mut plan);
        let Some((from, long)) = servers.blackout() else { return plan };
        let crash = |node| {
            let fault = Fault::Crash { node: NodeId(node), disk: Disk::Kept, after: 0, stays: false };
            Activation { from, until: from + long, fault }
        };
        plan.faults.extend((0..plan.nodes).map(crash));
        plan.faults.sort_by_key(|begun| begun.from);
        plan
    }
}

/// Has nodes come back that were to go for good, where others did and no majority would be left.
fn keep_majority(plan: &mut RunPlan) {
    let most = usize::from(plan.nodes.saturating_sub(1)) / 2;
    let mut gone = BTreeSet::new();
    for begun in &mut plan.faults {
        if let Fault::Crash { node, stays, .. } | Fault::Leave { node, stays } = &mut begun.fault
            && *stays
        {
            *stays = gone.len() < most || gone.contains(node);
            gone.extend(stays.then_some(*node));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_sim::fault::Kinds;

    #[test]
    fn where_there_are_servers_a_majority_is_there_in_the_end() {
        let gone = |plan: &RunPlan| {
            let for_good = plan.faults.iter().filter_map(|begun| match begun.fault {
                Fault::Crash { node, stays: true, .. } | Fault::Leave { node, stays: true } => Some(node),
                _ => None,
            });
            for_good.collect::<BTreeSet<_>>().len()
        };
        let mut kept = 0;
        for seed in 1..2_000 {
            let mut plan = RunPlan::draw_whole(seed, &Kinds::all());
            let (nodes, before) = (usize::from(plan.nodes), gone(&plan));
            keep_majority(&mut plan);
            assert!(2 * gone(&plan) < nodes, "seed {seed}: {} of {nodes} go for good", gone(&plan));
            kept += usize::from(gone(&plan) < before);
        }
        assert!(kept > 5, "{kept} plans would have lost their majority");
    }
}
