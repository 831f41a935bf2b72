//! The values that requests carry: their sizes and where their bytes come from.
//!
//! All values are cut from one block that every connection of every thread
//! shares; small ones are copied from it, large ones referred to.

use std::ops::Range;
use std::sync::Arc;

use rand::distr::{Distribution, Uniform};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use crate::wire::outgoing::{Outgoing, SHARED_VALUE_BYTES};
use crate::workload::decimal::Decimal;

/// Distinct positions from which a random value may be cut.
const RANDOM_POSITIONS: usize = 64 * 1024;

/// The bytes that values are cut from.
pub(crate) fn block(largest: usize, random: bool, seed: u64) -> Arc<[u8]> {
    if !random {
        return vec![b'x'; largest].into();
    }
    let mut bytes = vec![0; largest + RANDOM_POSITIONS];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes.into()
}

/// Sizes of values, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sizes {
    Fixed(usize),
    Drawn(Uniform<usize>),
}

/// Draws the values of one operation.
#[derive(Clone, Debug)]
pub(crate) struct ValueSource {
    block: Arc<[u8]>,
    sizes: Sizes,
    random: bool,
    /// The whole argument where it is always the same and small.
    ready: Option<Arc<[u8]>>,
}

impl ValueSource {
    pub(crate) fn new(block: Arc<[u8]>, sizes: Sizes, random: bool) -> Self {
        let mut source = Self { block, sizes, random, ready: None };
        if let Sizes::Fixed(size) = sizes
            && size < SHARED_VALUE_BYTES
            && !random
        {
            let mut argument = Outgoing::default();
            Self::write_header(&mut argument, size);
            argument.bytes.extend_from_slice(source.block.get(..size).unwrap_or_default());
            argument.bytes.extend_from_slice(b"\r\n");
            source.ready = Some(argument.bytes.into());
        }
        source
    }

    /// The whole argument, if it is always the same and small.
    pub(crate) fn unchanging(&self) -> Option<&[u8]> {
        self.ready.as_deref()
    }

    /// Where the next value lies in the block.
    pub(crate) fn draw(&self, random: &mut SmallRng) -> Range<usize> {
        let size = match &self.sizes {
            Sizes::Fixed(size) => *size,
            Sizes::Drawn(sizes) => sizes.sample(random),
        };
        let begin = if self.random { random.random_range(0..RANDOM_POSITIONS) } else { 0 };
        begin..begin + size
    }

    /// Writes a value as a whole argument.
    #[inline]
    pub(crate) fn write(&self, outgoing: &mut Outgoing, random: &mut SmallRng) {
        if let Some(ready) = &self.ready {
            outgoing.bytes.extend_from_slice(ready);
            return;
        }
        let range = self.draw(random);
        Self::write_header(outgoing, range.len());
        self.write_bytes(outgoing, range);
        outgoing.bytes.extend_from_slice(b"\r\n");
    }

    fn write_header(outgoing: &mut Outgoing, size: usize) {
        outgoing.bytes.push(b'$');
        outgoing.bytes.extend_from_slice(Decimal::new(size as u64).line());
    }

    /// Writes the bytes of a drawn value, without its length.
    pub(crate) fn write_bytes(&self, outgoing: &mut Outgoing, range: Range<usize>) {
        if range.len() >= SHARED_VALUE_BYTES {
            outgoing.splice(range);
        } else {
            outgoing.bytes.extend_from_slice(self.block.get(range).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_sizes_cover_their_range_and_random_data_varies() {
        let source =
            ValueSource::new(block(9, true, 1), Sizes::Drawn(Uniform::new_inclusive(0, 9).unwrap()), true);
        let mut random = SmallRng::seed_from_u64(1);
        let mut sizes = [0_u32; 10];
        let mut values = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let mut outgoing = Outgoing::default();
            source.write(&mut outgoing, &mut random);
            let size = outgoing.bytes.len() - "$0\r\n\r\n".len();
            assert!(outgoing.bytes.starts_with(format!("${size}\r\n").as_bytes()));
            sizes[size] += 1;
            values.insert(outgoing.bytes);
        }
        assert!(sizes.iter().all(|&count| count > 50), "{sizes:?}");
        assert!(values.len() > 700, "{} distinct values", values.len());
    }

    #[test]
    fn large_values_take_no_room_of_their_own() {
        let source = ValueSource::new(block(1 << 20, false, 1), Sizes::Fixed(1 << 20), false);
        let mut outgoing = Outgoing::default();
        source.write(&mut outgoing, &mut SmallRng::seed_from_u64(1));
        assert_eq!(outgoing.bytes, b"$1048576\r\n\r\n");
        assert_eq!(outgoing.length_since(Outgoing::default().mark()), (1 << 20) + 12);
    }
}
