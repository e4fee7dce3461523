//! Power cuts: the state of machines is on disks whose contents at the moment of a cut are what comes back. What a process wrote
//! and did not sync is lost then, which kill -9 alone never shows.
use super::machines::{COUNT, Id, Kept, Machines, SERVERS, all};
use super::store::Store;
use super::{SOME, long_or};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a disk has. The files behind disks have holes where nothing was written.
const ROOM: u64 = 256 << 20;
/// The call that writes a file's new data to the disk, made to do nothing; and all such calls.
const NO_FDATASYNC: &str = "int fdatasync(int f) { return 0; }\n";
const NO_SYNC: &str = "int fdatasync(int f) { return 0; }\nint fsync(int f) { return 0; }\n\
                       int sync_file_range(int f, long o, long n, unsigned w) { return 0; }\n\
                       void sync(void) {}\nint syncfs(int f) { return 0; }\n";

/// How often a cut is tried until it shows that syncs are missing.
const TRIES: u32 = 5;

/// A disk on a loop device. It goes past the page cache to the file behind it, so that this file has only what was synced or
/// written back.
struct CutDisk {
    image: PathBuf,
    device: String,
    at: PathBuf,
    cuts: usize,
}

impl CutDisk {
    /// Makes one and mounts it here.
    fn mount(image: &Path, at: &Path) -> io::Result<Self> {
        fs::create_dir_all(at)?;
        File::create(image)?.set_len(ROOM)?;
        let device = attach(image)?;
        let disk = Self { image: image.to_owned(), device, at: at.to_owned(), cuts: 0 };
        run(Command::new("mkfs.ext4").arg("-q").arg(&disk.device))?;
        run(Command::new("mount").arg(&disk.device).arg(at))?;
        Ok(disk)
    }

    /// The same; none where this user may not mount one, with the reason printed.
    fn mount_for_test(image: &Path, at: &Path) -> Option<Self> {
        let mounted = Self::mount(image, at);
        if let Err(reason) = &mounted {
            assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{reason}");
            eprintln!("SKIPPED: cannot mount a loop device: {reason}");
        }
        mounted.ok()
    }

    /// Copies what the disk has at this moment, while it is still mounted.
    fn copy(&mut self) -> io::Result<PathBuf> {
        self.cuts += 1;
        let copy = self.image.with_extension(self.cuts.to_string());
        run(Command::new("cp").arg("--sparse=always").arg(&self.image).arg(&copy))?;
        Ok(copy)
    }

    /// Has that copy mounted instead.
    fn come_back(&mut self, copy: &Path) -> io::Result<()> {
        self.detach();
        fs::remove_file(&self.image)?;
        fs::rename(copy, &self.image)?;
        self.device = attach(&self.image)?;
        run(Command::new("mount").arg(&self.device).arg(&self.at)).map(drop)
    }

    fn detach(&self) {
        let unmounted = run(Command::new("umount").arg("-l").arg(&self.at));
        let detached = run(Command::new("losetup").arg("-d").arg(&self.device));
        if let Err(error) = unmounted.and(detached) {
            eprintln!("{} stays in use: {error}", self.device);
        }
    }
}

impl Drop for CutDisk {
    fn drop(&mut self) {
        self.detach();
    }
}

fn attach(image: &Path) -> io::Result<String> {
    run(Command::new("losetup").args(["--direct-io=on", "--find", "--show"]).arg(image))
}

fn run(command: &mut Command) -> io::Result<String> {
    let ran = command.output()?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).trim().to_owned());
    }
    Err(io::Error::other(String::from_utf8_lossy(&ran.stderr).trim().to_owned()))
}

/// An assignment that replaces these calls in a program; none where there is no compiler.
pub fn replaced(machines: &Machines, calls: &str) -> Option<String> {
    let (source, library) = (machines.path("replaced.c"), machines.path("replaced.so"));
    fs::write(&source, calls).unwrap();
    let mut compiler = Command::new("cc");
    let built = run(compiler.args(["-shared", "-fPIC", "-fno-builtin", "-o"]).arg(&library).arg(&source));
    if let Err(reason) = &built {
        eprintln!("SKIPPED: no C compiler: {reason}");
    }
    built.ok().map(|_| format!("LD_PRELOAD={}", library.display()))
}

