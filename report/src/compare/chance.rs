//! Corrects significance for the number of comparisons in a report. Pure.

use crate::document::Comparison;
use dragstrip_crds::suite::ComparisonVerdict;

const LEVEL: f64 = 0.05;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Family {
    pub compared: u32,
    pub differing: u32,
    /// Comparisons with a p value, which those with published figures lack.
    pub tested: u32,
    /// Better and Worse ones that remain after the correction.
    pub remaining: u32,
}

fn differs(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, ComparisonVerdict::Better | ComparisonVerdict::Worse)
}

/// Mark each Better or Worse comparison that remains significant by Holm's procedure: the smallest
/// p value must be at most 5 % / m, the next 5 % / (m - 1) and so on, up to the first that is not.
/// Comparisons in one group count as one, with the smallest of their p values.
pub fn judge_together<'a>(groups: impl Iterator<Item = Vec<&'a mut Comparison>>) -> Family {
    let mut family = Family::default();
    let mut tested: Vec<(f64, Vec<&mut Comparison>)> = Vec::new();
    for group in groups {
        let judged = |it: &&Comparison| it.interval_known && it.verdict != ComparisonVerdict::NotComparable;
        let any = |is: &dyn Fn(&&Comparison) -> bool| {
            u32::from(group.iter().map(|it| &**it).filter(judged).any(|it| is(&it)))
        };
        family.compared += any(&|_| true);
        family.differing += any(&|it| differs(it));
        let smallest = group.iter().filter_map(|comparison| comparison.chance).min_by(f64::total_cmp);
        tested.extend(smallest.map(|chance| (chance, group)));
    }
    tested.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let count = tested.len();
    family.tested = u32::try_from(count).unwrap_or(u32::MAX);
    let mut holds = true;
    for (place, (chance, group)) in tested.into_iter().enumerate() {
        let level = LEVEL / (count - place) as f64;
        holds = holds && chance <= level;
        let mut remains = false;
        for comparison in group.into_iter().filter(|comparison| differs(comparison)) {
            let own = holds && comparison.chance.is_some_and(|chance| chance <= level);
            comparison.holds_among_all = Some(own);
            remains |= own;
        }
        family.remaining += u32::from(remains);
    }
    family
}

impl Family {
    pub fn note(&self) -> Option<String> {
        let false_alarms = (LEVEL * f64::from(self.compared)).ceil();
        let plural = if self.compared > 20 { "s" } else { "" };
        let remaining = match self.tested {
            0 => String::new(),
            _ => format!(", and {} of these remain after Holm's correction", self.remaining),
        };
        (self.compared > 1).then(|| format!(
            "in {} comparisons at 95 % confidence, expect about {false_alarms:.0} false alarm{plural}; {} are Better or Worse{remaining}",
            self.compared, self.differing,
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
            detectable: None,
            verdict: ComparisonVerdict::Better,
            reason: String::new(),
            margin: 0.03,
            chance: Some(chance),
            holds_among_all: None,
        }
    }

    #[test]
    fn the_smallest_p_value_of_four_must_be_below_a_quarter_of_five_percent() {
        // 0.05 / 4, 0.05 / 3: 0.012 and 0.016 hold; 0.03 is above 0.05 / 2 and ends it.
        let mut all = [0.03, 0.012, 0.016, 0.04].map(comparison);
        let family = judge_together(all.iter_mut().map(|one| vec![one]));
        let marks = all.map(|comparison| comparison.holds_among_all.unwrap());
        assert_eq!(marks, [false, true, true, false]);
        assert_eq!(family, Family { compared: 4, differing: 4, tested: 4, remaining: 2 });
        assert!(family.note().unwrap().contains("expect about 1 false alarm;"), "{:?}", family.note());
    }

    #[test]
    fn comparisons_of_one_group_count_once() {
        let mut all = [0.02, 0.04, 0.024].map(comparison);
        let [used, rss, throughput] = &mut all;
        let family = judge_together([vec![used, rss], vec![throughput]].into_iter());
        assert_eq!(family, Family { compared: 2, differing: 2, tested: 2, remaining: 2 });
        assert_eq!(
            all.map(|one| one.holds_among_all.unwrap()),
            [true, false, true],
            "0.04 is above 0.05 / 2"
        );
    }

    #[test]
    fn the_note_does_not_mention_a_test_that_nobody_made() {
        let mut published = [Comparison { chance: None, ..comparison(0.0) }, comparison(0.0)];
        published[1].chance = None;
        let family = judge_together(published.iter_mut().map(|one| vec![one]));
        let note = family.note().unwrap();
        assert!(note.contains("2 are Better or Worse") && !note.contains("Holm"), "{note}");
    }
}
