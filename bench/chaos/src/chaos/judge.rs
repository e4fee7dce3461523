//! The verdict: what all clients saw, judged by the checkers of the simulator, set of groups by set of groups.
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use consort_sim::checkers::{Bounds, PromisedOrder, Suite, Violation};
use consort_sim::message::{Process, ProcessIncarnation};
use consort_sim::trace::witness::Merge;
use consort_sim::trace::{Occurrence, Trace, TraceEvent};
use consort_types::{Instant, ViewId};

/// How many violations of one set are kept; what follows from the first ones says little.
const VIOLATIONS: usize = 20;

/// Judges one set of groups, part by part, and keeps its trace.
pub struct Judge {
    suite: Suite,
    merge: Merge,
    trace: BufWriter<File>,
    /// What the trace shows.
    pub seen: Seen,
    /// What was broken.
    pub violations: Vec<Violation>,
}

/// How much happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Messages accepted.
    pub messages: u64,
    /// Deliveries, over all clients.
    pub deliveries: u64,
    /// Regular views.
    pub views: BTreeSet<ViewId>,
    /// Those of them that changed nothing: the same incarnations of the same daemons as in the view before.
    pub needless: BTreeSet<ViewId>,
    /// Who was in each client's last regular view.
    last: BTreeMap<Process, Vec<ProcessIncarnation>>,
}

impl Judge {
    /// Writes its trace to this file; judges by what is promised.
    ///
    /// # Errors
    /// The system's.
    pub fn new(file: &Path, promised: PromisedOrder) -> io::Result<Self> {
        let trace = BufWriter::new(File::create(file)?);
        let suite = Suite::new(Bounds { promised, ..Bounds::default() });
        Ok(Self { suite, merge: Merge::default(), trace, seen: Seen::default(), violations: Vec::new() })
    }

    /// Takes what happened since the last time.
    ///
    /// # Errors
    /// The system's, where the trace cannot be written.
    pub fn take(&mut self, events: Vec<TraceEvent>) -> io::Result<()> {
        for event in self.merge.next(events) {
            writeln!(self.trace, "{event}")?;
            self.judge(&event);
        }
        Ok(())
    }

    /// All should be at rest: what is owed is owed now.
    ///
    /// # Errors
    /// The system's, where the trace cannot be written.
    pub fn calm(&mut self, at: Instant) -> io::Result<()> {
        let event = TraceEvent { at, process: Process::WORLD, what: Occurrence::Calm };
        writeln!(self.trace, "{event}")?;
        self.trace.flush()?;
        self.judge(&event);
        Ok(())
    }

    fn judge(&mut self, event: &TraceEvent) {
        self.seen.count(event);
        let mut broken = self.suite.see(event);
        if event.what == Occurrence::Calm {
            broken.extend(self.suite.end());
        }
        let room = VIOLATIONS.saturating_sub(self.violations.len());
        self.violations.extend(broken.into_iter().take(room));
    }
}

impl Seen {
    fn count(&mut self, event: &TraceEvent) {
        match &event.what {
            Occurrence::Submit(_) => self.messages += 1,
            Occurrence::Deliver(_) => self.deliveries += 1,
            Occurrence::View(view) if !view.transitional => {
                self.views.insert(view.id);
                if self.last.insert(event.process, view.members.clone()).is_some_and(|last| last == view.members) {
                    self.needless.insert(view.id);
                }
            }
            _ => {}
        }
    }
}

/// Judges a trace that was kept.
///
/// # Errors
/// The system's; or which line cannot be read.
pub fn again(file: &Path, promised: PromisedOrder) -> io::Result<(Seen, Vec<Violation>)> {
    let mut judge = Judge::new(Path::new("/dev/null"), promised)?;
    for (line, number) in BufReader::new(File::open(file)?).lines().zip(1..) {
        let one: Trace = line?.parse().map_err(|wrong| io::Error::other(format!("line {number}: {wrong}")))?;
        one.events.iter().for_each(|event| judge.judge(event));
    }
    Ok((judge.seen, judge.violations))
}

