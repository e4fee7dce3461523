//! A sorted map whose copy is cheap: entries stand in leaves that copies share until one of them writes.
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// A leaf with more entries is cut in two.
const LEAF_MAX: usize = 256;

/// Entries by their keys.
type Leaf<K, V> = Arc<Vec<(K, V)>>;

/// A sorted map. Its copy costs a handle for each leaf; the first write to a shared leaf copies that leaf.
#[derive(Clone, Debug)]
pub struct Leaves<K, V> {
    /// By their first keys; none is empty.
    leaves: BTreeMap<K, Leaf<K, V>>,
    len: usize,
}

impl<K, V> Default for Leaves<K, V> {
    fn default() -> Self {
        Self { leaves: BTreeMap::new(), len: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> Leaves<K, V> {
    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// What stands under a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (_, leaf) = self.leaves.range((Bound::Unbounded, Bound::Included(key))).next_back()?;
        leaf.binary_search_by(|(held, _)| held.borrow().cmp(key))
            .ok()
            .and_then(|at| leaf.get(at))
            .map(|(_, value)| value)
    }

    /// Puts a value under a key; returns what stood there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some((first, leaf)) = self.leaf_of(&key) else {
            self.len += 1;
            self.leaves.insert(key.clone(), Arc::new(vec![(key, value)]));
            return None;
        };
        let leaf = Arc::make_mut(leaf);
        let at = match leaf.binary_search_by(|(held, _)| held.cmp(&key)) {
            Ok(at) => return leaf.get_mut(at).map(|(_, held)| std::mem::replace(held, value)),
            Err(at) => at,
        };
        leaf.insert(at, (key, value));
        let upper = (leaf.len() > LEAF_MAX).then(|| leaf.split_off(LEAF_MAX / 2));
        let moved = (at == 0).then(|| leaf.first().map(|(key, _)| key.clone())).flatten();
        self.len += 1;
        if let Some(moved) = moved
            && let Some(leaf) = self.leaves.remove(&first)
        {
            self.leaves.insert(moved, leaf);
        }
        if let Some(upper) = upper
            && let Some((key, _)) = upper.first()
        {
            self.leaves.insert(key.clone(), Arc::new(upper));
        }
        None
    }

    /// Takes away what stands under a key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (first, leaf) = self.leaf_of(key)?;
        let at = leaf.binary_search_by(|(held, _)| held.cmp(key)).ok()?;
        let leaf = Arc::make_mut(leaf);
        let (_, value) = leaf.remove(at);
        // What is taken away shall not stay allocated.
        if leaf.capacity() > 4 * (leaf.len() + 4) {
            leaf.shrink_to(2 * leaf.len());
        }
        let next = leaf.first().map(|(key, _)| key.clone());
        self.len -= 1;
        if at == 0
            && let Some(leaf) = self.leaves.remove(&first)
            && let Some(next) = next
        {
            self.leaves.insert(next, leaf);
        }
        Some(value)
    }

    /// The entries from a key on, in order.
    pub fn from<'a, Q: Ord + ?Sized>(&'a self, from: &'a Q) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: Borrow<Q>,
    {
        let before = self.leaves.range((Bound::Unbounded, Bound::Included(from))).next_back();
        let rest = self.leaves.range((Bound::Excluded(from), Bound::Unbounded));
        let entries = before.into_iter().chain(rest).flat_map(|(_, leaf)| leaf.iter());
        entries.skip_while(move |(key, _)| key.borrow() < from).map(|(key, value)| (key, value))
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.leaves.values().flat_map(|leaf| leaf.iter()).map(|(key, value)| (key, value))
    }

    /// The leaf in which a key stands or belongs, and what it is known by.
    fn leaf_of(&mut self, key: &K) -> Option<(K, &mut Leaf<K, V>)> {
        let before = self.leaves.range(..=key).next_back().map(|(first, _)| first.clone());
        let first = before.or_else(|| self.leaves.keys().next().cloned())?;
        let leaf = self.leaves.get_mut(&first)?;
        Some((first, leaf))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look like chance, alike in every run.
    fn numbers(count: u64) -> impl Iterator<Item = u64> {
        let mut held = 7_u64;
        (0..count).map(move |_| {
            held = held.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            held >> 33
        })
    }

    #[test]
    fn it_holds_what_a_plain_map_holds_and_copies_keep_what_they_had() {
        let (mut leaves, mut plain) = (Leaves::default(), BTreeMap::new());
        let mut copies = Vec::new();
        for (count, number) in numbers(30_000).enumerate() {
            let key = number % 4_000;
            if number & 4 == 0 {
                assert_eq!(leaves.remove(&key), plain.remove(&key));
            } else {
                assert_eq!(leaves.insert(key, number), plain.insert(key, number));
            }
            assert_eq!((leaves.len(), leaves.get(&key)), (plain.len(), plain.get(&key)));
            if count % 5_000 == 0 {
                copies.push((leaves.clone(), plain.clone()));
            }
        }
        copies.push((leaves.clone(), plain.clone()));
        for (leaves, plain) in &copies {
            assert!(leaves.iter().eq(plain.iter()));
            for from in [0, 1, 1_999, 3_999, 4_000] {
                assert!(leaves.from(&from).eq(plain.range(from..)), "from {from}");
            }
        }
        let keys: Vec<_> = plain.keys().copied().collect();
        assert!(keys.iter().all(|key| leaves.remove(key).is_some()));
        assert_eq!((leaves.len(), leaves.leaves.len(), leaves.iter().count()), (0, 0, 0));
    }
}
