//! A disk that can be filled: a file system in memory, for the state of one daemon. To mount it takes root.
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use std::io;
use std::path::{Path, PathBuf};

/// How often filling is tried again where somebody wrote between two calls of the system, which take microseconds.
const TRIES: usize = 10_000;

/// A mounted disk; unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of so many bytes at this directory, which is made. A page is taken once it is written, and not before.
    ///
    /// # Errors
    /// The system's.
    pub fn mount(at: &Path, size: u64) -> io::Result<Self> {
        std::fs::create_dir_all(at)?;
        mount("tmpfs", at, "tmpfs", MountFlags::empty(), None)?;
        let disk = Self(at.to_owned());
        disk.resize(size)?;
        Ok(disk)
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
    /// The system's.
    pub fn fill(&self) -> io::Result<()> {
        for _ in 0..TRIES {
            let held = rustix::fs::statvfs(&self.0)?;
            match self.set((held.f_blocks - held.f_bfree) * held.f_frsize) {
                // It holds more by now.
                Err(Errno::INVAL) => {}
                done => return Ok(done?),
            }
        }
        Err(io::Error::other(format!("{} grows faster than it can be limited", self.0.display())))
    }

    /// It takes so many bytes from here on.
    ///
    /// # Errors
    /// The system's: it cannot be smaller than what it holds.
    pub fn resize(&self, size: u64) -> io::Result<()> {
        Ok(self.set(size)?)
    }

    fn set(&self, size: u64) -> rustix::io::Result<()> {
        // A size of nothing would be no limit at all.
        mount_remount(&self.0, MountFlags::empty(), format!("size={}", size.max(4_096)))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            eprintln!("{} stays mounted: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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

    #[test]
    fn it_is_filled_while_it_is_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::mount_for_test(&folder.path().join("disk"), 1 << 30) else { return };
        let path = disk.0.join("grows");
        let writer = std::thread::spawn(move || {
            let mut file = std::fs::File::create(path).unwrap();
            while file.write_all(&[1; 4_096]).is_ok() {}
        });
        while std::fs::metadata(disk.0.join("grows")).map_or(0, |file| file.len()) < 1 << 20 {}
        disk.fill().unwrap();
        writer.join().unwrap();
        assert_eq!(std::fs::write(disk.0.join("two"), [1; 4_096]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
