//! When rounds of a suite are made. Pure.

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use jiff::{SignedDuration, Timestamp};

/// Times in UTC, as cron writes them.
#[derive(Debug)]
pub struct Schedule(Crontab);

/// Windows before now that are searched for the last due time, the nearest first: a window has
/// few times if the one before has none.
const WINDOWS: [SignedDuration; 4] = [
    SignedDuration::from_mins(5),
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(24 * 366 * 4),
];

impl Schedule {
    /// What `text` says, which is five fields: minute, hour, day of month, month, day of week.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.split_whitespace().count() != 5 {
            return Err(format!(
                "{text:?} does not have five fields: minute, hour, day of month, month and day of week, such as \"0 3 * * *\""
            ));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        parse_crontab_with(text, options).map(Self).map_err(|error| {
            let message = error.to_string();
            // The last line has the cause, behind a mark below the text.
            let cause = message.lines().last().unwrap_or_default().trim_start_matches([' ', '^', '-']);
            format!("{text:?} is not a time of cron: {cause}")
        })
    }

    /// The first time after `then`; `None` if there is none in the next years.
    pub fn next(&self, then: Timestamp) -> Option<Timestamp> {
        let then = MakeTimestamp::from_second(then.as_second()).ok()?;
        Some(self.0.find_next(then).ok()?.timestamp())
    }

    /// The last time after `then` that is not after `now`: however many were missed, one.
    pub fn due(&self, then: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let begins = WINDOWS.iter().map(|window| now.saturating_sub(*window).unwrap_or(then).max(then));
        let mut last = begins.filter_map(|begin| self.next(begin)).find(|time| *time <= now)?;
        while let Some(later) = self.next(last).filter(|time| *time <= now) {
            last = later;
        }
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn times_are_those_of_cron_in_utc() {
        let nightly = Schedule::parse("0 3 * * *").unwrap();
        assert_eq!(nightly.next(at("2026-01-01T03:00:00Z")), Some(at("2026-01-02T03:00:00Z")));
        let hours = Schedule::parse("*/15 8-9 * * 1-5").unwrap();
        assert_eq!(
            hours.next(at("2026-01-02T09:45:00Z")),
            Some(at("2026-01-05T08:00:00Z")),
            "over the weekend"
        );
        for (bad, reported) in
            [("0 3 * *", "five fields"), ("0 3 * * * *", "five fields"), ("61 3 * * *", "")]
        {
            let error = Schedule::parse(bad).unwrap_err();
            assert!(error.contains(reported), "{bad}: {error}");
        }
    }

    #[test]
    fn however_many_times_were_missed_the_last_one_is_due() {
        let often = Schedule::parse("* * * * *").unwrap();
        let due = |then: &str, now: &str| often.due(at(then), at(now));
        assert_eq!(due("2026-01-01T00:00:00Z", "2026-06-01T00:00:30Z"), Some(at("2026-06-01T00:00:00Z")));
        assert_eq!(due("2026-01-01T00:00:00Z", "2026-01-01T00:00:59Z"), None);
        let yearly = Schedule::parse("0 0 1 1 *").unwrap();
        assert_eq!(
            yearly.due(at("2025-06-01T00:00:00Z"), at("2026-11-01T00:00:00Z")),
            Some(at("2026-01-01T00:00:00Z"))
        );
    }
}
