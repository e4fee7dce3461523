//! A session over several daemons, told what to do.
use crate::told::{failure, told_of_session};
use crate::{group, message};
use consort::{Address, ReadFrom, Session, SessionOptions};
use consort_conformance::words::{milliseconds, sent, wrong};

pub(crate) fn connect(words: &[&str]) -> Result<Session, String> {
    let addresses: Vec<Address> = words.iter().map(|word| word.parse().map_err(wrong)).collect::<Result<_, _>>()?;
    if addresses.is_empty() {
        return Err(wrong("no address"));
    }
    Session::connect(&addresses, SessionOptions::default()).map_err(failure)
}

pub(crate) fn ask(session: &mut Session, request: &str, words: &[&str]) -> Result<String, String> {
    let done = |done: Result<(), consort::Error>| done.map(|()| "ok".into()).map_err(failure);
    match request {
        "join" => done(session.join(&group(words)?)),
        "leave" => done(session.leave(&group(words)?)),
        "read" => read(session, words),
        "send" => {
            let (service, targets, payload) = message(words)?;
            session.send(service, &targets, &payload).map(sent).map_err(failure)
        }
        "receive" => {
            let event = session.receive(milliseconds(words)?).map_err(failure)?;
            Ok(told_of_session(event.as_ref()))
        }
        "wait" => done(session.settle(milliseconds(words)?)),
        other => Err(wrong(format!("{other:?} is no request"))),
    }
}

fn read(session: &mut Session, words: &[&str]) -> Result<String, String> {
    let [from, groups @ ..] = words else { return Err(wrong("no place to read from")) };
    let from = match *from {
        "start" => ReadFrom::Start,
        "new" => ReadFrom::New,
        place => ReadFrom::Place(place.parse().map_err(wrong)?),
    };
    let groups = groups.iter().map(|name| group(&[name])).collect::<Result<Vec<_>, _>>()?;
    session.read(&groups, from).map(|()| "ok".into()).map_err(failure)
}
