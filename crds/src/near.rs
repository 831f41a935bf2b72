//! Names that resemble a misspelt one.

/// Least likeness of a proposed name.
const ALIKE: f64 = 0.6;
/// Largest number of proposed names.
const MOST_NAMES: usize = 3;

/// Likeness of two names in any case, from 0 to 1: the share of the longer one's characters that need
/// no change (Damerau and Levenshtein).
pub fn alike(one: &str, other: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(&one.to_lowercase(), &other.to_lowercase())
}

/// The `names` that `wanted` may mean, the likeliest first; one that differs only in case alone.
pub fn near<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let alike = |name: &'a str| (alike(wanted, name), name);
    let mut found: Vec<(f64, &str)> =
        names.into_iter().map(alike).filter(|(alike, _)| *alike >= ALIKE).collect();
    found.sort_by(|(one, a), (other, b)| other.total_cmp(one).then(a.cmp(b)));
    found.dedup();
    if found.iter().any(|(_, name)| name.eq_ignore_ascii_case(wanted)) {
        found.retain(|(_, name)| name.eq_ignore_ascii_case(wanted));
    }
    found.into_iter().map(|(_, name)| name).take(MOST_NAMES).collect()
}

/// "; did you mean A or B?", or nothing.
pub fn did_you_mean<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match near(wanted, names).as_slice() {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// "; did you mean A or B?", or where no name is alike, all: ": use A, B, C".
pub fn near_or_all<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = did_you_mean(wanted, names.clone());
    if near.is_empty() { format!(": use {}", names.collect::<Vec<_>>().join(", ")) } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_proposed_for_a_misspelt_one() {
        let known = ["threads", "maxMemory", "version", "thread"];
        assert_eq!(near("thraed", known), ["thread", "threads"]);
        assert_eq!(near("get", ["SET", "GET"]), ["GET"], "only the case differs");
        assert_eq!(near("maxmemory", known), ["maxMemory"]);
        assert!(near("image", known).is_empty(), "nothing looks like image");
        assert_eq!(did_you_mean("verison", known), "; did you mean version?");
        assert_eq!(did_you_mean("image", known), "");
        assert_eq!(near_or_all("verison", known.into_iter()), "; did you mean version?");
        assert_eq!(near_or_all("image", known.into_iter()), ": use threads, maxMemory, version, thread");
    }
}
