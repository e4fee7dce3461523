//! What a daemon says to a Spread client, as lines.
use consort_conformance::words::told_payload;
use consort_testbed::spread::{
    AGREED, BY_DISCONNECT, BY_JOIN, BY_LEAVE, CAUSAL, FIFO, Frame, MEMBERSHIP, RELIABLE, SAFE, UNRELIABLE,
};
use std::io;

/// An event of the client with this private name.
///
/// # Errors
/// If it is none that a daemon writes.
pub(crate) fn told(frame: &Frame, own: &str) -> io::Result<String> {
    let Frame { kind, name, names, .. } = frame;
    let names = names.join(",");
    if frame.is_rejected() {
        return Ok(format!("refused : the daemon gave back what went to {names}"));
    }
    if let Some(data) = frame.message() {
        let payload = told_payload(data);
        return Ok(format!("message service={} sender={name} {payload} to={names}", service(*kind)?));
    }
    if frame.is_signal() {
        return Ok(format!("group_signal group={name}"));
    }
    if frame.is_by_network() {
        return Ok(format!("group_view group={name} cause=network members={names}"));
    }
    match *kind {
        // Who leaves is told no more than that.
        BY_LEAVE => Ok(format!("group_view group={name} cause=leave changed={own}")),
        view if view & MEMBERSHIP != 0 => {
            let changed = frame.first_set()?.join(",");
            Ok(format!("group_view group={name} cause={} changed={changed} members={names}", cause(view)?))
        }
        other => Err(unknown(other)),
    }
}

fn service(kind: u32) -> io::Result<&'static str> {
    match kind {
        UNRELIABLE => Ok("unreliable"),
        RELIABLE => Ok("reliable"),
        FIFO => Ok("fifo"),
        CAUSAL => Ok("causal"),
        AGREED => Ok("agreed"),
        SAFE => Ok("safe"),
        other => Err(unknown(other)),
    }
}

fn cause(kind: u32) -> io::Result<&'static str> {
    match kind & !MEMBERSHIP {
        BY_JOIN => Ok("join"),
        BY_LEAVE => Ok("leave"),
        BY_DISCONNECT => Ok("disconnect"),
        other => Err(unknown(other)),
    }
}

fn unknown(kind: u32) -> io::Error {
    io::Error::other(format!("a message of the type {kind:#x}, which Spread does not have"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u32, names: &[&str]) -> Frame {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Frame { kind, name: "g".into(), names, data: Vec::new() }
    }

    #[test]
    fn each_kind_has_its_line_and_what_is_none_is_an_error() {
        let line = |kind, names: &[&str]| told(&frame(kind, names), "#ann#n1").unwrap();
        assert_eq!(line(BY_LEAVE, &[]), "group_view group=g cause=leave changed=#ann#n1");
        assert_eq!(
            line(MEMBERSHIP | 0x800, &["#a#n1", "#b#n2"]),
            "group_view group=g cause=network members=#a#n1,#b#n2"
        );
        assert_eq!(line(0x2000, &[]), "group_signal group=g");
        assert_eq!(line(UNRELIABLE, &["h"]), "message service=unreliable sender=g length=0 crc=00000000 to=h");
        assert_eq!(line(0x40_0000, &["h", "#ann#n1"]), "refused : the daemon gave back what went to h,#ann#n1");
        for (kind, said) in
            [(AGREED | SAFE, "type 0x30"), (0x80_0000, "type 0x800000"), (MEMBERSHIP | BY_JOIN, "first set")]
        {
            let error = told(&frame(kind, &["h"]), "#ann#n1").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
