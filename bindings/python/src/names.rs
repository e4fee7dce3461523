//! Names and numbers that Python hands in.
use crate::failure::Failure;
use consort::{GroupName, PrivateName, Service, Target};

pub(crate) fn named(group: &str) -> Result<GroupName, Failure> {
    GroupName::new(group).map_err(Failure::invalid)
}

pub(crate) fn groups(names: &[String]) -> Result<Vec<GroupName>, Failure> {
    names.iter().map(|name| named(name)).collect()
}

pub(crate) fn targets(names: &[String]) -> Result<Vec<Target>, Failure> {
    names.iter().map(|name| target(name)).collect()
}

/// A group, or a client where it begins as a private name does.
fn target(name: &str) -> Result<Target, Failure> {
    if !name.starts_with('#') {
        return named(name).map(Target::Group);
    }
    let client = PrivateName::parse(name);
    client.map(Target::Client).ok_or_else(|| Failure::invalid(format!("{name:?} names no client; write #name#nNODE")))
}

pub(crate) fn service_of(number: i32) -> Result<Service, Failure> {
    let known = u8::try_from(number).ok().and_then(Service::from_wire);
    known.ok_or_else(|| Failure::invalid(format!("{number} is no service; give a consort.Service")))
}
