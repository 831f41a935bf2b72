//! Many comparisons at once: some differ by chance alone. Pure.

use crate::document::Comparison;
use dragstrip_crds::suite::ComparisonVerdict;

const LEVEL: f64 = 0.05;

/// All comparisons of a report together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Family {
    /// Those with a known interval.
    pub compared: u32,
    /// Of those the Better and Worse ones.
    pub differing: u32,
    /// How many have a chance: those that were not compared with published figures.
    pub tested: u32,
    /// Of those the Better and Worse ones that are beyond chance among all.
    pub held: u32,
}

fn differs(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, ComparisonVerdict::Better | ComparisonVerdict::Worse)
}

/// Says of each Better or Worse comparison whether it is beyond chance among all of them too,
/// by Holm's procedure: the smallest chance must be at most 5 % / m, the next
/// 5 % / (m - 1) and so on, up to the first that is not.
pub fn judge_together(mut all: Vec<&mut Comparison>) -> Family {
    let known = |it: &&mut Comparison| it.interval_known && it.verdict != ComparisonVerdict::NotComparable;
    let mut family = Family::default();
    for comparison in all.iter().filter(|it| known(it)) {
        family.compared += 1;
        family.differing += u32::from(differs(comparison));
    }
    all.retain(|comparison| comparison.chance.is_some());
    all.sort_by(|a, b| a.chance.unwrap_or(1.0).total_cmp(&b.chance.unwrap_or(1.0)));
    let count = all.len();
    family.tested = u32::try_from(count).unwrap_or(u32::MAX);
    let mut holds = true;
    for (place, comparison) in all.into_iter().enumerate() {
        holds = holds && comparison.chance.is_some_and(|chance| chance <= LEVEL / (count - place) as f64);
        if differs(comparison) {
            comparison.holds_among_all = Some(holds);
            family.held += u32::from(holds);
        }
    }
    family
}

impl Family {
    /// What the number of comparisons means; nothing of a single one.
    pub fn note(&self) -> Option<String> {
        if self.compared < 2 {
            return None;
        }
        let held = match self.tested {
            0 => String::new(),
            _ => format!(", {} of them beyond chance also among all comparisons (Holm)", self.held),
        };
        Some(format!(
            "{} figures were compared, each with a 95 % interval: were nothing different, about {:.0} of these intervals would say otherwise by chance; {} are Better or Worse{held}",
            self.compared,
            (LEVEL * f64::from(self.compared)).ceil(),
            self.differing,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dragstrip_crds::measured::Estimate;

    fn comparison(chance: f64) -> Comparison {
        Comparison {
            baseline: 1.0,
            baseline_samples: 3,
            ratio: Estimate::default(),
            difference: Estimate::default(),
            interval_known: true,
            verdict: ComparisonVerdict::Better,
            reason: String::new(),
            margin: 0.03,
            chance: Some(chance),
            holds_among_all: None,
        }
    }

    #[test]
    fn of_four_comparisons_the_smallest_chance_must_be_below_a_quarter_of_five_percent() {
        // 0.05 / 4, 0.05 / 3: 0.012 and 0.016 hold; 0.03 is above 0.05 / 2, and ends it.
        let mut all = [0.03, 0.012, 0.016, 0.04].map(comparison);
        let family = judge_together(all.iter_mut().collect());
        let held = all.map(|comparison| comparison.holds_among_all.unwrap());
        assert_eq!(held, [false, true, true, false]);
        assert_eq!(family, Family { compared: 4, differing: 4, tested: 4, held: 2 });
        assert!(family.note().unwrap().contains("about 1 of these"), "{:?}", family.note());
    }

    #[test]
    fn nothing_is_said_of_a_test_that_was_not_made() {
        let mut published = [Comparison { chance: None, ..comparison(0.0) }, comparison(0.0)];
        published[1].chance = None;
        let family = judge_together(published.iter_mut().collect());
        let note = family.note().unwrap();
        assert!(note.contains("2 are Better or Worse") && !note.contains("Holm"), "{note}");
    }
}
