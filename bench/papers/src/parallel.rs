//! Independent runs on all processors.
use std::sync::Mutex;

/// What `run` makes of each item, in their order.
///
/// # Errors
/// The first error, in the order of the items.
pub fn map<T: Send + Sync, R: Send>(
    items: &[T],
    run: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = Mutex::new(0..items.len());
    let done: Mutex<Vec<(usize, Result<R, String>)>> = Mutex::new(Vec::new());
    let take = || next.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    let work = || {
        while let Some(index) = take() {
            let result = run(&items[index]);
            done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((index, result));
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads.min(items.len())).for_each(|_| {
            scope.spawn(work);
        });
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_the_items_and_the_first_error_counts() {
        let items: Vec<u64> = (0..50).collect();
        assert_eq!(map(&items, |item| Ok(item * 2)), Ok(items.iter().map(|item| item * 2).collect()));
        let failing = |item: &u64| if *item % 20 == 7 { Err(format!("{item} fails")) } else { Ok(()) };
        assert_eq!(map(&items, failing), Err("7 fails".into()));
        assert_eq!(map(&[] as &[u64], |item| Ok(*item)), Ok(vec![]));
    }
}
