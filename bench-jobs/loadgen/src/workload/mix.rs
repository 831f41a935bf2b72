//! The repeating order in which a connection sends the operations of a mix.
//!
//! Deterministic: requests and replies walk the same order separately, so no
//! queue of what is in flight is needed.

use std::sync::Arc;

/// Which operation of the mix.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OperationIndex(pub usize);

/// Some requests of one operation in a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stretch {
    operation: OperationIndex,
    length: u64,
}

/// One turn of the repeating order.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    stretches: Arc<[Stretch]>,
    length: u64,
}

impl Cycle {
    /// All requests of an operation in a row, then all of the next one.
    pub(crate) fn in_a_row(weights: &[u64]) -> Self {
        let stretches = weights
            .iter()
            .enumerate()
            .filter(|&(_, &weight)| weight > 0)
            .map(|(index, &length)| Stretch { operation: OperationIndex(index), length })
            .collect();
        Self::of(stretches)
    }

    /// Operations spread as evenly as their weights allow (smooth weighted
    /// round robin: the operation furthest behind its share comes next).
    pub(crate) fn spread(weights: &[u64]) -> Self {
        let divisor =
            weights.iter().fold(0, |divisor, &weight| greatest_common_divisor(divisor, weight)).max(1);
        let shares: Vec<i128> = weights.iter().map(|&weight| i128::from(weight / divisor)).collect();
        let total: i128 = shares.iter().sum();
        let mut credit = vec![0_i128; shares.len()];
        let mut stretches: Vec<Stretch> = Vec::new();
        for _ in 0..total {
            credit.iter_mut().zip(&shares).for_each(|(credit, share)| *credit += share);
            let furthest =
                credit.iter().enumerate().rev().max_by_key(|&(_, credit)| *credit).map(|(index, _)| index);
            let Some(index) = furthest else { break };
            if let Some(credit) = credit.get_mut(index) {
                *credit -= total;
            }
            match stretches.last_mut() {
                Some(last) if last.operation.0 == index => last.length += 1,
                _ => stretches.push(Stretch { operation: OperationIndex(index), length: 1 }),
            }
        }
        Self::of(stretches)
    }

    fn of(mut stretches: Vec<Stretch>) -> Self {
        let length = stretches.iter().map(|stretch| stretch.length).sum();
        // A single operation is one row without an end, so that it is walked in large steps.
        if let [only] = stretches.as_mut_slice() {
            only.length = u64::MAX;
        }
        Self { stretches: stretches.into(), length }
    }
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// A place in the repeating order.
#[derive(Clone, Debug)]
pub(crate) struct OperationWalk {
    cycle: Cycle,
    current: OperationIndex,
    stretch: usize,
    left: u64,
}

impl OperationWalk {
    /// Connections begin at different places, so that a load is mixed from its begin.
    pub(crate) fn new(cycle: Cycle, connection: u64) -> Self {
        let mut skip = connection % cycle.length.max(1);
        let mut stretch = 0;
        while let Some(found) = cycle.stretches.get(stretch).filter(|found| found.length <= skip) {
            skip -= found.length;
            stretch += 1;
        }
        let begin = cycle.stretches.get(stretch).copied();
        let (current, left) =
            begin.map_or((OperationIndex(0), u64::MAX), |found| (found.operation, found.length - skip));
        Self { cycle, current, stretch, left }
    }

    #[inline]
    pub(crate) fn current(&self) -> OperationIndex {
        self.current
    }

    /// Goes on to the next place.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.advance_within_row(1);
    }

    /// Goes on by as many places of the current operation as come in a row, by
    /// `limit` at most, and returns how many.
    #[inline]
    pub(crate) fn advance_within_row(&mut self, limit: u64) -> u64 {
        let places = self.left.min(limit);
        self.left -= places;
        if self.left == 0 {
            self.next_stretch();
        }
        places
    }

    fn next_stretch(&mut self) {
        self.stretch = if self.stretch + 1 < self.cycle.stretches.len() { self.stretch + 1 } else { 0 };
        if let Some(found) = self.cycle.stretches.get(self.stretch) {
            (self.current, self.left) = (found.operation, found.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walked(cycle: Cycle, connection: u64, count: usize) -> Vec<usize> {
        let mut walk = OperationWalk::new(cycle, connection);
        (0..count)
            .map(|_| {
                let operation = walk.current().0;
                walk.advance();
                operation
            })
            .collect()
    }

    #[test]
    fn a_ratio_is_sent_in_rows_from_the_connections_own_place() {
        let cycle = Cycle::in_a_row(&[2, 0, 3]);
        assert_eq!(walked(cycle.clone(), 0, 7), [0, 0, 2, 2, 2, 0, 0]);
        assert_eq!(walked(cycle.clone(), 3, 4), [2, 2, 0, 0]);
        assert_eq!(walked(cycle, 5, 3), [0, 0, 2]);
        assert_eq!(walked(Cycle::in_a_row(&[7]), 3, 3), [0, 0, 0]);
    }

    #[test]
    fn weights_are_spread_evenly() {
        assert_eq!(walked(Cycle::spread(&[1, 1]), 0, 4), [0, 1, 0, 1]);
        assert_eq!(walked(Cycle::spread(&[30, 10]), 0, 8), [0, 0, 1, 0, 0, 0, 1, 0]);
        assert_eq!(walked(Cycle::spread(&[5]), 9, 2), [0, 0]);
    }

    proptest! {
        #[test]
        fn rows_are_walked_like_single_places(
            weights in proptest::collection::vec(0u64..5, 2..5),
            limits in proptest::collection::vec(1u64..7, 1..30),
        ) {
            prop_assume!(weights.iter().any(|&weight| weight > 0));
            for cycle in [Cycle::in_a_row(&weights), Cycle::spread(&weights)] {
                let mut walk = OperationWalk::new(cycle.clone(), 1);
                let mut rows = Vec::new();
                for &limit in &limits {
                    let operation = walk.current().0;
                    let places = walk.advance_within_row(limit);
                    prop_assert!((1..=limit).contains(&places), "{places} places of {limit}");
                    rows.extend((0..places).map(|_| operation));
                }
                prop_assert_eq!(&rows, &walked(cycle, 1, rows.len()));
            }
        }

        #[test]
        fn every_cycle_keeps_the_weights_exactly_and_never_strays(
            weights in proptest::collection::vec(1u64..20, 1..6), connection in 0u64..500
        ) {
            let total: u64 = weights.iter().sum();
            let divisor = weights.iter().fold(0, |divisor, &weight| greatest_common_divisor(divisor, weight));
            let length = total / divisor;
            let cycle = Cycle::spread(&weights);
            prop_assert_eq!(cycle.length, length);
            let order = walked(cycle, connection, usize::try_from(length).unwrap());
            for (index, weight) in weights.iter().enumerate() {
                let count = order.iter().filter(|&&operation| operation == index).count() as u64;
                prop_assert_eq!(count * total, weight * length);
            }
        }
    }
}