/// The file of a set's trace.
pub fn file(directory: &Path, scope: usize) -> PathBuf {
    directory.join(format!("trace-{}.txt", scope + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEET: &str = "\
        1 n1c0 start late=true\n2 n2c0 start late=true\n\
        3 n1c0 view id=5@n1.9 transitional=false members=n1,n2 together=n1,n2 pending=false\n\
        4 n2c0 view id=5@n1.9 transitional=false members=n1,n2 together=n1,n2 pending=false\n\
        5 n1c0 submit count=1 service=agreed len=20 class=- id=-\n";
    const CALM: &str = "9 world calm\n";

    /// A message of n1's is delivered.
    fn delivered(to: &str, count: u64) -> String {
        format!(
            "7 {to} deliver mark=n1c0#{count} nameless=false intact=true sender=n1 incarnation=- client=0 stream=0 \
             position=- class=- service=agreed len=20 own=- missing=-\n"
        )
    }

    fn events(text: &str) -> Vec<TraceEvent> {
        text.parse::<Trace>().unwrap().events
    }

    fn ids(violations: &[Violation]) -> Vec<&'static str> {
        violations.iter().map(|violation| violation.rule.id).collect()
    }

    #[test]
    fn what_is_owed_is_owed_at_every_calm_and_the_kept_trace_says_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), 0);
        let mut judge = Judge::new(&path, PromisedOrder::default()).unwrap();
        judge.take(events(&format!("{MEET}{}", delivered("n1c0", 1)))).unwrap();
        judge.take(events(&delivered("n2c0", 1))).unwrap();
        judge.calm(Instant(8)).unwrap();
        assert_eq!(ids(&judge.violations), [""; 0]);
        judge.take(events("10 n1c0 submit count=2 service=agreed len=20 class=- id=-\n")).unwrap();
        judge.calm(Instant(11)).unwrap();
        assert_eq!(ids(&judge.violations), ["SD"]);
        let (seen, violations) = again(&path, PromisedOrder::default()).unwrap();
        assert_eq!((&seen, ids(&violations)), (&judge.seen, vec!["SD"]));
        assert_eq!((seen.messages, seen.deliveries, seen.views.len()), (2, 2, 1));
    }

    #[test]
    fn a_view_of_the_same_incarnations_is_needless() {
        let view = |process: &str, number: u64, members: &str| {
            let names = format!("members={members} together={members} pending=false");
            format!("{number} {process} view id={number}@n1.9 transitional=false {names}\n")
        };
        let text =
            [view("n1c0", 5, "n1,n2"), view("n1c0", 6, "n1"), view("n1c0", 7, "n1,n2"), view("n1c0", 8, "n1,n2")];
        let mut seen = Seen::default();
        events(&text.concat()).iter().for_each(|event| seen.count(event));
        assert_eq!((seen.views.len(), seen.needless.iter().map(|id| id.number).collect::<Vec<_>>()), (4, vec![8]));
    }

    #[test]
    fn a_kept_trace_that_was_doctored_is_red() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), 0);
        let whole = format!("{MEET}{}{}", delivered("n1c0", 1), delivered("n2c0", 1));
        std::fs::write(&path, format!("{whole}{CALM}")).unwrap();
        assert_eq!(ids(&again(&path, PromisedOrder::default()).unwrap().1), [""; 0]);
        std::fs::write(&path, format!("{whole}{}{CALM}", delivered("n1c0", 2))).unwrap();
        assert_eq!(
            ids(&again(&path, PromisedOrder::default()).unwrap().1),
            ["NC", "LV"],
            "a second message that n1 never sent, at n1 only"
        );
        std::fs::write(&path, format!("{MEET}what\n")).unwrap();
        assert!(again(&path, PromisedOrder::default()).unwrap_err().to_string().starts_with("line 6: "));
    }
}
