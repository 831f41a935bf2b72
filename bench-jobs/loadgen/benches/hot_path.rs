//! Cost of the parts of the hot path that are the client's own: drawing a key.
//! Prints nanoseconds per draw; run with `cargo bench -p dragstrip-loadgen`.

use std::hint::black_box;
use std::time::Instant;

use dragstrip_loadgen::workload::keys::{KeyError, KeyPattern, KeyPicker, Share};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

const DRAWS: u32 = 5_000_000;

fn main() -> Result<(), KeyError> {
    let gaussian = KeyPattern::Gaussian { median: 5e6, deviation: 1e6 };
    for (name, pattern) in [
        ("uniform", KeyPattern::Uniform),
        ("sequential", KeyPattern::Sequential),
        ("gaussian", gaussian),
        ("zipfian 0.5", KeyPattern::Zipfian { exponent: 0.5 }),
        ("zipfian 0.99", KeyPattern::Zipfian { exponent: 0.99 }),
        ("zipfian 1", KeyPattern::Zipfian { exponent: 1.0 }),
        ("zipfian 2", KeyPattern::Zipfian { exponent: 2.0 }),
    ] {
        let mut picker = KeyPicker::new(pattern, 0, 9_999_999, Share { index: 0, connections: 1 })?;
        let mut random = SmallRng::seed_from_u64(1);
        let begin = Instant::now();
        for _ in 0..DRAWS {
            black_box(picker.next(&mut random));
        }
        println!("{name:14} {:6.1} ns", begin.elapsed().as_secs_f64() * 1e9 / f64::from(DRAWS));
    }
    Ok(())
}
