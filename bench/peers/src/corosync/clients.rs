//! Clients of Corosync. Its libcpg is a library for C, and this crate has no `unsafe`: so they are a small program in C
//! that is compiled when it is wanted, and that sends, receives, judges and reports as `sender` and `receiver` do.
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_testbed::job::{Job, Load, Pace};
use std::convert::Infallible;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where a daemon of Corosync and its clients see the directory that was made for all of them.
pub const INSIDE: &str = "/run/bench";
/// The most members that a group may have.
pub const MEMBERS_MAX: u16 = 128;
/// The compiled program's name.
const PROGRAM: &str = "corosync-client";
const SOURCES: [(&str, &str); 2] = [("client.c", include_str!("client.c")), ("measure.h", include_str!("measure.h"))];

/// Compiles the client into a directory.
pub fn compile(directory: &Path) -> Outcome {
    for (name, text) in SOURCES {
        fs::write(directory.join(name), text).trying(|| format!("cannot write into {}", directory.display()))?;
    }
    cc(directory, PROGRAM, &["client.c", "-lcpg", "-lcorosync_common", "-lpthread", "-lm"])
}

/// Runs the C compiler in a directory; a failure has the first error that it told.
fn cc(directory: &Path, program: &str, words: &[&str]) -> Outcome {
    let mut command = Command::new("cc");
    command.env("LC_ALL", "C");
    command.args(["-O2", "-o", program]).args(words).current_dir(directory).stdin(Stdio::null());
    let said = command.output().trying(|| "cannot run the C compiler `cc`".into())?;
    let text = String::from_utf8_lossy(&said.stderr);
    let error =
        text.lines().find(|line| line.contains("error") || line.contains("cannot find")).or(text.lines().next());
    match said.status.success() {
        true => Ok(()),
        false => Err(Failure::new(format!("cc: {}", error.unwrap_or("it failed without a word")))),
    }
}

/// The socket of Corosync is for that program only.
pub fn apart() -> Failure {
    Failure::new("clients of Corosync are a program of their own")
}

/// Replaces this process by a client in the namespaces of its daemon: who started this one finds the same input, output
/// and process number. Returns only if that fails.
pub fn become_client(job: &Job, daemon: &Path) -> Outcome<Infallible> {
    let words = words(job)?;
    let pid = fs::read_to_string(daemon).trying(|| format!("cannot read {}", daemon.display()))?;
    let mut command = Command::new("nsenter");
    command.args(["--target", pid.trim(), "--mount", "--uts", "--ipc", "--net"]);
    let error = command.arg(format!("{INSIDE}/{PROGRAM}")).args(words).exec();
    Err(error).trying(|| "cannot run nsenter".into())
}

