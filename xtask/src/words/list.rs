//! The words that may not come back, and what to write instead.

/// A word or a phrase in all its forms.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// The forms, in small letters; the first one names the word.
    pub forms: &'static [&'static str],
    /// What to write instead.
    pub instead: &'static str,
}

impl Word {
    /// The form that stands for all.
    pub const fn name(&self) -> &'static str {
        self.forms[0]
    }
}

const fn word(forms: &'static [&'static str], instead: &'static str) -> Word {
    Word { forms, instead }
}

/// Each has a plain word that more readers know. Where the field has a word of its own, such as `standby`, that one is kept.
pub const LIST: &[Word] = &[
    word(&["anew"], "again"),
    word(&["aside"], "what it is separate from, or that it is kept"),
    word(&["companion", "companions"], "plug-in program"),
    word(&["donation", "donations"], "snapshot transfer"),
    word(&["farewell", "farewells"], "disconnect reason, leave"),
    word(&["from here on"], "from now on"),
    word(&["gift", "gifts"], "snapshot transfer"),
    word(&["good bye"], "disconnect reason, leave"),
    word(&["hear", "hears", "heard", "hearing"], "receive, reach, last seen"),
    word(&["heed", "heeds", "heeded"], "accept, follow"),
    word(&["keep out", "keeps out", "kept out"], "quarantine, reject"),
    word(&["keeper", "keepers"], "the noun of the thing, for example replica process"),
    word(&["let go", "lets go", "letting go"], "release"),
    word(&["let in", "lets in", "letting in"], "admit"),
    word(&["mend", "mends", "mended", "mending"], "fix"),
    word(&["nobody"], "no client, no node, no one with a name"),
    word(&["of its own"], "its own"),
    word(&["parted"], "partitioned, diverged"),
    word(&["place", "places", "placed"], "position; is ordered, is committed"),
    word(&["roaming", "roamer"], "failover session"),
    word(&["so long"], "for that time, as long as"),
    word(&["so many"], "the number, n"),
    word(&["somebody"], "a client, a node, a program"),
    word(&["stand", "stands", "stood", "standing"], "be, exist, apply"),
    word(&["teller", "tellers"], "sender, notifier"),
    word(&["tell", "tells", "told", "telling"], "deliver, notify, push; broadcast, propose; report, encode; last sent"),
    word(&["turn away", "turns away", "turned away"], "reject"),
    word(&["turn back", "turns back", "turned back"], "reject"),
    word(&["whoever"], "any node that, any client that"),
    word(&["whom"], "which node, which client"),
    word(&["wish", "wishes", "wished"], "request"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_small_and_each_counts_once() {
        let mut forms: Vec<_> = LIST.iter().flat_map(|word| word.forms).collect();
        assert!(forms.iter().all(|form| form.chars().all(|c| c.is_ascii_lowercase() || c == ' ')));
        forms.sort();
        let before = forms.len();
        forms.dedup();
        assert_eq!(forms.len(), before);
    }
}
