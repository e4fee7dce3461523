//! What this node's clients say of the copies of programs: handed to the engine until the order says so.
use crate::Node;
use consort_order::{Declaration, DeclarationKind, DeclareProgress, Engine};
use consort_rights::{Denial, Verb};
use consort_session::copies::put_copies;
use consort_session::{
    BindRefusal, BindRefusalCause, Bound, DeclareRefusal, DeclareRefusalCause, DeclareRequest, DeclareStatus,
};
use consort_types::{Binding, ClientId, Copies, Holder};
use std::collections::BTreeMap;

/// What the order does not say yet.
#[derive(Debug, Default)]
pub(crate) struct Declaring {
    /// Of each holder and kind the latest, and which client waits for the answer.
    waiting: BTreeMap<(Holder, DeclarationKind), Waiting>,
}

#[derive(Debug)]
struct Waiting {
    client: ClientId,
    /// The order that its position belongs to; 0 for whatever order there is.
    order: u64,
    declaration: Declaration,
}

impl Declaring {
    /// How many may wait.
    const MOST: usize = 256;

    /// A client is gone: what it said is not proposed again, because that may come behind what another says of the holder.
    pub(crate) fn forget(&mut self, client: ClientId) {
        //= G58
        self.waiting.retain(|_, waiting| waiting.client != client);
    }

    fn is_full_for(&self, declaration: &Declaration) -> bool {
        let key = (declaration.holder().clone(), declaration.kind());
        self.waiting.len() >= Self::MOST && !self.waiting.contains_key(&key)
    }
}

impl<E: Engine> Node<E> {
    /// A client says what it keeps by itself.
    pub(crate) fn on_declare(&mut self, client: ClientId, request: DeclareRequest) {
        //= G58
        let DeclareRequest { order, holder, from, epoch } = request;
        let declaration = match from {
            Some(from) => Declaration::Keep { holder, epoch, from },
            None => Declaration::Withdraw(holder),
        };
        self.take_up(client, order, declaration);
    }

    /// A copy of a program says in which state it starts.
    pub(crate) fn on_bind(&mut self, client: ClientId, binding: Binding) {
        //= G71
        self.take_up(client, binding.order, Declaration::Bind(Binding { order: 0, ..binding }));
    }

    fn take_up(&mut self, client: ClientId, order: u64, declaration: Declaration) {
        let program = declaration.holder().program();
        if self.rights.is_on()
            && let Err(Denial { text }) = self.rights.judge(client, program.as_bytes(), Verb::Keep)
        {
            return self.tell_declared(client, declaration, Some(DeclareRefusalCause::Denied), Some(text));
        }
        if self.declaring.is_full_for(&declaration) {
            return self.tell_declared(client, declaration, Some(DeclareRefusalCause::TooMany), None);
        }
        let key = (declaration.holder().clone(), declaration.kind());
        self.declaring.waiting.insert(key, Waiting { client, order, declaration });
        self.declare_on();
    }

    /// Hands the engine what waits, once more, and tells what became of it.
    pub(crate) fn declare_on(&mut self) {
        if self.declaring.waiting.is_empty() {
            return;
        }
        let known = self.engine.retained().map(|retained| retained.order);
        for (key, Waiting { client, order, declaration }) in std::mem::take(&mut self.declaring.waiting) {
            if order != 0 && known.is_some_and(|known| known != order) {
                self.tell_declared(client, declaration, Some(DeclareRefusalCause::OtherOrder), None);
                continue;
            }
            // A position of one order means nothing in another: it waits until the daemon knows which one there is.
            let is_known = order == 0 || known.is_some() || !self.replays;
            match if is_known { self.engine.declare(self.now, &declaration) } else { DeclareProgress::Pending } {
                DeclareProgress::Pending => {
                    self.declaring.waiting.insert(key, Waiting { client, order, declaration });
                }
                progress => self.tell_progress_of(client, declaration, progress),
            }
        }
        self.drain_engine();
    }

    fn tell_progress_of(&mut self, client: ClientId, declaration: Declaration, progress: DeclareProgress) {
        let (cause, detail) = match progress {
            DeclareProgress::Pending | DeclareProgress::Stands => (None, None),
            DeclareProgress::Bound { epoch } => return self.tell_bound(client, declaration, Ok(epoch)),
            DeclareProgress::Full => (Some(DeclareRefusalCause::Full), None),
            DeclareProgress::Unsupported => (Some(DeclareRefusalCause::Unsupported), None),
            DeclareProgress::Superseded { epoch, label } => {
                let text = superseded(declaration.holder(), epoch, &label);
                (Some(DeclareRefusalCause::Superseded), Some(text))
            }
            DeclareProgress::SeatsTaken { copies } => {
                let text = seats_taken(declaration.holder(), copies);
                return self.tell_bound(client, declaration, Err((BindRefusalCause::SeatsTaken, text)));
            }
        };
        self.tell_declared(client, declaration, cause, detail);
    }

