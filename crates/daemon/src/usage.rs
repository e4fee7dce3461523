//! What a process costs, as the kernel counts it.
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The CPU time a process has used, all its threads together: to the nanosecond as long as none has ended, then to 10 ms.
/// `None` where the kernel does not tell.
pub fn cpu(pid: u32) -> Option<Duration> {
    by_thread(pid).max(by_ticks(pid))
}

/// The memory a process has resident, in bytes.
pub fn resident(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// A line about its memory in a process's status, in bytes.
pub fn memory(pid: u32, key: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// In nanoseconds, from each thread's scheduler record. Threads that have ended are not counted.
fn by_thread(pid: u32) -> Option<Duration> {
    fs::read_dir(format!("/proc/{pid}/task")).ok()?.map(|task| recorded(&task.ok()?.path())).sum()
}

/// The CPU time of one thread.
pub fn of_thread(task: &Path) -> Option<Duration> {
    recorded(task).or_else(|| ticks(task))
}

fn recorded(task: &Path) -> Option<Duration> {
    let record = fs::read_to_string(task.join("schedstat")).ok()?;
    record.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// In ticks of 10 ms, with the threads that have ended, and for kernels without scheduler records.
fn by_ticks(pid: u32) -> Option<Duration> {
    ticks(Path::new(&format!("/proc/{pid}")))
}

fn ticks(process: &Path) -> Option<Duration> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_time() {
        let before = cpu(std::process::id()).unwrap();
        let sum = (0..30_000_000u64).fold(1u64, |sum, n| sum.wrapping_mul(31).wrapping_add(std::hint::black_box(n)));
        std::hint::black_box(sum);
        assert!(cpu(std::process::id()).unwrap() >= before);
        assert!(by_ticks(std::process::id()).is_some());
        let now = resident(std::process::id()).unwrap();
        assert!(now > 100_000);
    }

    #[test]
    fn threads_that_have_ended_count() {
        let me = std::process::id();
        let enough = cpu(me).unwrap() + Duration::from_millis(100);
        let burn = move || loop {
            if let Some(used) = cpu(me).filter(|used| *used >= enough) {
                return used;
            }
        };
        let used = std::thread::spawn(burn).join().unwrap();
        assert!(cpu(me).unwrap() + Duration::from_millis(30) >= used);
    }

    #[test]
    fn a_process_that_is_gone_costs_nothing_known() {
        assert_eq!((cpu(u32::MAX), resident(u32::MAX)), (None, None));
    }
}
