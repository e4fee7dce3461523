//! Systems in Java: their nodes are programs that send and receive themselves, compiled here against the jar of the system.

mod clients;

use crate::tools::runs;
use crate::{WARM_UP, Work};
use consort_daemon::failure::{Failure, Outcome, Trying};
use consort_testbed::Round;
use consort_testbed::job::{Load, Pace};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub use clients::{NodeListener, NodeSpeaker};

/// The compiler, which a JDK has as a module of `java` itself.
const COMPILER: [&str; 2] = ["-m", "jdk.compiler/com.sun.tools.javac.Main"];
/// What all nodes have in common.
const NODE: (&str, &str) = ("MeasuredNode.java", include_str!("MeasuredNode.java"));

/// For a script: `joined FILE PID` waits until a node has made its file.
pub const JOINED: &str = "joined() {
  tries=0
  while [ ! -e $1.joined ]; do
    tries=$((tries + 1))
    if [ $tries -gt 700 ] || ! kill -0 $2; then tail -n 5 $1.log >&2; exit 1; fi
    sleep 0.05
  done
}
";

/// Why nodes of a system cannot run whose jar an option names.
pub fn obstacle(option: &str, jar: &Path) -> Option<String> {
    if let Err(error) = fs::File::open(jar) {
        return Some(format!("{option}: cannot read {}: {error}", jar.display()));
    }
    if !runs("java", &[&COMPILER[..], &["-version"]].concat()) {
        return Some("`java` with its compiler, as a JDK of version 11 or later has it, is not installed".into());
    }
    (!runs("setpriv", &["--version"])).then(|| "`setpriv` is not installed".into())
}

/// Compiles the node of a system, the name of whose file comes first.
pub fn compile(system: &str, jar: &Path, directory: &Path, node: (&str, &str)) -> Outcome {
    let mut command = Command::new("java");
    command.args(COMPILER).arg("-cp").arg(jar).arg("-d").arg(directory).stdin(Stdio::null());
    for (name, text) in [NODE, node] {
        let source = directory.join(name);
        fs::write(&source, text).trying(|| format!("cannot write {}", source.display()))?;
        command.arg(source);
    }
    let output = command.output().trying(|| "cannot run java".into())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Failure::new(format!("the node of {system} does not compile with {}:\n{said}", jar.display())))
        }
    }
}

/// All nodes send all they may before anything is measured, for what Java compiles while it runs.
pub fn warm_up(work: &Work) -> Round {
    Round {
        group: "warm-up".into(),
        service: work.service.name().into(),
        load: Load::Made(work.size),
        pace: Pace::Max,
        cut: false,
        senders: work.senders,
        receivers: None,
        unbatched: work.unbatched,
        sockets: false,
        digest: false,
        warm_up: WARM_UP,
        span: Duration::from_millis(100),
    }
}
