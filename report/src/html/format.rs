//! Figures where there is little room: on axes and in matrices. Elsewhere they are written as
//! in every other form of the report ([`crate::figures`]).

/// Three digits at most, for axes: 1.23M, 45.6k, 1k.
pub fn short(value: f64) -> String {
    let (digits, suffix) = three_digits(value);
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    format!("{digits}{suffix}")
}

/// Three digits, where figures stand side by side: 1.23M, 45.6k, 1.00k.
pub fn even(value: f64) -> String {
    let (digits, suffix) = three_digits(value);
    format!("{digits}{suffix}")
}

fn three_digits(value: f64) -> (String, &'static str) {
    let (scaled, suffix) = match value.abs() {
        v if v >= 999.5e6 => (value / 1e9, "G"),
        v if v >= 999.5e3 => (value / 1e6, "M"),
        v if v >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let places = match scaled.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    (format!("{scaled:.places$}"), suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_on_an_axis_has_three_digits() {
        for (value, text) in [
            (1_234_567.0, "1.23M"),
            (200_000.0, "200k"),
            (0.5, "0.5"),
            (0.0, "0"),
            (999_900.0, "1M"),
            (0.012, "0.012"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!(even(999_900.0), "1.00M");
    }
}
