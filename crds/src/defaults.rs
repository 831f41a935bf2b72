//! Values of fields that a manifest leaves out, for `#[serde(default = "...")]` and `skip_serializing_if`.

pub const fn int<const N: i32>() -> i32 {
    N
}

pub const fn long<const N: i64>() -> i64 {
    N
}

pub const fn yes() -> bool {
    true
}

pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
