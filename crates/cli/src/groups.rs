//! `consort groups`: which groups there are, and who is in them.
use crate::args::Args;
use crate::connect::Wanted;
use crate::failure::{Failure, Outcome};
use crate::inquiry::Inquiry;
use consort_session::listing::GroupEntry;
use consort_session::{Member, PrivateName};
use consort_types::GroupName;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

/// What `consort groups --help` prints.
pub const HELP: &str = "\
Usage: consort groups [options] [GROUP...]

Lists the groups that have members, by name, with how many; or the members of
each GROUP. All daemons of a cluster know the same groups, so one is asked.

  --members        the members of every group, too
  --json           print one JSON array

  --node ID        ask this node's daemon [the lowest on this machine]
  --cluster NAME   of this cluster
  --daemon ADDR    ask the daemon at this socket path or ADDRESS:PORT

A member is told by its private name: a program that sends to #bob#n1 reaches
bob alone.
In a closed group only members may send. Long lists come in pieces: what changes
meanwhile may or may not be told.
";

#[derive(Debug, Default)]
struct Options {
    wanted: Wanted,
    members: bool,
    json: bool,
    groups: Vec<GroupName>,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let mut inquiry = Inquiry::open(&options.wanted.one()?)?;
    let mut printer = GroupPrinter::new(options.json);
    if options.groups.is_empty() {
        inquiry.groups(|inquiry, group| {
            let members = if options.members { Some(inquiry.members(&group.name)?) } else { None };
            printer.group(group, members.as_deref())
        })?;
    } else {
        for name in &options.groups {
            let members = inquiry.members(name)?;
            if members.is_empty() {
                printer.finish()?;
                return Err(Failure::new(format!(
                    "{name}: no group of that name has members; `consort groups` lists all"
                )));
            }
            printer.members(name, &members)?;
        }
    }
    printer.finish()
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options = Options::default();
    let names = Args::each(words, HELP, |option, args| {
        match option {
            "--members" => options.members = true,
            "--json" => options.json = true,
            _ => return options.wanted.take(option, args),
        }
        Ok(true)
    })?;
    options.groups = names.iter().map(group).collect::<Outcome<_>>()?;
    Ok(options)
}

fn group(word: &OsString) -> Outcome<GroupName> {
    let name = word.to_string_lossy();
    GroupName::new(name.as_bytes()).map_err(|problem| Failure::usage(format!("GROUP `{name}`: {problem}")))
}

/// Prints groups as they come: there may be many.
struct GroupPrinter {
    out: BufWriter<io::Stdout>,
    json: bool,
    count: u64,
}

impl GroupPrinter {
    fn new(json: bool) -> Self {
        Self { out: BufWriter::new(io::stdout()), json, count: 0 }
    }

    fn group(&mut self, group: &GroupEntry, members: Option<&[Member]>) -> Outcome {
        if self.json {
            let mut value = json!({ "group": group.name.as_str(), "members": group.members, "closed": group.closed });
            if let Some(members) = members {
                value["list"] = members.iter().map(as_json).collect();
            }
            return self.item(&value);
        }
        if self.count == 0 {
            writeln!(self.out, "MEMBERS  GROUP")?;
        }
        self.count += 1;
        let closed = if group.closed { "  (closed)" } else { "" };
        writeln!(self.out, "{:>7}  {}{closed}", group.members, group.name.as_str())?;
        self.list(members.unwrap_or_default())
    }

    fn members(&mut self, group: &GroupName, members: &[Member]) -> Outcome {
        if self.json {
            let list: Value = members.iter().map(as_json).collect();
            return self.item(&json!({ "group": group.as_str(), "members": members.len(), "list": list }));
        }
        let plural = if members.len() == 1 { "member" } else { "members" };
        writeln!(self.out, "{}: {} {plural}", group.as_str(), members.len())?;
        self.list(members)
    }

    fn list(&mut self, members: &[Member]) -> Outcome {
        for member in members {
            writeln!(self.out, "         {}", private(member))?;
        }
        Ok(())
    }

    fn item(&mut self, value: &Value) -> Outcome {
        write!(self.out, "{}{value}", if self.count == 0 { "[" } else { ",\n" })?;
        self.count += 1;
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        match (self.json, self.count) {
            (true, 0) => writeln!(self.out, "[]")?,
            (true, _) => writeln!(self.out, "]")?,
            _ => {}
        }
        Ok(self.out.flush()?)
    }
}

fn private(member: &Member) -> PrivateName {
    PrivateName::new(&member.name, member.daemon.node)
}

fn as_json(member: &Member) -> Value {
    json!({
        "node": member.daemon.node.0,
        "client": member.client.0,
        "name": member.name.as_str(),
        "private": private(member).as_str(),
        "spread": member.client.speaks_spread(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Outcome<Options> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn groups_and_options_are_told_apart() {
        let options = options("a --members b --json").unwrap();
        assert_eq!(options.groups.iter().map(GroupName::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert!(options.members && options.json);
        assert!(self::options("#x").unwrap_err().message.starts_with("GROUP `#x`: a group name has byte"));
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}
