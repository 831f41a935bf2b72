//! Writes the requests of one connection, a batch at a time, into a buffer
//! that is used again and again.
//!
//! Everything that stays the same between requests is encoded once, so a
//! request costs a key draw, its decimal digits and a few copies.

use std::rc::Rc;

use rand::distr::{Distribution, Uniform};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use thiserror::Error;

use crate::configuration::{Configuration, Data, Ratio};
use crate::keys::{KeyError, KeyPicker, Share};
use crate::replay::requests::{JobRequests, ReplayEncodeError};

/// Decimal digits of the largest key number.
const MAXIMUM_DIGITS: usize = 20;
/// Distinct positions from which a random value may be cut.
const RANDOM_POSITIONS: usize = 64 * 1024;

/// The kinds of request this generator sends.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Operation {
    Set,
    Get,
}

impl Operation {
    pub(crate) const ALL: [Self; 2] = [Self::Set, Self::Get];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Get => "GET",
        }
    }
}

/// Walks the repeating sequence of SETs and GETs. Requests and replies walk it
/// separately, so no queue of what is in flight is needed.
#[derive(Clone, Debug)]
pub(crate) struct OperationSequence {
    sets: u64,
    cycle: u64,
    position: u64,
}

impl OperationSequence {
    /// Connections begin at different positions, so that a mixed load is mixed
    /// from its first instant.
    pub(crate) fn new(ratio: Ratio, connection: u64) -> Self {
        let cycle = u64::from(ratio.sets) + u64::from(ratio.gets);
        Self { sets: ratio.sets.into(), cycle, position: connection % cycle.max(1) }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Operation {
        let operation = if self.position < self.sets { Operation::Set } else { Operation::Get };
        self.position += 1;
        if self.position >= self.cycle {
            self.position = 0;
        }
        operation
    }
}

/// The requests cannot be described.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The keys cannot be drawn.
    #[error("keys: {0}")]
    BuildKeys(#[from] KeyError),
    /// The jobs of a replay cannot be encoded.
    #[error(transparent)]
    EncodeJobs(#[from] ReplayEncodeError),
    /// The sizes of values or the expiry have an empty range.
    #[error("the range of {what} is empty")]
    EmptyRange {
        /// What the range is of.
        what: &'static str,
    },
}

/// What one batch holds, per operation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct BatchCounts {
    pub(crate) sets: u64,
    pub(crate) gets: u64,
    pub(crate) set_bytes: u64,
    pub(crate) get_bytes: u64,
}

/// The unchanging parts of requests, shared by the connections of a thread.
#[derive(Debug)]
pub(crate) struct RequestTemplates {
    /// Indexed by the number of digits of the key number.
    set_heads: Vec<Vec<u8>>,
    get_heads: Vec<Vec<u8>>,
    tail: ValueTail,
    /// Take the place of every other request.
    jobs: Option<JobRequests>,
}

impl RequestTemplates {
    pub(crate) fn new(configuration: &Configuration) -> Result<Self, RequestError> {
        let prefix = &configuration.keys.prefix;
        let set_arguments = if configuration.data.expiry_seconds.is_some() { 5 } else { 3 };
        let heads = |arguments: u8, name: &str| {
            (0..=MAXIMUM_DIGITS).map(|digits| request_head(arguments, name, prefix, digits)).collect()
        };
        Ok(Self {
            set_heads: heads(set_arguments, "SET"),
            get_heads: heads(2, "GET"),
            tail: ValueTail::new(configuration.data, configuration.seed)?,
            jobs: configuration.replay.as_ref().map(JobRequests::new).transpose()?,
        })
    }
}

/// Source of the requests of one connection.
#[derive(Debug)]
pub(crate) struct RequestSource {
    templates: Rc<RequestTemplates>,
    sequence: OperationSequence,
    keys: KeyPicker,
    random: SmallRng,
}

impl RequestSource {
    pub(crate) fn new(
        configuration: &Configuration,
        templates: Rc<RequestTemplates>,
        share: Share,
    ) -> Result<Self, RequestError> {
        let space = &configuration.keys;
        // The odd constant spreads neighbouring connections over the seed space.
        let seed = configuration.seed.wrapping_add(share.index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Ok(Self {
            templates,
            sequence: OperationSequence::new(configuration.ratio, share.index),
            keys: KeyPicker::new(space.pattern, space.minimum, space.maximum, share)?,
            random: SmallRng::seed_from_u64(seed),
        })
    }

    /// Appends `count` requests to `buffer`.
    #[inline]
    pub(crate) fn write_batch(&mut self, buffer: &mut Vec<u8>, count: usize) -> BatchCounts {
        if let Some(jobs) = &self.templates.jobs {
            let before = buffer.len();
            (0..count).for_each(|_| jobs.write(buffer, &mut self.random));
            let get_bytes = (buffer.len() - before) as u64;
            return BatchCounts { gets: count as u64, get_bytes, ..BatchCounts::default() };
        }
        let mut counts = BatchCounts::default();
        for _ in 0..count {
            let before = buffer.len();
            let key = self.keys.next(&mut self.random);
            match self.sequence.next() {
                Operation::Set => {
                    write_key(buffer, &self.templates.set_heads, key);
                    self.templates.tail.write(buffer, &mut self.random);
                    counts.sets += 1;
                    counts.set_bytes += (buffer.len() - before) as u64;
                }
                Operation::Get => {
                    write_key(buffer, &self.templates.get_heads, key);
                    buffer.extend_from_slice(b"\r\n");
                    counts.gets += 1;
                    counts.get_bytes += (buffer.len() - before) as u64;
                }
            }
        }
        counts
    }
}

/// Everything of a request up to the digits of its key number.
fn request_head(arguments: u8, name: &str, prefix: &str, digits: usize) -> Vec<u8> {
    format!("*{arguments}\r\n${}\r\n{name}\r\n${}\r\n{prefix}", name.len(), prefix.len() + digits)
        .into_bytes()
}

#[inline]
fn write_key(buffer: &mut Vec<u8>, heads: &[Vec<u8>], key: u64) {
    let mut digits = [0_u8; MAXIMUM_DIGITS];
    let text = decimal(key, &mut digits);
    if let Some(head) = heads.get(text.len()) {
        buffer.extend_from_slice(head);
    }
    buffer.extend_from_slice(text);
}

/// The decimal text of `number`, written at the end of `digits`.
#[inline]
fn decimal(mut number: u64, digits: &mut [u8; MAXIMUM_DIGITS]) -> &[u8] {
    let mut start = MAXIMUM_DIGITS;
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        start -= 1;
        if number == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

/// Writes what follows the key of a SET: the value and the expiry.
#[derive(Debug)]
enum ValueTail {
    /// Always the same bytes.
    Fixed(Vec<u8>),
    /// Cut from a block of filler, with a drawn size, position or expiry.
    Drawn(DrawnValue),
}

#[derive(Debug)]
struct DrawnValue {
    block: Vec<u8>,
    sizes: Uniform<usize>,
    expiries: Option<Uniform<u64>>,
    random: bool,
}

impl ValueTail {
    fn new(data: Data, seed: u64) -> Result<Self, RequestError> {
        let fixed_size = data.minimum_bytes == data.maximum_bytes;
        if fixed_size && !data.random && data.expiry_seconds.is_none() {
            let mut tail = format!("\r\n${}\r\n", data.minimum_bytes).into_bytes();
            tail.resize(tail.len() + data.minimum_bytes, b'x');
            tail.extend_from_slice(b"\r\n");
            return Ok(Self::Fixed(tail));
        }
        let sizes = Uniform::new_inclusive(data.minimum_bytes, data.maximum_bytes)
            .map_err(|_| RequestError::EmptyRange { what: "value sizes" })?;
        let expiries = data
            .expiry_seconds
            .map(|(minimum, maximum)| Uniform::new_inclusive(minimum, maximum))
            .transpose()
            .map_err(|_| RequestError::EmptyRange { what: "expiries" })?;
        let block = filler(data, seed);
        Ok(Self::Drawn(DrawnValue { block, sizes, expiries, random: data.random }))
    }

    #[inline]
    fn write(&self, buffer: &mut Vec<u8>, random: &mut SmallRng) {
        match self {
            Self::Fixed(tail) => buffer.extend_from_slice(tail),
            Self::Drawn(drawn) => drawn.write(buffer, random),
        }
    }
}

fn filler(data: Data, seed: u64) -> Vec<u8> {
    if !data.random {
        return vec![b'x'; data.maximum_bytes];
    }
    let mut block = vec![0; data.maximum_bytes + RANDOM_POSITIONS];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut block);
    block
}

impl DrawnValue {
    fn write(&self, buffer: &mut Vec<u8>, random: &mut SmallRng) {
        let size = self.sizes.sample(random);
        let position = if self.random { random.random_range(0..RANDOM_POSITIONS) } else { 0 };
        let value = self.block.get(position..position + size).unwrap_or_default();
        let mut digits = [0_u8; MAXIMUM_DIGITS];
        buffer.extend_from_slice(b"\r\n$");
        buffer.extend_from_slice(decimal(size as u64, &mut digits));
        buffer.extend_from_slice(b"\r\n");
        buffer.extend_from_slice(value);
        buffer.extend_from_slice(b"\r\n");
        if let Some(expiries) = &self.expiries {
            let seconds = expiries.sample(random);
            let text = decimal(seconds, &mut digits);
            let mut length_digits = [0_u8; MAXIMUM_DIGITS];
            buffer.extend_from_slice(b"$2\r\nEX\r\n$");
            buffer.extend_from_slice(decimal(text.len() as u64, &mut length_digits));
            buffer.extend_from_slice(b"\r\n");
            buffer.extend_from_slice(text);
            buffer.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::KeySpace;
    use crate::keys::KeyPattern;

    const ALONE: Share = Share { index: 0, connections: 1 };
    const SMALL: Data = Data { minimum_bytes: 3, maximum_bytes: 3, random: false, expiry_seconds: None };

    fn written(ratio: Ratio, data: Data, count: usize) -> (String, BatchCounts) {
        let mut configuration = crate::cli::example();
        configuration.ratio = ratio;
        configuration.data = data;
        configuration.keys =
            KeySpace { prefix: "k:".into(), minimum: 9, maximum: 10, pattern: KeyPattern::Sequential };
        let templates = Rc::new(RequestTemplates::new(&configuration).unwrap());
        let mut source = RequestSource::new(&configuration, templates, ALONE).unwrap();
        let mut buffer = Vec::new();
        let counts = source.write_batch(&mut buffer, count);
        (buffer.escape_ascii().to_string().replace("\\r\\n", " "), counts)
    }

    #[test]
    fn requests_are_exact_and_counted() {
        let (text, counts) = written(Ratio { sets: 1, gets: 2 }, SMALL, 3);
        assert_eq!(text, "*3 $3 SET $3 k:9 $3 xxx *2 $3 GET $4 k:10 *2 $3 GET $3 k:9 ");
        assert_eq!(counts, BatchCounts { sets: 1, gets: 2, set_bytes: 31, get_bytes: 45 });
    }

    #[test]
    fn expiry_is_written_with_the_value() {
        let (text, _) =
            written(Ratio { sets: 1, gets: 0 }, Data { expiry_seconds: Some((60, 60)), ..SMALL }, 1);
        assert_eq!(text, "*5 $3 SET $3 k:9 $3 xxx $2 EX $2 60 ");
    }

    #[test]
    fn drawn_sizes_cover_their_range_and_random_data_varies() {
        let data = Data { minimum_bytes: 0, maximum_bytes: 9, random: true, expiry_seconds: None };
        let tail = ValueTail::new(data, 1).unwrap();
        let mut random = SmallRng::seed_from_u64(1);
        let mut sizes = [0_u32; 10];
        let mut values = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let mut buffer = Vec::new();
            tail.write(&mut buffer, &mut random);
            let size = buffer.len() - 8;
            assert!(buffer.starts_with(format!("\r\n${size}\r\n").as_bytes()));
            sizes[size] += 1;
            values.insert(buffer);
        }
        assert!(sizes.iter().all(|&count| count > 50), "{sizes:?}");
        assert!(values.len() > 700, "{} distinct values", values.len());
    }

    #[test]
    fn decimals_match_the_standard_library() {
        for number in [0, 7, 10, 99, 100, 12_345, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; MAXIMUM_DIGITS]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn empty_ranges_are_refused() {
        let data = Data { minimum_bytes: 2, maximum_bytes: 1, ..SMALL };
        assert!(matches!(ValueTail::new(data, 0), Err(RequestError::EmptyRange { .. })));
    }
}
