//! What processes of a measurement cost, besides what [`consort_daemon::usage`] tells.
use consort_daemon::usage::{memory, of_thread};
use std::fs;
use std::time::Duration;

/// The CPU time of a process's threads, apart: first of those whose names begin otherwise, then of those whose names begin
/// so. Threads that have ended are not counted; to the nanosecond, or 10 ms where the kernel has no scheduler records.
pub fn cpu_apart(pid: u32, name: &str) -> Option<[Duration; 2]> {
    let mut apart = [Duration::ZERO; 2];
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let task = task.ok()?.path();
        let told = fs::read_to_string(task.join("comm")).ok().zip(of_thread(&task));
        match told {
            Some((comm, cpu)) => apart[usize::from(comm.starts_with(name))] += cpu,
            None if task.exists() => return None,
            None => {} // it has just ended
        }
    }
    Some(apart)
}

/// The most memory a process ever had resident, in bytes.
pub fn peak(pid: u32) -> Option<u64> {
    memory(pid, "VmHWM:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_name_and_those_that_they_start_count_with_them() {
        let me = std::process::id();
        let named = move || cpu_apart(me, "apart-").unwrap()[1];
        let before = named();
        let burn = move || {
            let end = std::time::Instant::now() + Duration::from_millis(50);
            while std::time::Instant::now() < end || named() < Duration::from_millis(10) {}
            named()
        };
        let start = move || std::thread::spawn(burn).join().unwrap();
        let after = std::thread::Builder::new().name("apart-1".into()).spawn(start).unwrap().join().unwrap();
        assert!(before.is_zero() && after >= Duration::from_millis(10), "{before:?} {after:?}");
        assert!(cpu_apart(me, "apart-").unwrap()[0] > Duration::ZERO);
    }

    #[test]
    fn memory_has_a_peak_and_what_is_gone_costs_nothing_known() {
        assert!(peak(std::process::id()).unwrap() > 100_000);
        assert_eq!((peak(u32::MAX), cpu_apart(u32::MAX, "")), (None, None));
    }
}
