//! The measured times, for machines and for people.
use super::Plan;
use serde::Serialize;
use std::fmt;

/// A machine that runs a thread so late is busy with other things.
const STALL_MS: f64 = 10.0;

/// One change of the view, as all clients were told it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The node it happened to.
    pub node: u16,
    /// The node whose client was told last.
    pub by: u16,
    /// Until then, in milliseconds.
    pub ms: f64,
    /// How late this machine ran some other thread meanwhile.
    pub stall_ms: f64,
    /// What that client was told as the cause.
    pub why: String,
}

/// A daemon was stopped and went on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pause {
    /// The node of the daemon.
    pub node: u16,
    /// For how long in truth, in milliseconds.
    pub ms: f64,
    /// How late this machine ran some other thread meanwhile and in the half second after.
    pub stall_ms: f64,
    /// The causes of the views that came of it.
    pub changes: Vec<String>,
}

/// Everything that was measured, in the order in which it happened.
#[derive(Debug, Default)]
pub struct Figures {
    pub crash: Vec<Change>,
    pub leave: Vec<Change>,
    /// Two of each run: after the crash and after the leave.
    pub restart: Vec<Change>,
    pub pauses: Vec<Pause>,
}

/// The JSON object.
#[derive(Debug, Serialize)]
pub struct Report {
    pub nodes: u16,
    pub runs: u32,
    pub rate: f64,
    pub crash_ms: Span,
    pub leave_ms: Span,
    pub restart_ms: Span,
    pub pause_ms: u64,
    pub pauses: usize,
    pub pause_view_changes: usize,
    /// Those pauses that views came of.
    pub disturbing_pauses: Vec<Pause>,
    pub targets: Vec<Target>,
    /// Whether all targets are met.
    pub met: bool,
    pub seconds: f64,
}

/// The middle and the worst of several times, in milliseconds.
#[derive(Debug, Serialize)]
pub struct Span {
    pub p50: f64,
    pub max: f64,
    pub slowest: Option<Change>,
}

/// What a figure should be below.
#[derive(Debug, Serialize)]
pub struct Target {
    pub figure: &'static str,
    pub below: f64,
    pub is: f64,
    pub met: bool,
}

impl Figures {
    /// A line about the run just done.
    pub fn last_run(&self, run: u32) -> String {
        let ms = |changes: &[Change]| changes.last().map_or(0.0, |change| change.ms);
        let node = self.crash.last().map_or(0, |change| change.node);
        let [.., first, second] = &self.restart[..] else { return String::new() };
        let pause = match self.pauses.last() {
            Some(Pause { ms, changes, .. }) if !changes.is_empty() => {
                format!("{} views changed in {ms:.0} ms ({})", changes.len(), changes.join("; then "))
            }
            _ => "no view changed".to_owned(),
        };
        format!(
            "  {run:>4}  node {node:<3} killed {:>7.1}   back {:>7.1}   left {:>7.1}   back {:>7.1}   paused: {pause}",
            ms(&self.crash),
            first.ms,
            ms(&self.leave),
            second.ms
        )
    }
}

impl Span {
    pub fn of(changes: &[Change]) -> Self {
        let mut sorted: Vec<&Change> = changes.iter().collect();
        sorted.sort_by(|a, b| a.ms.total_cmp(&b.ms));
        let at = |place: usize| sorted.get(place).map_or(0.0, |change| (change.ms * 1_000.0).round() / 1_000.0);
        Self {
            p50: at(sorted.len() / 2),
            max: at(sorted.len().saturating_sub(1)),
            slowest: sorted.last().copied().cloned(),
        }
    }
}

impl Target {
    fn new(figure: &'static str, below: f64, is: f64) -> Self {
        Self { figure, below, is, met: is < below }
    }
}

