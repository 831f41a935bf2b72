//! Hash slots of a cluster. Pure.

use dragstrip_results::ranges;
use std::collections::BTreeSet;

pub const SLOTS: u16 = 16_384;

pub type Slots = BTreeSet<u16>;

/// The slots of the last fields of a line of CLUSTER NODES: `0-5 7`. A slot
/// that is being moved (`[7->-id]`) is served where it was until it has moved.
pub fn parse<'a>(fields: impl Iterator<Item = &'a str>) -> Option<Slots> {
    let ranges: Option<Vec<_>> = fields.filter(|field| !field.starts_with('[')).map(ranges::range).collect();
    Some(ranges?.into_iter().flatten().collect())
}

/// The first and the last slot of each range of `slots`.
pub fn bounds(slots: &Slots) -> Vec<(u16, u16)> {
    let mut bounds: Vec<(u16, u16)> = Vec::new();
    for &slot in slots {
        match bounds.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => bounds.push((slot, slot)),
        }
    }
    bounds
}

/// `0-5,7`.
pub fn text(slots: &Slots) -> String {
    ranges::text(&bounds(slots))
}

/// All slots in `shards` parts as even as they can be, as `redis-cli --cluster
/// create` divides them: part i ends before slot (i + 1) * 16384 / shards, rounded.
pub fn even(shards: usize) -> Vec<Slots> {
    let slots = usize::from(SLOTS);
    let bound = |index: usize| u16::try_from((index * slots + shards / 2) / shards).unwrap_or(SLOTS);
    (0..shards).map(|index| (bound(index)..bound(index + 1)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &str) -> String {
        text(&parse(fields.split_whitespace()).unwrap())
    }

    #[test]
    fn slots_are_divided_as_redis_cli_does() {
        let texts = |shards| even(shards).iter().map(text).collect::<Vec<_>>();
        assert_eq!(texts(3), ["0-5460", "5461-10922", "10923-16383"]);
        assert_eq!(texts(8)[..2], ["0-2047", "2048-4095"]);
        assert_eq!(texts(8)[7], "14336-16383");
    }

    #[test]
    fn every_slot_belongs_to_exactly_one_part() {
        for shards in 1..=64 {
            let parts = even(shards);
            assert_eq!(text(&parts.iter().flatten().copied().collect()), "0-16383", "{shards} shards");
            assert_eq!(parts.iter().map(Slots::len).sum::<usize>(), 16_384, "{shards} shards");
        }
    }

    #[test]
    fn slots_are_read_and_put_in_order() {
        assert_eq!(read("7 9-12 0-5 6"), "0-7,9-12");
        assert_eq!(read("1 [2->-abcdef]"), "1");
        assert_eq!(read(""), "");
        assert_eq!(parse(["a-b"].into_iter()), None);
    }
}
