//! Lists of integer ranges as the kernel and Redis Cluster write them: `0-3,8`. Pure.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

/// Numbers that a list may hold: more than a machine has CPUs or a cluster has slots.
const MOST_NUMBERS: u64 = 65_536;

/// One range, `0-3` or `8`; `None` if it is not one, or runs backwards.
pub fn range<T: FromStr + PartialOrd>(text: &str) -> Option<RangeInclusive<T>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (T, T) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some(first..=last)
}

/// The ranges of a list with commas; `None` if it is not one, or huge.
pub fn ranges(list: &str) -> Option<Vec<RangeInclusive<u32>>> {
    let ranges: Vec<RangeInclusive<u32>> = list.trim().split(',').map(range).collect::<Option<_>>()?;
    (count(&ranges) <= MOST_NUMBERS).then_some(ranges)
}

/// `ranges`, each from its first to its last number, as a list with commas.
pub fn text<T: Display + PartialEq>(ranges: &[(T, T)]) -> String {
    let range =
        |(first, last): &(T, T)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// How many numbers `ranges` hold.
pub fn count(ranges: &[RangeInclusive<u32>]) -> u64 {
    ranges.iter().map(|range| u64::from(range.end() - range.start()) + 1).sum()
}

/// The numbers of a list; `None` if it is not one.
pub fn numbers(list: &str) -> Option<impl Iterator<Item = u32>> {
    Some(ranges(list)?.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("0-3,8\n").unwrap().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(ranges("0-3,8").map(|ranges| count(&ranges)), Some(5));
        for list in ["", "x", "3-1", "0-", "1,,2", "0-4294967295", "-1"] {
            assert_eq!(ranges(list), None, "{list:?}");
        }
        assert_eq!(range::<u16>("0-16383"), Some(0..=16_383));
        assert_eq!(text(&[(0, 3), (8, 8)]), "0-3,8");
    }
}
