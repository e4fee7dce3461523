//! What came of each attack, and whether that is well.
use std::time::Duration;

use super::answers::Answers;
use super::attacks::{Attack, Door};
use super::times::ms;
use crate::trials::outcome::Figures;

/// How long it may take until nothing is left of an attack.
pub const CALM: Duration = Duration::from_secs(30);
/// How many messages of good clients must come beside an attack, so that their times say something.
const LEAST: usize = 100;

/// The result of one attack with one number of connections.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    pub connections: usize,
    /// How many messages of good clients came, and how long they took.
    pub count: usize,
    pub p99: Duration,
    /// How many calls of the store's good client were answered, and how long they took.
    pub calls: usize,
    pub call_p99: Duration,
    pub answers: Answers,
    /// Nothing was left of the attack in time.
    pub is_calm: bool,
    /// The reason why no new session of the good identity could send.
    pub problem: Option<String>,
}

impl Attempt {
    pub fn shown(&self, door: Door) -> String {
        let Self { connections, p99, calls, call_p99, answers, .. } = self;
        let calls = match door {
            Door::Store => format!(", {calls} calls to the store with p99 {} ms", ms(*call_p99)),
            Door::Session | Door::Spread => String::new(),
        };
        format!("{} ms with {connections} ({answers}{calls})", ms(*p99))
    }
}

/// The results of one attack, one for each number of connections.
#[derive(Debug)]
pub struct Row {
    pub attack: &'static Attack,
    pub attempts: Vec<Attempt>,
}

impl Row {
    fn shown(&self, quiet: Duration) -> String {
        let all: Vec<_> = self.attempts.iter().map(|attempt| attempt.shown(self.attack.door)).collect();
        format!("{}: p99 {} ms alone, {}", self.attack.name, ms(quiet), all.join(", "))
    }
}

/// Judges all attacks by how long messages of good clients take without one, and may take beside it.
pub fn judge(figures: &mut Figures, (quiet, most): (Duration, Duration), rows: &[Row]) {
    for row in rows {
        figures.notes.push(row.shown(quiet));
        for attempt in &row.attempts {
            judge_one(figures, most, row.attack, attempt);
        }
    }
}

fn judge_one(figures: &mut Figures, most: Duration, attack: &Attack, attempt: &Attempt) {
    let Attempt { connections, count, p99, calls, answers, is_calm, problem, .. } = attempt;
    let what = || format!("{}, {connections} connections", attack.name);
    figures.wants(*p99 <= most, || format!("{}: p99 {} ms, above {} ms", what(), ms(*p99), ms(most)));
    figures.wants(*count >= LEAST, || format!("{}: {count} messages of good clients came", what()));
    figures.wants(*is_calm, || format!("{}: not over {CALM:?} later", what()));
    let is_answered = answers.frames > 0 || !attack.is_answered();
    figures.wants(is_answered && answers.opened > 0, || format!("{}: it did not reach its door", what()));
    let serves = *calls > 0 || attack.door != Door::Store;
    figures.wants(serves, || format!("{}: the store answers its good client nothing", what()));
    let session = || format!("{}: a new session: {}", what(), problem.clone().unwrap_or_default());
    figures.wants(problem.is_none(), session);
}

#[cfg(test)]
mod tests {
    use super::super::attacks::all;
    use super::*;

    fn attempt(connections: usize, p99: u64) -> Attempt {
        let answers = Answers { opened: 1, frames: 1, ..Answers::default() };
        let p99 = Duration::from_millis(p99);
        Attempt { connections, count: LEAST, p99, calls: 1, answers, is_calm: true, ..Attempt::default() }
    }

    fn judged(door: Door, attempts: Vec<Attempt>) -> Vec<String> {
        let mut figures = Figures::default();
        let attack = all().find(|attack| attack.door == door).unwrap();
        let (quiet, most) = (Duration::from_millis(7), Duration::from_millis(21));
        judge(&mut figures, (quiet, most), &[Row { attack, attempts }]);
        assert_eq!(figures.notes.len(), 1, "a row for each attack");
        figures.missed
    }

    #[test]
    fn messages_that_take_longer_than_they_may_are_red() {
        let attempts = vec![attempt(1, 21), attempt(100, 22)];
        assert_eq!(judged(Door::Session, attempts), ["status, 100 connections: p99 22.0 ms, above 21.0 ms"]);
    }

    #[test]
    fn what_else_an_attack_must_not_cost_is_red() {
        let few = Attempt { count: LEAST - 1, ..attempt(1, 1) };
        let later = Attempt { is_calm: false, problem: Some("denied".into()), ..attempt(100, 1) };
        let wanted = [
            "status, 1 connections: 99 messages of good clients came",
            "status, 100 connections: not over 30s later",
            "status, 100 connections: a new session: denied",
        ];
        assert_eq!(judged(Door::Session, vec![few, later]), wanted);
        let unanswered = Attempt { answers: Answers::default(), ..attempt(1, 1) };
        assert_eq!(judged(Door::Session, vec![unanswered]), ["status, 1 connections: it did not reach its door"]);
    }

    #[test]
    fn only_beside_attacks_on_the_store_its_good_client_counts() {
        let silent = Attempt { calls: 0, ..attempt(1, 1) };
        assert_eq!(judged(Door::Spread, vec![silent.clone()]), [""; 0]);
        let missed = judged(Door::Store, vec![silent.clone()]);
        assert_eq!(missed, ["store: new keys, 1 connections: the store answers its good client nothing"]);
        assert!(silent.shown(Door::Store).ends_with(", 0 calls to the store with p99 0.0 ms)"));
        assert!(silent.shown(Door::Session).ends_with("connections closed)"));
    }
}