impl Report {
    /// What all runs come to.
    pub fn new(plan: Plan, figures: &Figures, ns: u64) -> Self {
        let [crash_ms, leave_ms, restart_ms] =
            [&figures.crash, &figures.leave, &figures.restart].map(|all| Span::of(all));
        let disturbing_pauses: Vec<Pause> =
            figures.pauses.iter().filter(|pause| !pause.changes.is_empty()).cloned().collect();
        let pause_view_changes = disturbing_pauses.iter().map(|pause| pause.changes.len()).sum::<usize>();
        let mut targets = vec![Target::new("crash max", 500.0, crash_ms.max)];
        if plan.nodes <= 5 {
            targets.insert(0, Target::new("crash p50", 400.0, crash_ms.p50));
        }
        targets.push(Target::new("leave p50", 20.0, leave_ms.p50));
        targets.push(Target::new("pause view changes", 1.0, pause_view_changes as f64));
        Self {
            nodes: plan.nodes,
            runs: plan.runs,
            rate: plan.rate,
            crash_ms,
            leave_ms,
            restart_ms,
            pause_ms: super::PAUSE.as_millis() as u64,
            pauses: figures.pauses.len(),
            pause_view_changes,
            disturbing_pauses,
            met: targets.iter().all(|target| target.met),
            targets,
            seconds: ns as f64 / 1e9,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  until all are told      p50 ms   max ms   slowest")?;
        for (what, span) in [("killed", &self.crash_ms), ("left", &self.leave_ms), ("back", &self.restart_ms)] {
            let slowest = span.slowest.as_ref().map_or_else(String::new, |slowest| {
                let Change { node, by, why, stall_ms, .. } = slowest;
                format!("node {node}, told last at node {by}: {why}{}", stalled(*stall_ms))
            });
            writeln!(f, "    {what:<20} {:>8.1} {:>8.1}   {slowest}", span.p50, span.max)?;
        }
        let (changes, pauses, ms) = (self.pause_view_changes, self.pauses, self.pause_ms);
        writeln!(f, "  view changes after {pauses} pauses of {ms} ms: {changes}")?;
        for Pause { node, ms, stall_ms, changes } in &self.disturbing_pauses {
            let (causes, stalled) = (changes.join("; then "), stalled(*stall_ms));
            writeln!(f, "    node {node}, stopped for {ms:.1} ms: {causes}{stalled}")?;
        }
        writeln!(f)?;
        for target in &self.targets {
            let verdict = if target.met { "met" } else { "NOT met" };
            writeln!(f, "  {:<20} {:>8.1}   target below {:>5.0}: {verdict}", target.figure, target.is, target.below)?;
        }
        Ok(())
    }
}

/// What the machine itself contributed, if that is worth a word.
pub fn stalled(ms: f64) -> String {
    if ms < STALL_MS { String::new() } else { format!(" (meanwhile this machine ran others {ms:.0} ms late, too)") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protocol;
    use crate::failover::Victim;

    fn changes(ms: &[f64]) -> Vec<Change> {
        ms.iter()
            .map(|ms| Change { node: 1, by: 2, ms: *ms, stall_ms: 0.1, why: "token lost after 150 ms".into() })
            .collect()
    }

    fn report(nodes: u16, crash: &[f64], pauses: &[usize]) -> Report {
        let plan = Plan { nodes, protocol: Protocol::Ring, victim: Victim::Each, runs: 3, rate: 1.0, json: true };
        let (crash, leave, restart) = (changes(crash), changes(&[5.0, 30.0, 6.0]), changes(&[90.0; 6]));
        let pause = |views: &usize| Pause {
            node: 3,
            ms: 100.2,
            stall_ms: 57.3,
            changes: vec!["token lost after 152 ms".into(); *views],
        };
        let pauses = pauses.iter().map(pause).collect();
        Report::new(plan, &Figures { crash, leave, restart, pauses }, 1_000_000_000)
    }

    #[test]
    fn the_middle_and_the_worst_are_told_and_the_worst_explained() {
        let report = report(3, &[310.0, 480.0, 330.0], &[0, 0, 0]);
        assert_eq!((report.crash_ms.p50, report.crash_ms.max, report.leave_ms.p50), (330.0, 480.0, 6.0));
        assert!(report.met);
        let text = report.to_string();
        assert!(
            text.contains("killed                  330.0    480.0   node 1, told last at node 2: token lost"),
            "{text}"
        );
        assert!(text.contains("view changes after 3 pauses of 100 ms: 0"), "{text}");
    }

    #[test]
    fn a_target_that_is_missed_is_told() {
        let slow = report(5, &[310.0, 520.0, 330.0], &[0, 0, 0]);
        assert!(
            !slow.met && slow.to_string().contains("crash max               520.0   target below   500: NOT met"),
            "{slow}"
        );
        assert!(!report(16, &[310.0, 520.0, 330.0], &[0, 0, 0]).met);
        assert!(report(16, &[450.0, 480.0, 430.0], &[0, 0, 0]).met);
        let paused = report(3, &[310.0; 3], &[0, 2, 0]);
        assert!(!paused.met && paused.pause_view_changes == 2);
        let line = "node 3, stopped for 100.2 ms: token lost after 152 ms; then token lost after 152 ms \
                    (meanwhile this machine ran others 57 ms late, too)";
        assert!(paused.to_string().contains(line), "{paused}");
    }
}
