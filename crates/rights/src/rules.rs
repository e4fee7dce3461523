//! Who may do what.
use crate::{Glob, Identity, Who};
use std::fmt;

/// What a client may do with a group, or, where names begin with `#`, with another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// To be a member of the group. A member is told what the group is sent, and who is in it.
    Join,
    /// To send to the group, or to the client.
    Send,
    /// To read what the group was sent, and is sent, by position.
    Receive,
    /// To see the group, or the client, in lists, and who is in the group.
    See,
    /// To join so that only members may send to the group from then on.
    Close,
    /// To have the order keep its log for copies of the program that has the group's name, to bind and to withdraw them.
    Keep,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Join, Self::Send, Self::Receive, Self::See, Self::Close, Self::Keep];

    /// Its name in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Send => "send",
            Self::Receive => "receive",
            Self::See => "see",
            Self::Close => "close",
            Self::Keep => "keep",
        }
    }

    /// What one may not do who lacks it, behind "may not".
    const fn act(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Send => "send to",
            Self::Receive => "receive what is sent to",
            Self::See => "see who is in",
            Self::Close => "close",
            Self::Keep => "bind, declare or withdraw copies of",
        }
    }
}

/// Some verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u8);

impl Verbs {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Whether this is one of them.
    pub const fn has(self, verb: Verb) -> bool {
        self.0 & 1 << verb as u8 != 0
    }
}

impl FromIterator<Verb> for Verbs {
    fn from_iter<I: IntoIterator<Item = Verb>>(verbs: I) -> Self {
        Self(verbs.into_iter().fold(0, |all, verb| all | 1 << verb as u8))
    }
}

/// How much the connections of one identity may have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdentityLimits {
    /// How many there may be.
    pub connections: Option<usize>,
    /// How many bytes of messages they may send in a second, on average.
    pub bytes_per_second: Option<u64>,
    /// In how many groups they may be, each counted for each of them.
    pub groups: Option<usize>,
    /// How many producers they may have opened that are not forgotten.
    pub producers: Option<usize>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// What it is called in refusals.
    pub name: String,
    /// Whom it concerns: any of these.
    pub who: Vec<Who>,
    /// Which groups, and, with `#`, which clients: any of these.
    pub groups: Vec<Glob>,
    /// What they may do with those.
    pub allow: Verbs,
    /// What they may not do.
    pub deny: Verbs,
    /// What they may be called, and nobody else. Empty where it does not say.
    pub names: Vec<Glob>,
    /// How much they may have.
    pub limits: IdentityLimits,
}

impl Rule {
    /// Whether it concerns a client.
    pub fn concerns(&self, identity: &Identity) -> bool {
        self.who.iter().any(|who| who.fits(identity))
    }

    /// Whether it says something of a verb and a group.
    fn says(&self, group: &[u8], verb: Verb) -> bool {
        (self.allow.has(verb) || self.deny.has(verb)) && self.groups.iter().any(|glob| glob.fits(group))
    }
}

/// A client may not do what it asked for; the text says which rule it is, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Denial {
    /// For people.
    pub text: String,
}

/// All rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// These rules. Without any everybody may do everything.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether a client may do that with a group or, by its private name, with a client.
    ///
    /// # Errors
    /// [`Denial`] where it may not.
    pub fn judge(&self, identity: &Identity, group: &[u8], verb: Verb) -> Result<(), Denial> {
        self.decide(identity, group, verb).map_err(|found| {
            let why =
                found.map_or_else(|| "no rule allows it".to_owned(), |rule| format!("rule {} denies it", rule.name));
            let group = String::from_utf8_lossy(group);
            Denial { text: format!("{identity} may not {} {group}: {why}", verb.act()) }
        })
    }

    /// The same without a text, for those who ask about many groups.
    pub fn allow(&self, identity: &Identity, group: &[u8], verb: Verb) -> bool {
        self.decide(identity, group, verb).is_ok()
    }

    /// The rule that denies it, if that is not because none allows it.
    fn decide(&self, identity: &Identity, group: &[u8], verb: Verb) -> Result<(), Option<&Rule>> {
        if self.is_empty() {
            return Ok(());
        }
        match self.rules.iter().find(|rule| rule.says(group, verb) && rule.concerns(identity)) {
            // One that says both means no.
            Some(rule) if !rule.deny.has(verb) => Ok(()),
            found => Err(found),
        }
    }

    /// Whether a client may be called so. Whom a rule with names concerns is called by one of the names of such rules;
    /// anybody else may be called what no rule keeps for others.
    ///
    /// # Errors
    /// [`Denial`] where it may not.
    pub fn judge_name(&self, identity: &Identity, name: &str) -> Result<(), Denial> {
        let fits = |rule: &&Rule| rule.names.iter().any(|glob| glob.fits(name.as_bytes()));
        let (own, others): (Vec<&Rule>, Vec<&Rule>) =
            self.rules.iter().filter(|rule| !rule.names.is_empty()).partition(|rule| rule.concerns(identity));
        let why = match own.first() {
            Some(_) if own.iter().any(fits) => return Ok(()),
            Some(rule) => format!("rule {} allows {}", rule.name, listed(&rule.names)),
            None => match others.iter().find(|rule| fits(rule)) {
                Some(rule) => format!("rule {} keeps the name for others", rule.name),
                None => return Ok(()),
            },
        };
        Err(Denial { text: format!("{identity} may not be called {name}: {why}") })
    }

    /// How much a client's identity may have: of each limit what the first rule says that concerns it and says something.
    pub fn limits(&self, identity: &Identity) -> IdentityLimits {
        let mut limits = IdentityLimits::default();
        for rule in self.rules.iter().filter(|rule| rule.limits != IdentityLimits::default() && rule.concerns(identity))
        {
            limits.connections = limits.connections.or(rule.limits.connections);
            limits.bytes_per_second = limits.bytes_per_second.or(rule.limits.bytes_per_second);
            limits.groups = limits.groups.or(rule.limits.groups);
            limits.producers = limits.producers.or(rule.limits.producers);
        }
        limits
    }
}

fn listed(names: &[Glob]) -> impl fmt::Display {
    names.iter().map(Glob::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
