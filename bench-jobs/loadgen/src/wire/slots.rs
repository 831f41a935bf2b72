//! Hash slots of Redis Cluster: which key belongs to which, and which shard
//! has which. No sockets.

use std::cell::Cell;
use std::rc::Rc;

use crc16::{State, XMODEM};

use crate::workload::decimal::Decimal;

/// Hash slots of every cluster.
pub const SLOTS: usize = 16_384;
/// Draws after which a connection gives up to find a key of its shard.
const MAXIMUM_DRAWS: u32 = 1_000_000;
/// Marks a slot that no shard has.
const UNASSIGNED: u16 = u16::MAX;

/// The slot of a key: CRC16 of its first non-empty `{hashtag}`, or of all of it.
pub fn slot_of(key: &[u8]) -> usize {
    usize::from(State::<XMODEM>::calculate(hashtag(key).unwrap_or(key))) % SLOTS
}

/// What of a key, or of what keys begin with, decides on the slot, where it is not all of it.
pub(crate) fn hashtag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let inside = key.get(open + 1..)?;
    let close = inside.iter().position(|&byte| byte == b'}')?;
    inside.get(..close).filter(|tag| !tag.is_empty())
}

/// The slot of a key of two parts; the second has no braces.
fn slot_of_parts(prefix: &[u8], digits: &[u8]) -> usize {
    let mut state = State::<XMODEM>::new();
    if let Some(tag) = hashtag(prefix) {
        state.update(tag);
    } else {
        state.update(prefix);
        state.update(digits);
    }
    usize::from(state.get()) % SLOTS
}

/// Which shard has each slot, by the shard's number. One per load thread; it
/// learns when slots move.
#[derive(Debug)]
pub(crate) struct SlotMap {
    shards: Vec<Cell<u16>>,
}

/// The ranges of slots of one shard, both ends included.
pub(crate) type SlotRanges = Vec<(u16, u16)>;

impl SlotMap {
    pub(crate) fn new<'a>(shards: impl Iterator<Item = &'a SlotRanges>) -> Self {
        let map = Self { shards: vec![Cell::new(UNASSIGNED); SLOTS] };
        for (shard, ranges) in shards.enumerate() {
            for &(first, last) in ranges {
                (first..=last).for_each(|slot| map.assign(slot.into(), shard));
            }
        }
        map
    }

    pub(crate) fn assign(&self, slot: usize, shard: usize) {
        if let Some(cell) = self.shards.get(slot) {
            cell.set(u16::try_from(shard).unwrap_or(UNASSIGNED));
        }
    }

    /// Slots that no shard has.
    pub(crate) fn unassigned(&self) -> usize {
        self.shards.iter().filter(|shard| shard.get() == UNASSIGNED).count()
    }

    /// The shard that has a slot.
    pub(crate) fn shard_of(&self, slot: usize) -> Option<usize> {
        self.shards.get(slot).map(Cell::get).filter(|shard| *shard != UNASSIGNED).map(usize::from)
    }

    fn has(&self, slot: usize, shard: usize) -> bool {
        self.shards.get(slot).is_some_and(|found| usize::from(found.get()) == shard)
    }
}

/// Tells a connection which keys are its own.
#[derive(Clone, Debug)]
pub(crate) struct SlotFilter {
    pub(crate) slots: Rc<SlotMap>,
    pub(crate) shard: usize,
}

impl SlotFilter {
    pub(crate) fn owns(&self, key: &[u8]) -> bool {
        self.owns_slot(slot_of(key))
    }

    #[inline]
    pub(crate) fn owns_slot(&self, slot: usize) -> bool {
        self.slots.has(slot, self.shard)
    }

    #[inline]
    pub(crate) fn owns_key(&self, prefix: &[u8], digits: &[u8]) -> bool {
        self.slots.has(slot_of_parts(prefix, digits), self.shard)
    }

    /// Whether a key of `prefix` and one of these numbers is owned.
    pub(crate) fn any_owned(&self, prefix: &str, numbers: impl Iterator<Item = u64>) -> bool {
        // With a hashtag in the prefix all keys have one slot.
        let enough = if hashtag(prefix.as_bytes()).is_some() { 1 } else { usize::MAX };
        numbers.take(enough).any(|number| self.owns_key(prefix.as_bytes(), Decimal::new(number).digits()))
    }

    /// How many keys of `prefix` and these numbers are owned.
    pub(crate) fn count_owned(&self, prefix: &str, numbers: impl Iterator<Item = u64>) -> u64 {
        let owned = |number: &u64| self.owns_key(prefix.as_bytes(), Decimal::new(*number).digits());
        numbers.filter(owned).count() as u64
    }
}

/// The first of what is drawn that is owned; none when very many draws are not.
#[inline]
pub(crate) fn first_owned<T>(mut draw: impl FnMut() -> T, owned: impl Fn(&T) -> bool) -> Option<T> {
    (0..MAXIMUM_DRAWS).map(|_| draw()).find(owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        // Answers of CLUSTER KEYSLOT.
        for (key, slot) in [
            ("foo", 12_182),
            ("123456789", 12_739),
            ("{user1000}.following", 3443),
            ("{user1000}.followers", 3443),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("", 0),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn a_filter_follows_the_map() {
        let slots = Rc::new(SlotMap::new([vec![(0, 8191)], vec![(8192, 16_382)]].iter()));
        let filter = SlotFilter { slots: Rc::clone(&slots), shard: 1 };
        assert_eq!(slots.unassigned(), 1);
        assert!(filter.owns(b"foo"));
        slots.assign(12_182, 0);
        assert!(!filter.owns(b"foo"));
        assert!(!filter.any_owned("{foo}", 0..1_000_000));
        assert!(filter.any_owned("key:", 0..1_000_000));
        assert_eq!(first_owned(|| 7, |_| false), None);
    }

    proptest! {
        #[test]
        fn parts_have_the_slot_of_the_whole_key(prefix in "[a-c{}:]{0,8}", number: u64) {
            let digits = number.to_string();
            // A tag that the prefix opens and nobody closes is none.
            let whole = format!("{prefix}{digits}");
            prop_assert_eq!(slot_of_parts(prefix.as_bytes(), digits.as_bytes()), slot_of(whole.as_bytes()));
        }
    }
}