    /// Answers that it is in the order, or why it is not.
    fn tell_declared(
        &mut self,
        client: ClientId,
        declaration: Declaration,
        cause: Option<DeclareRefusalCause>,
        detail: Option<String>,
    ) {
        let text = |cause| detail.unwrap_or_else(|| self.why_not(cause));
        let refused = cause.map(|cause| DeclareRefusal { cause, text: text(cause) });
        if let (Declaration::Bind(_), Some(refusal)) = (&declaration, &refused) {
            let outcome = Err((bind_cause(refusal.cause), refusal.text.clone()));
            return self.tell_bound(client, declaration, outcome);
        }
        let holder = declaration.holder().clone();
        self.frames.clear();
        DeclareStatus { holder, refused }.put(&mut self.frames);
        self.answer(client);
    }

    fn tell_bound(
        &mut self,
        client: ClientId,
        declaration: Declaration,
        outcome: Result<u64, (BindRefusalCause, String)>,
    ) {
        let Declaration::Bind(Binding { holder, token, .. }) = declaration else { return };
        let outcome = outcome.map_err(|(cause, text)| BindRefusal { cause, text });
        self.frames.clear();
        Bound { holder, token, outcome }.put(&mut self.frames);
        self.answer(client);
    }

    fn why_not(&self, cause: DeclareRefusalCause) -> String {
        match cause {
            DeclareRefusalCause::TooMany => {
                format!("{} checkpoints wait at this daemon already; declare it again later", Declaring::MOST)
            }
            DeclareRefusalCause::OtherOrder => {
                "the checkpoint belongs to an order that no daemon keeps any more; it was \
                                                begun anew, with other messages; read from the start"
                    .to_owned()
            }
            DeclareRefusalCause::Full => "the order retains for as many holders as it can; withdraw the checkpoint of \
                                          one that is not used any more"
                .to_owned(),
            DeclareRefusalCause::Superseded => "the copy has another epoch".to_owned(),
            DeclareRefusalCause::Denied => "the rules do not allow it".to_owned(),
            DeclareRefusalCause::Unsupported => {
                let protocol = self.engine.capability().protocol;
                format!("the daemons order with `{protocol}`, which retains nothing for holders")
            }
        }
    }

    /// A client asks what the order knows of the copies of a program.
    pub(crate) fn on_ask_copies(&mut self, client: ClientId, holder: Holder) {
        //= G70
        let mut copies = self.engine.copies(&holder);
        if copies.lasts && !self.knows_copies() {
            copies = Copies { lasts: true, ..Copies::unsupported(holder) };
        }
        self.frames.clear();
        put_copies(&copies, &mut self.frames);
        self.answer(client);
    }

    /// Whether what this node has read of the log is as new as that of others, or nothing of it lasts.
    fn knows_copies(&self) -> bool {
        let lasts = self.engine.capability().replays && self.engine.capability().durable;
        !lasts || self.is_settled() && self.engine.retained().is_some()
    }
}

fn superseded(holder: &Holder, epoch: u64, label: &str) -> String {
    match (epoch, label) {
        (0, _) => format!("{holder} is not bound; bind it first"),
        (epoch, "") => format!("{holder} was withdrawn or bound again since, with epoch {epoch}; ask for its copies"),
        (epoch, label) => format!("{holder} is bound again since, by {label}, with epoch {epoch}"),
    }
}

fn seats_taken(holder: &Holder, copies: u16) -> String {
    let program = holder.program();
    match copies {
        0 => format!("the order knows no number of copies of {program}; give it with the first copy"),
        copies => format!(
            "{program} has {copies} copies in the order, and this would be another one or gives another number; bind one \
             of these copies, or withdraw one that does not come back"
        ),
    }
}

const fn bind_cause(cause: DeclareRefusalCause) -> BindRefusalCause {
    match cause {
        DeclareRefusalCause::Full => BindRefusalCause::Full,
        DeclareRefusalCause::Unsupported => BindRefusalCause::Unsupported,
        DeclareRefusalCause::OtherOrder => BindRefusalCause::OtherOrder,
        DeclareRefusalCause::TooMany => BindRefusalCause::TooMany,
        DeclareRefusalCause::Superseded => BindRefusalCause::Superseded,
        DeclareRefusalCause::Denied => BindRefusalCause::Denied,
    }
}
