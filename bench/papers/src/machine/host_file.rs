//! The host parameters of a machine, as `calibrate` writes them and `predict` reads them.
use consort_types::Duration;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The whole file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFile {
    /// What all processes share.
    pub machine: MachineCosts,
    /// What a daemon's work takes.
    pub daemon: DaemonCosts,
    /// What a client's work takes.
    pub client: ClientCosts,
}

/// What all processes share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineCosts {
    /// How many cores there are.
    pub cores: usize,
    /// From when something comes for a process that sleeps until it runs, on a core that sleeps, too.
    pub wake_us: f64,
    /// CPU time to fall asleep and to wake, or to take a core over from another process.
    pub switch_us: f64,
    /// To send or to receive with one call, beside what each packet takes; or to wake another process.
    pub call_us: f64,
    /// For whoever wakes a process on a core that sleeps, beside the call.
    pub kick_us: f64,
    /// How long a core looks for work before it sleeps: so long after it fell idle, waking takes a call alone.
    pub poll_us: f64,
    /// What a daemon's socket holds.
    pub socket_kib: usize,
}

/// What a daemon's work takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DaemonCosts {
    /// What it takes more after it slept for longer than `machine.poll_us`.
    pub cold_us: f64,
    /// To read a message from a client and to submit it.
    pub message_in_us: f64,
    /// To order a message and to write it to a client.
    pub message_out_us: f64,
    /// To send a packet to all others.
    pub packet_out_us: f64,
    /// To receive a packet, and to order what is in it.
    pub packet_in_us: f64,
    /// Each byte of a message that is read, and of one that is written; in nanoseconds.
    pub message_in_byte_ns: f64,
    pub message_out_byte_ns: f64,
    /// Each byte of a packet, sent or received; in nanoseconds.
    pub packet_byte_ns: f64,
}

/// What a client's work takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCosts {
    /// To write a message.
    pub write_us: f64,
    /// To read a message.
    pub read_us: f64,
    /// Each byte of it, in nanoseconds.
    pub byte_ns: f64,
}

/// What the first lines of a file say.
const HEAD: &str = "# What work takes on this machine: written by `cargo papers calibrate`, read by `cargo papers predict --host`.\n\
                    # docs/lab.md names the fields.\n";

impl HostFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Which file and which field is wrong, and what to do.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| {
            format!("--host {}: {error}; measure this machine with `cargo papers calibrate`", path.display())
        })?;
        Self::parse(&text).map_err(|why| {
            format!("--host {}: {why}; mend it, or measure anew with `cargo papers calibrate`", path.display())
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let host: Self = toml::from_str(text).map_err(|error| error.to_string().trim_end().replace('\n', "\n  "))?;
        for (name, value) in host.numbers() {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!("{name} = {value}: it is to be 0 or more"));
            }
        }
        for (name, value) in [("machine.cores", host.machine.cores), ("machine.socket_kib", host.machine.socket_kib)] {
            if value == 0 {
                return Err(format!("{name} = 0: it is to be 1 or more"));
            }
        }
        Ok(host)
    }

    /// As a file.
    ///
    /// # Errors
    /// What the library says.
    pub fn text(&self) -> Result<String, String> {
        Ok(format!("{HEAD}{}", toml::to_string(self).map_err(|error| error.to_string())?))
    }

    const fn numbers(&self) -> [(&'static str, f64); 16] {
        let Self { machine, daemon, client } = self;
        [
            ("machine.wake_us", machine.wake_us),
            ("machine.switch_us", machine.switch_us),
            ("machine.call_us", machine.call_us),
            ("machine.kick_us", machine.kick_us),
            ("machine.poll_us", machine.poll_us),
            ("daemon.cold_us", daemon.cold_us),
            ("daemon.message_in_us", daemon.message_in_us),
            ("daemon.message_out_us", daemon.message_out_us),
            ("daemon.packet_out_us", daemon.packet_out_us),
            ("daemon.packet_in_us", daemon.packet_in_us),
            ("daemon.message_in_byte_ns", daemon.message_in_byte_ns),
            ("daemon.message_out_byte_ns", daemon.message_out_byte_ns),
            ("daemon.packet_byte_ns", daemon.packet_byte_ns),
            ("client.write_us", client.write_us),
            ("client.read_us", client.read_us),
            ("client.byte_ns", client.byte_ns),
        ]
    }
}

/// So many things that take so long each, and so many bytes.
pub fn takes(us: f64, things: usize, byte_ns: f64, bytes: usize) -> Duration {
    Duration::from_nanos((us * 1e3 * things as f64 + byte_ns * bytes as f64) as u64)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// About a present processor.
    pub const HOST: HostFile = HostFile {
        machine: MachineCosts {
            cores: 2,
            wake_us: 40.0,
            switch_us: 5.0,
            call_us: 2.5,
            kick_us: 5.0,
            poll_us: 50.0,
            socket_kib: 2_048,
        },
        daemon: DaemonCosts {
            cold_us: 10.0,
            message_in_us: 0.3,
            message_out_us: 0.3,
            packet_out_us: 0.4,
            packet_in_us: 0.3,
            message_in_byte_ns: 0.2,
            message_out_byte_ns: 0.2,
            packet_byte_ns: 0.1,
        },
        client: ClientCosts { write_us: 0.1, read_us: 0.1, byte_ns: 0.1 },
    };

    #[test]
    fn what_is_written_is_read() {
        let text = HOST.text().unwrap();
        assert!(text.starts_with("# What work takes") && text.contains("[machine]\ncores = 2\n"), "{text}");
        assert_eq!(HostFile::parse(&text), Ok(HOST));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        let text = HOST.text().unwrap();
        let problem = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            HostFile::parse(&text.replace(from, to)).unwrap_err()
        };
        assert_eq!(
            problem("packet_in_us = 0.3", "packet_in_us = -1.0"),
            "daemon.packet_in_us = -1: it is to be 0 or more"
        );
        assert_eq!(problem("wake_us = 40.0", "wake_us = nan"), "machine.wake_us = NaN: it is to be 0 or more");
        assert_eq!(problem("cores = 2", "cores = 0"), "machine.cores = 0: it is to be 1 or more");
        for (from, to, named) in [
            ("call_us = 2.5\n", "", "missing field `call_us`"),
            ("call_us = 2.5\n", "call_us = 2.5\ncall_ns = 1\n", "unknown field `call_ns`"),
            ("cores = 2", "cores = \"two\"", "cores = \"two\""),
        ] {
            let error = problem(from, to);
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn an_error_names_the_file_and_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("host.toml");
        let error = |path: &Path| HostFile::read(path).unwrap_err();
        assert!(error(&path).contains("host.toml: No such file") && error(&path).contains("cargo papers calibrate"));
        std::fs::write(&path, HOST.text().unwrap().replace("packet_in_us = 0.3", "packet_in_us = -1.0")).unwrap();
        let told = error(&path);
        assert!(told.contains("host.toml: daemon.packet_in_us = -1") && told.contains("mend it"), "{told}");
    }

    #[test]
    fn things_and_bytes_add_up() {
        assert_eq!(takes(1.5, 2, 0.5, 1_000), Duration::from_nanos(3_500));
    }
}
