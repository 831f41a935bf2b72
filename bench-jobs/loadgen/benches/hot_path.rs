//! Cost of the parts of the hot path that are the client's own: drawing a key.
//! Prints nanoseconds per draw; run with `cargo bench -p dragstrip-loadgen`.

use std::hint::black_box;
use std::time::Instant;

use dragstrip_crds::workload::KeyPattern;
use dragstrip_loadgen::workload::keys::{KeyError, KeyPicker, KeySpace, Share};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

const DRAWS: u32 = 5_000_000;

fn main() -> Result<(), KeyError> {
    for (name, pattern, zipf_exponent) in [
        ("uniform", KeyPattern::Uniform, 1.0),
        ("sequential", KeyPattern::Sequential, 1.0),
        ("gaussian", KeyPattern::Gaussian, 1.0),
        ("zipfian 0.5", KeyPattern::Zipfian, 0.5),
        ("zipfian 0.99", KeyPattern::Zipfian, 0.99),
        ("zipfian 1", KeyPattern::Zipfian, 1.0),
        ("zipfian 2", KeyPattern::Zipfian, 2.0),
    ] {
        let space =
            KeySpace { prefix: String::new(), minimum: 0, maximum: 9_999_999, pattern, zipf_exponent };
        let mut picker = KeyPicker::new(&space, Share { index: 0, connections: 1 })?;
        let mut random = SmallRng::seed_from_u64(1);
        let begin = Instant::now();
        for _ in 0..DRAWS {
            black_box(picker.next(&mut random));
        }
        println!("{name:14} {:6.1} ns", begin.elapsed().as_secs_f64() * 1e9 / f64::from(DRAWS));
    }
    Ok(())
}
