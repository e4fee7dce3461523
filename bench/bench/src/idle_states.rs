//! Processors that do not fall asleep: waking one up costs tens of microseconds on a virtual machine, more than an order.
use crate::failure::{Failure, Outcome};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// What the kernel offers for it: the longest wake-up that is tolerated, for as long as the file is open.
const REQUEST: &str = "/dev/cpu_dma_latency";

/// Keeps all processors from sleeping until this is dropped.
#[derive(Debug)]
pub struct Awake {
    _open: File,
}

impl Awake {
    /// Asks the kernel.
    pub fn keep() -> Outcome<Self> {
        Self::by(Path::new(REQUEST))
    }

    fn by(path: &Path) -> Outcome<Self> {
        let opened = File::options().write(true).open(path);
        let asked = opened.and_then(|mut file| file.write_all(&0u32.to_ne_bytes()).map(|()| file));
        asked.map(|file| Self { _open: file }).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => "run this as root, or leave the option out",
                _ => "this system cannot be asked to keep its processors awake; leave the option out",
            };
            Failure::new(format!("--no-idle-states: cannot write {}: {error}; {remedy}", path.display()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_asked_for_and_the_lack_of_the_device_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("device");
        let problem = Awake::by(&path).unwrap_err().message;
        assert!(problem.starts_with("--no-idle-states: cannot write /"), "{problem}");
        assert!(problem.ends_with("leave the option out"), "{problem}");
        std::fs::write(&path, "").unwrap();
        let _awake = Awake::by(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [0; 4]);
    }
}
