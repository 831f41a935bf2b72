//! Decimal text of numbers, without allocation.

/// Decimal digits of the largest number.
pub(crate) const MAXIMUM_DIGITS: usize = 20;
/// Length of the longest line of digits with its end.
const LINE_BYTES: usize = MAXIMUM_DIGITS + 2;

/// The numbers below 100 with two digits each.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0_u8;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// How many digits `number` has.
#[inline]
pub(crate) fn digits_of(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

/// Writes the last digits of `number`, as many as fit into `place`.
#[inline]
pub(crate) fn write_digits(place: &mut [u8], mut number: u64) {
    let mut pairs = place.rchunks_exact_mut(2);
    for pair in pairs.by_ref() {
        // Two at a time: half as many long divisions.
        let two = PAIRS.get((number % 100) as usize);
        number /= 100;
        pair.copy_from_slice(two.unwrap_or(&[0; 2]));
    }
    if let [first] = pairs.into_remainder() {
        *first = b'0' + u8::try_from(number % 10).unwrap_or_default();
    }
}

/// A number as text, ready to be the end of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal {
    text: [u8; LINE_BYTES],
    start: usize,
}

impl Decimal {
    #[inline]
    pub(crate) fn new(number: u64) -> Self {
        let mut text = [b'0'; LINE_BYTES];
        text[MAXIMUM_DIGITS] = b'\r';
        text[MAXIMUM_DIGITS + 1] = b'\n';
        let start = MAXIMUM_DIGITS - digits_of(number);
        write_digits(text.get_mut(start..MAXIMUM_DIGITS).unwrap_or_default(), number);
        Self { text, start }
    }

    /// How many digits the number has.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        MAXIMUM_DIGITS - self.start
    }

    /// The digits.
    #[inline]
    pub(crate) fn digits(&self) -> &[u8] {
        self.text.get(self.start..MAXIMUM_DIGITS).unwrap_or_default()
    }

    /// The digits and a line end.
    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        self.text.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_match_the_standard_library() {
        for number in [0, 7, 10, 99, 100, 12_345, u64::MAX] {
            let decimal = Decimal::new(number);
            assert_eq!(decimal.digits(), number.to_string().as_bytes());
            assert_eq!(decimal.line(), format!("{number}\r\n").as_bytes());
            assert_eq!(decimal.count(), number.to_string().len());
            assert_eq!(digits_of(number), decimal.count());
            let mut place = vec![b'x'; decimal.count()];
            write_digits(&mut place, number);
            assert_eq!(place, decimal.digits());
        }
    }
}
