//! `consort withdraw`: nothing need be retained for a holder any more.
use crate::args::Args;
use crate::clock;
use crate::connect::Wanted;
use crate::failure::{Code, Failure, Outcome, heard_or_not};
use consort::{Client, ConnectOptions, Event, Holder};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::time::Duration;

/// What `consort withdraw --help` prints.
pub const HELP: &str = "\
Usage: consort withdraw HOLDER [options]

Ends what `consort receive --holder HOLDER` or a program's own declaration has
begun: the daemons retain nothing for that holder any more. `consort status`
names the holders.

A copy of a program that is bound, such as a partition of a store at a server
(kv.main.1/3), is waited for no longer: what the log releases must be on a
majority of the copies that are left. With one copy left of three, what the log
releases is on that disk alone, and is lost with it. If the last copy is
withdrawn, the daemons forget the program. What a withdrawn copy declares does
not count until it is bound again.

  --timeout TIME   give up after so long, with exit code 5 [10s]

  --node ID        talk to this node's daemon [the lowest on this machine]
  --cluster NAME   of this cluster
  --daemon ADDR    talk to the daemon at this socket path or ADDRESS:PORT
";

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let (wanted, holder, timeout) = read(words)?;
    let mut client = wanted.connect(&ConnectOptions::default())?;
    client.withdraw(&holder).map_err(|error| Failure::new(error.to_string()))?;
    wait_for_answer(&mut client, &holder, clock::now_ns() + timeout.as_nanos() as u64)?;
    heard_or_not(writeln!(io::stdout(), "nothing is retained for {holder} any more"))
}

fn wait_for_answer(client: &mut Client, holder: &Holder, deadline: u64) -> Outcome {
    loop {
        let left = Duration::from_nanos(deadline.saturating_sub(clock::now_ns()));
        match client.receive(left).map_err(|error| Failure::new(error.to_string()))? {
            Some(Event::Declared(status)) if status.holder == *holder => {
                return status.refused.map_or(Ok(()), |refusal| Err(Failure::new(refusal.to_string())));
            }
            Some(_) => {}
            None => {
                let text = format!("the order did not take it in time; {holder} may be withdrawn later, or not");
                return Err(Failure::new(text).with(Code::Timeout));
            }
        }
    }
}

fn read(words: Vec<OsString>) -> Outcome<(Wanted, Holder, Duration)> {
    let (mut wanted, mut timeout) = (Wanted::default(), Duration::from_secs(10));
    let names = Args::each(words, HELP, |option, args| match option {
        "--timeout" => {
            timeout = args.duration()?;
            Ok(true)
        }
        _ => wanted.take(option, args),
    })?;
    let [name] = names.as_slice() else {
        return Err(Failure::usage("name one holder: consort withdraw ledger/2"));
    };
    let holder = name.to_string_lossy().parse().map_err(|error| Failure::usage(format!("{error}")))?;
    Ok((wanted, holder, timeout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_is_named() {
        let problem = |words: &[&str]| read(words.iter().map(OsString::from).collect()).unwrap_err().message;
        assert!(problem(&[]).contains("consort withdraw ledger/2"));
        assert!(problem(&["one", "two"]).contains("name one holder"));
        assert!(problem(&["a b"]).contains("names no holder of a checkpoint"));
        assert_eq!(read(vec!["ledger/2".into()]).unwrap().1.to_string(), "ledger/2");
    }
}
