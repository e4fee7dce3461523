//! Which sessions a run of whole nodes has beside its clients.
use consort_sim::fault::{Activation, Disk, Fault};
use consort_sim::machine::{ElectionTouch, OrderBelow, ResumingReaders, RoamingSessions, ServerTouch, Servers};
use consort_sim::plan::RunPlan;
use consort_types::NodeId;

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

    /// The plan of a run that has these: where there are servers, everything may crash at once.
    pub fn suited(&self, mut plan: RunPlan) -> RunPlan {
        let Some((from, long)) = self.servers.as_ref().and_then(Servers::blackout) else { return plan };
        let crash = |node| {
            let fault = Fault::Crash { node: NodeId(node), disk: Disk::Kept, after: 0, stays: false };
            Activation { from, until: from + long, fault }
        };
        plan.faults.extend((0..plan.nodes).map(crash));
        plan.faults.sort_by_key(|begun| begun.from);
        plan
    }
}