/// The job as the program takes it.
fn words(job: &Job) -> Outcome<[String; 8]> {
    let (Load::Made(size), false) = (&job.load, job.digest) else {
        return Err(Failure::new("clients of Corosync send made messages only, and do not hash what they carry"));
    };
    let (pace, rate) = match job.pace {
        Pace::Max => ("max", 0.0),
        Pace::Even(rate) => ("even", rate),
        Pace::Poisson(rate) => ("poisson", rate),
    };
    let numbers = [job.index, job.senders, job.receivers].map(|number| number.to_string());
    let [index, senders, receivers] = numbers;
    let cut = u8::from(job.cut).to_string();
    Ok([index, senders, receivers, job.group.clone(), size.to_string(), pace.into(), rate.to_string(), cut])
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_testbed::ClientAddress;
    use consort_testbed::Schedule;
    use consort_testbed::Seen;
    use consort_testbed::Times;
    use consort_testbed::job::{Go, Received, Report, Role};
    use consort_testbed::{HEADER, Kind, Stamp};
    use std::io::Write;

    const GO: Go = Go { start: 1_000, from: 200_000_000, until: 900_000_000 };

    fn job(index: u16, pace: Pace) -> Job {
        Job {
            role: Role::Receiver,
            address: ClientAddress::other("Corosync", "daemon.pid"),
            index,
            senders: 2,
            receivers: 3,
            group: "bench-1".into(),
            service: "agreed".into(),
            load: Load::Made(100),
            pace,
            cut: true,
            unbatched: false,
            sockets: false,
            digest: false,
        }
    }

    /// What the C side of the comparison says. Whoever compiles Rust has a linker, which is a C compiler nearly
    /// everywhere.
    fn c_says(words: &[&str], input: &[u8]) -> String {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("measure.h"), SOURCES[1].1).unwrap();
        fs::write(directory.path().join("compared.c"), include_str!("compared.c")).unwrap();
        cc(directory.path(), "compared", &["-Wall", "-Wextra", "-Werror", "compared.c", "-lm"]).unwrap();
        let mut command = Command::new(directory.path().join("compared"));
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    #[test]
    fn messages_are_due_when_the_rust_clients_would_send_them() {
        let paces = [("even", Pace::Even(10_000.0)), ("poisson", Pace::Poisson(10_000.0)), ("max", Pace::Max)];
        for (name, pace) in paces {
            let mut ours = Schedule::new(&job(1, pace), GO);
            // Asked ever later, the last time behind the end.
            let asked: Vec<u64> = (0..=100).map(|step| step * 9_000_000).collect();
            let dues: Vec<u64> = asked.iter().map(|now| ours.next(*now).unwrap_or(0)).collect();
            let said = c_says(&["schedule", name, "10000", "1", "1", "2"], &[]);
            let theirs: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!(theirs.len(), dues.len() + 1, "{said}");
            // Two libraries' logarithms may differ in the last bit.
            assert!(dues.iter().zip(&theirs).all(|(a, b)| a.abs_diff(*b) <= 1), "{name}: {dues:?} {theirs:?}");
            assert_eq!(theirs[dues.len()], ours.unsent(), "{name}");
        }
    }

    /// What the judges on both sides say of messages that came at these times.
    fn judged(messages: &[(u64, Vec<u8>)]) -> (Received, Received) {
        let (mut ours, mut input) = (Seen::new(&job(0, Pace::Max), GO).unwrap(), Vec::new());
        for (now, message) in messages {
            ours.take(*now, message).unwrap();
            input.extend(now.to_be_bytes());
            input.extend((message.len() as u32).to_be_bytes());
            input.extend(message);
        }
        let said = c_says(&["judge", "2"], &input);
        let Ok(Report::Received(theirs)) = serde_json::from_str(&said) else { panic!("{said}") };
        (ours.finish(), theirs)
    }

    fn message(sender: u16, number: u64, kind: Kind, at: u64) -> Vec<u8> {
        let mut message = vec![b'.'; if kind == Kind::End { HEADER } else { 100 }];
        Stamp { at, number, sender, kind }.write(&mut message);
        message
    }

    #[test]
    fn what_came_is_judged_as_the_rust_clients_judge_it() {
        let (mut messages, mut counts) = (Vec::new(), [0u64; 2]);
        for number in 0..5_000u64 {
            let at = 100_000_000 + number * 170_001;
            let kind = if (GO.from..GO.until).contains(&at) { Kind::Measured } else { Kind::Unmeasured };
            let sender = number % 7 % 2;
            let count = &mut counts[sender as usize];
            messages.push((at + number * number, message(sender as u16, *count, kind, at)));
            *count += 1;
        }
        for (sender, count) in counts.into_iter().enumerate() {
            messages.push((2_000_000_000, message(sender as u16, count, Kind::End, 0)));
        }
        let (ours, theirs) = judged(&messages);
        assert!(ours.complete && ours.wrong == 0 && ours.in_span > 1_000, "{ours:?}");
        assert_same(&ours, &theirs);
        // Holes, strangers and a missing end.
        messages.remove(77);
        messages.push((3_000_000_000, message(2, 0, Kind::Measured, 3_000_000_000)));
        messages.retain(|(_, one)| one[17] != 1 || one[18] != Kind::End as u8);
        let (ours, theirs) = judged(&messages);
        assert!(!ours.complete && ours.wrong == 2, "{ours:?}");
        assert_same(&ours, &theirs);
    }

    fn assert_same(ours: &Received, theirs: &Received) {
        let told = |one: &Received| {
            let order = (one.digest.clone(), one.wrong, one.complete);
            (order, one.messages, one.in_span, one.bytes_in_span, one.first, one.last)
        };
        assert_eq!(told(ours), told(theirs));
        let [a, b] = [ours, theirs].map(|one| {
            let mut times = Times::new().unwrap();
            times.add(&one.times);
            times.quantiles()
        });
        for (a, b) in [(a.p50, b.p50), (a.p90, b.p90), (a.p99, b.p99), (a.p999, b.p999), (a.max, b.max)] {
            assert!((a / b - 1.0).abs() < 0.002, "{a} {b}");
        }
    }

    #[test]
    fn a_job_is_told_in_words_and_what_does_not_fit_is_refused() {
        let told = |job: &Job| words(job).map(|words| words.join(" ")).map_err(|failure| failure.message);
        assert_eq!(told(&job(1, Pace::Max)).unwrap(), "1 2 3 bench-1 100 max 0 1");
        assert_eq!(told(&job(0, Pace::Poisson(333.5))).unwrap(), "0 2 3 bench-1 100 poisson 333.5 1");
        let lines = Job { load: Load::Lines("file".into()), ..job(0, Pace::Max) };
        assert!(told(&lines).unwrap_err().starts_with("clients of Corosync send made messages only"));
        assert!(told(&Job { digest: true, ..job(0, Pace::Max) }).is_err());
        let missing = become_client(&job(0, Pace::Max), Path::new("/nowhere/daemon.pid")).unwrap_err().message;
        assert!(missing.starts_with("cannot read /nowhere/daemon.pid: "), "{missing}");
    }

    #[test]
    fn what_the_compiler_does_not_take_is_told_in_its_words() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("bad.c"), "#include <nowhere/at_all.h>\n").unwrap();
        let problem = cc(directory.path(), "bad", &["bad.c"]).unwrap_err().message;
        assert!(problem.starts_with("cc: bad.c:1:") && problem.contains("nowhere/at_all.h"), "{problem}");
    }
}
