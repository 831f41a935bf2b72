//! Hash slots of Redis Cluster, by key and by shard. No sockets.

use std::cell::Cell;

use crc16::{State, XMODEM};

pub const SLOTS: usize = 16_384;
/// Marks a slot that no shard has.
const UNASSIGNED: u16 = u16::MAX;

/// The slot of a key: CRC16 of its first non-empty `{hashtag}`, or of all of it.
pub fn slot_of(key: &[u8]) -> usize {
    usize::from(State::<XMODEM>::calculate(hashtag(key).unwrap_or(key))) % SLOTS
}

/// The part of a key that decides on the slot, where it is not all of it.
fn hashtag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let inside = key.get(open + 1..)?;
    let close = inside.iter().position(|&byte| byte == b'}')?;
    inside.get(..close).filter(|tag| !tag.is_empty())
}

/// The number of each slot's shard. One per load thread, which updates it when slots move.
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

    pub(crate) fn unassigned(&self) -> usize {
        self.shards.iter().filter(|shard| shard.get() == UNASSIGNED).count()
    }

    pub(crate) fn shard_of(&self, slot: usize) -> Option<usize> {
        self.shards.get(slot).map(Cell::get).filter(|shard| *shard != UNASSIGNED).map(usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_map_knows_where_slots_have_gone() {
        let slots = SlotMap::new([vec![(0, 8191)], vec![(8192, 16_382)]].iter());
        assert_eq!((slots.unassigned(), slots.shard_of(16_383)), (1, None));
        assert_eq!(slots.shard_of(slot_of(b"foo")), Some(1));
        slots.assign(12_182, 0);
        assert_eq!(slots.shard_of(slot_of(b"foo")), Some(0));
    }
}