/// What a cut ends, and what is stopped before.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// All machines at once.
    Everywhere,
    /// All machines, just after all servers were stopped by SIGTERM.
    BehindStop,
    /// One machine alone.
    At(usize),
}

impl Cut {
    fn machines(self) -> Vec<usize> {
        if let Self::At(machine) = self { vec![machine] } else { (0..COUNT).collect() }
    }
}

/// A store on disks that can be cut.
struct Cuttable {
    // Dropped in this order: a directory on which a disk is mounted cannot be removed.
    disks: Vec<CutDisk>,
    store: Store,
}

impl Cuttable {
    /// One whose daemons and servers have these calls replaced; none where this machine cannot have one, with the reason
    /// printed.
    fn start(kept: Kept, calls: Option<&str>) -> Option<Self> {
        let mut machines = Machines::new(kept);
        let disk =
            |machine| CutDisk::mount_for_test(&machines.path(&format!("disk-{machine}")), &machines.disk(machine));
        let disks = (0..COUNT).map(disk).collect::<Option<Vec<_>>>()?;
        if let Some(calls) = calls {
            machines.run_by(&["env", &replaced(&machines, calls)?]);
        }
        Some(Self { disks, store: Store::start_on(machines) })
    }

    /// Cuts the power of machines under load and gives it back.
    ///
    /// # Errors
    /// What is lost, or who does not start.
    fn cut(&mut self, cut: Cut) -> Result<(), String> {
        let (disks, machines) = (&mut self.disks, cut.machines());
        let mut copies = Vec::new();
        self.store.under_load(SOME, |store, _| {
            if matches!(cut, Cut::BehindStop) {
                store.machines.stop(&SERVERS);
            }
            let ids: Vec<Id> = all().into_iter().filter(|(_, machine)| machines.contains(machine)).collect();
            store.machines.kill(&ids);
            copies = machines.iter().map(|machine| disks[*machine].copy().unwrap()).collect();
        });
        for (machine, copy) in machines.into_iter().zip(copies) {
            disks[machine].come_back(&copy).unwrap();
        }
        self.store.machines.start_all()?;
        self.store.check()
    }
}

#[test]
fn a_cut_disk_has_what_was_synced_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("mounted");
    let Some(mut disk) = CutDisk::mount_for_test(&directory.path().join("disk"), &at) else { return };
    let write = |name: &str| {
        let mut file = File::create(at.join(name)).unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        file
    };
    write("synced").sync_all().unwrap();
    drop(write("unsynced"));
    let copy = disk.copy().unwrap();
    disk.come_back(&copy).unwrap();
    let length = |name: &str| fs::metadata(at.join(name)).map_or(0, |found| found.len());
    assert_eq!((length("synced"), length("unsynced")), (100_000, 0));
}

pub fn power_cuts_lose_no_answered_write(kept: Kept) {
    let Some(mut cuttable) = Cuttable::start(kept, None) else { return };
    let kinds = [Cut::BehindStop, Cut::Everywhere, Cut::At(0), Cut::Everywhere, Cut::At(1), Cut::At(2)];
    for (number, cut) in kinds.into_iter().cycle().take(long_or(200, 3)).enumerate() {
        cuttable.cut(cut).unwrap_or_else(|wrong| panic!("cut {number}, {cut:?}: {wrong}"));
    }
    println!("{} answered writes are there", cuttable.store.ledger.answered);
}

pub fn power_cuts_without_syncs_are_noticed(kept: Kept) {
    for (cut, calls) in [(Cut::BehindStop, NO_SYNC), (Cut::Everywhere, NO_FDATASYNC)] {
        let Some(mut cuttable) = Cuttable::start(kept, Some(calls)) else { return };
        // On a busy host the kernel may have written everything back before the cut.
        let noticed = (0..TRIES).find_map(|_| cuttable.cut(cut).err());
        let noticed = noticed.expect("a store that syncs nothing lost nothing");
        println!("{cut:?} without syncs is noticed: {noticed}");
    }
}
