//! Hash slots of a cluster, as ranges. Pure.

use dragstrip_results::ranges::range;
use std::fmt;

pub const SLOTS: u16 = 16_384;

/// A set of slots, as sorted inclusive ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotRanges(Vec<(u16, u16)>);

impl SlotRanges {
    /// The set of all slots in `ranges`.
    pub fn new(mut ranges: Vec<(u16, u16)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::new();
        for (first, last) in ranges.into_iter().filter(|(first, last)| first <= last) {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// The slots of the last fields of a line of CLUSTER NODES: `0-5 7`. A slot
    /// that is being moved (`[7->-id]`) is served where it was until it has moved.
    pub fn parse<'a>(fields: impl Iterator<Item = &'a str>) -> Option<Self> {
        fields
            .filter(|field| !field.starts_with('['))
            .map(|field| {
                let (first, last) = range(field)?.into_inner();
                Some((first, last))
            })
            .collect::<Option<Vec<_>>>()
            .map(Self::new)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn ranges(&self) -> &[(u16, u16)] {
        &self.0
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for &(first, last) in &self.0 {
            let mut next = first;
            let mut covered = false;
            for &(from, to) in other.0.iter().filter(|(from, to)| *to >= first && *from <= last) {
                if from > next {
                    left.push((next, from - 1));
                }
                next = to.saturating_add(1);
                covered = next > last;
            }
            if !covered {
                left.push((next, last));
            }
        }
        Self::new(left)
    }
}

impl fmt::Display for SlotRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self
            .0
            .iter()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        f.write_str(&texts.join(","))
    }
}

/// All slots in `shards` parts as even as they can be, as `redis-cli --cluster
/// create` divides them: part i ends before slot (i + 1) * 16384 / shards, rounded.
pub fn even(shards: usize) -> Vec<SlotRanges> {
    let slots = usize::from(SLOTS);
    let bound = |index: usize| u16::try_from((index * slots + shards / 2) / shards).unwrap_or(SLOTS);
    (0..shards)
        .map(|index| SlotRanges::new(vec![(bound(index), bound(index + 1).saturating_sub(1))]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str) -> SlotRanges {
        SlotRanges::parse(text.split_whitespace()).unwrap()
    }

    #[test]
    fn slots_are_divided_as_redis_cli_does() {
        let texts = |shards| even(shards).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(3), ["0-5460", "5461-10922", "10923-16383"]);
        assert_eq!(texts(8)[..2], ["0-2047", "2048-4095"]);
        assert_eq!(texts(8)[7], "14336-16383");
    }

    #[test]
    fn every_slot_belongs_to_exactly_one_part() {
        for shards in 1..=64 {
            let all = even(shards).iter().flat_map(|part| part.ranges().to_vec()).collect();
            assert_eq!(SlotRanges::new(all).to_string(), "0-16383", "{shards} shards");
            let count: u32 =
                even(shards).iter().flat_map(SlotRanges::ranges).map(|(a, b)| u32::from(b - a) + 1).sum();
            assert_eq!(count, 16_384, "{shards} shards");
        }
    }

    #[test]
    fn what_is_written_is_read_and_put_in_order() {
        assert_eq!(ranges("7 9-12 0-5 6").to_string(), "0-7,9-12");
        assert_eq!(ranges("1 [2->-abcdef]").to_string(), "1");
        assert_eq!(ranges("").to_string(), "");
        assert_eq!(SlotRanges::parse(["a-b"].into_iter()), None);
    }

    #[test]
    fn a_difference_holds_what_only_the_first_has() {
        for (first, second, difference) in [
            ("0-10", "", "0-10"),
            ("0-10", "0-10", ""),
            ("0-10", "3-4", "0-2,5-10"),
            ("0-10", "0-3 8-20", "4-7"),
            ("0-2 8-10", "2-8", "0-1,9-10"),
            ("16383", "0-16383", ""),
            ("5", "6-9", "5"),
        ] {
            assert_eq!(ranges(first).without(&ranges(second)).to_string(), difference, "{first} - {second}");
        }
    }
}
