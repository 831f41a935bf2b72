//! Values of fields that a manifest leaves out, for `#[serde(default = "...")]`.

pub const fn int<const N: i32>() -> i32 {
    N
}

pub const fn long<const N: i64>() -> i64 {
    N
}

pub const fn yes() -> bool {
    true
}
