//! Programs that want all cores, memory and disk, each in a session of its own, as builds and jobs of others are.
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::stage::text;
use consort_testbed::network::Network;

/// How many start one program after the other.
const FORKS: usize = 8;
const FORK: &str = "while :; do /bin/true; done";
const MEMORY: &str = "while :; do dd if=/dev/zero of=/dev/null bs=256M count=8; done";
const DISK: &str = "while :; do dd if=/dev/zero of=stress bs=1M count=128 conv=fsync; rm -f stress; done";

/// They run; dropping this ends them.
pub struct Stress(Vec<Child>);

impl Stress {
    /// Starts all; none outlives this time, whatever becomes of this process.
    ///
    /// # Errors
    /// The system's.
    pub fn start(network: &Network, directory: &Path, most: Duration) -> Result<Self, String> {
        let mut stress = Self(Vec::new());
        let seconds = (most.as_secs() + 30).to_string();
        for script in [[FORK; FORKS].as_slice(), &[MEMORY, DISK]].concat() {
            let mut command = Command::new("setsid");
            command.args(["timeout", "--signal=KILL", &seconds, "sh", "-c", script]).current_dir(directory);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            stress.0.push(network.spawn(0, &mut command).map_err(text)?);
        }
        Ok(stress)
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // `timeout` passes SIGTERM on to all that it has started, and ends.
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
            let _ = child.wait();
        }
    }
}
