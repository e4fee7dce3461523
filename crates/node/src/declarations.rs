//! Checkpoints that this node's clients declare: handed to the engine until the order says so.
use crate::Node;
use consort_order::{DeclareProgress, Engine};
use consort_session::{DeclareRefusal, DeclareRefusalCause, DeclareRequest, DeclareStatus};
use consort_types::{ClientId, Holder, Position};
use std::collections::BTreeMap;

/// What was declared and the order does not say yet: of each holder the latest, and which client waits for the answer.
#[derive(Debug, Default)]
pub(crate) struct Declaring(BTreeMap<Holder, (ClientId, Option<Position>)>);

impl Declaring {
    /// How many may wait.
    const MOST: usize = 256;

    fn is_full_for(&self, holder: &Holder) -> bool {
        self.0.len() >= Self::MOST && !self.0.contains_key(holder)
    }
}

impl<E: Engine> Node<E> {
    /// A client says what it keeps by itself.
    pub(crate) fn on_declare(&mut self, client: ClientId, request: DeclareRequest) {
        //= G58
        let DeclareRequest { order, holder, from } = request;
        if self.declaring.is_full_for(&holder) {
            let text = format!("{} checkpoints wait at this daemon already; declare it again later", Declaring::MOST);
            return self.refuse_to_declare(client, holder, DeclareRefusalCause::TooMany, text);
        }
        let known = self.engine.retained().map(|retained| retained.order);
        if order != 0 && known.is_some_and(|known| known != order) {
            let text = "the checkpoint belongs to an order that nobody keeps any more; it was begun anew, with other \
                        messages; read from the start";
            return self.refuse_to_declare(client, holder, DeclareRefusalCause::OtherOrder, text.to_owned());
        }
        self.declaring.0.insert(holder, (client, from));
        self.declare_on();
    }

    /// Hands the engine what waits, once more, and tells what became of it.
    pub(crate) fn declare_on(&mut self) {
        if self.declaring.0.is_empty() {
            return;
        }
        for (holder, (client, from)) in std::mem::take(&mut self.declaring.0) {
            match self.engine.declare(self.now, &holder, from) {
                DeclareProgress::Pending => drop(self.declaring.0.insert(holder, (client, from))),
                DeclareProgress::Stands => self.tell_declared(client, &DeclareStatus { holder, refused: None }),
                DeclareProgress::Full => {
                    let text = "the order retains for as many holders as it can; withdraw the checkpoint of one that is \
                                not used any more";
                    self.refuse_to_declare(client, holder, DeclareRefusalCause::Full, text.to_owned());
                }
                DeclareProgress::Unsupported => {
                    let protocol = self.engine.capability().protocol;
                    let text = format!("the daemons order with `{protocol}`, which retains nothing for holders");
                    self.refuse_to_declare(client, holder, DeclareRefusalCause::Unsupported, text);
                }
            }
        }
        self.drain_engine();
    }

    fn refuse_to_declare(&mut self, client: ClientId, holder: Holder, cause: DeclareRefusalCause, text: String) {
        let refused = Some(DeclareRefusal { cause, text });
        self.tell_declared(client, &DeclareStatus { holder, refused });
    }

    fn tell_declared(&mut self, client: ClientId, status: &DeclareStatus) {
        self.frames.clear();
        status.put(&mut self.frames);
        self.answer(client);
    }
}
