//! A disk that can be filled: a file system in memory, for the state of one daemon. To mount it takes root.
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How often filling is tried again where somebody wrote meanwhile.
const TRIES: usize = 20;

/// A mounted disk; unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of so many bytes at this directory, which is made. A page is taken once it is written, and not before.
    ///
    /// # Errors
    /// The system's; what `mount` said.
    pub fn mount(at: &Path, size: u64) -> io::Result<Self> {
        std::fs::create_dir_all(at)?;
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(at))?;
        Ok(Self(at.to_owned()))
    }

    /// The same for a test; none where this user may not mount one, with the reason printed.
    ///
    /// # Panics
    /// There, if `CONSORT_REQUIRE_NETNS` is 1.
    pub fn mount_for_test(at: &Path, size: u64) -> Option<Self> {
        let mounted = Self::mount(at, size);
        if let Err(reason) = &mounted {
            assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{reason}");
            eprintln!("SKIPPED: cannot mount a small disk: {reason}");
        }
        mounted.ok()
    }

    /// From here on nothing more can be written: it is as large as what it holds.
    ///
    /// # Errors
    /// The system's; what `mount` said.
    pub fn fill(&self) -> io::Result<()> {
        let mut tried = Ok(());
        for _ in 0..TRIES {
            let held = rustix::fs::statvfs(&self.0)?;
            tried = self.resize((held.f_blocks - held.f_bfree) * held.f_frsize);
            if tried.is_ok() {
                break;
            }
        }
        tried
    }

    /// It takes so many bytes from here on.
    ///
    /// # Errors
    /// The system's; what `mount` said: it cannot be smaller than what it holds.
    pub fn resize(&self, size: u64) -> io::Result<()> {
        // A size of nothing would be no limit at all.
        let size = size.max(4_096);
        run(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg("-l").arg(&self.0)) {
            eprintln!("{} stays mounted: {error}", self.0.display());
        }
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let ran = command.output()?;
    if ran.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&ran.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_takes_nothing_more_until_it_is_larger() {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::mount_for_test(&folder.path().join("disk"), 1 << 30) else { return };
        let write = |name: &str| std::fs::write(disk.0.join(name), vec![1; 64 << 10]);
        write("one").unwrap();
        disk.fill().unwrap();
        assert_eq!(write("two").unwrap_err().kind(), io::ErrorKind::StorageFull);
        disk.resize(1 << 30).unwrap();
        write("two").unwrap();
    }
}
