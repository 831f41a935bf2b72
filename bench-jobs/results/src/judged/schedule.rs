//! Whether the server followed an open loop. Pure.

use super::limits;
use dragstrip_crds::measured::ScheduleRecord;

/// Share of an open loop's requests that were answered in time, from 0 to 1, out of those due and
/// those answered in each whole second of the schedule. The backlog of a server that follows
/// falls to nothing again and again, whatever holds it up for a moment; the backlog of one that
/// does not only grows. So this is the largest share at the end of a second of the last quarter.
/// Requests that were in flight after the first second are no backlog. `None` for a schedule
/// shorter than two seconds.
pub fn answered_in_time(due: &[u64], answered: &[u64]) -> Option<f64> {
    let seconds = due.iter().zip(answered.iter().chain(std::iter::repeat(&0)));
    let sums = seconds.scan((0, 0), |sum, (due, answered)| {
        *sum = (sum.0 + due, sum.1 + answered);
        Some(*sum)
    });
    let sums: Vec<(u64, u64)> = sums.collect();
    let in_flight = sums.first().map(|(due, answered)| due.saturating_sub(*answered))?;
    let last_quarter = (sums.len() * 3 / 4).min(sums.len().saturating_sub(2)).max(1);
    let shares = sums.get(last_quarter..)?.iter().filter(|(due, _)| *due > 0).map(|(due, answered)| {
        let backlog = due.saturating_sub(*answered).saturating_sub(in_flight);
        1.0 - backlog as f64 / *due as f64
    });
    shares.reduce(f64::max)
}

/// Share of the requests of `schedule` that were answered: in time, or at all if it is too short.
pub fn answered(schedule: &ScheduleRecord) -> f64 {
    let at_all = schedule.answered as f64 / schedule.scheduled.max(1) as f64;
    schedule.answered_in_time.map_or(at_all, |in_time| in_time.min(at_all))
}

pub fn followed(schedule: &ScheduleRecord) -> bool {
    schedule.unanswered == 0 && answered(schedule) >= limits::ANSWERED
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: [u64; 10] = [1_000; 10];

    fn in_time(answered: &[u64]) -> f64 {
        answered_in_time(&DUE, answered).unwrap()
    }

    #[test]
    fn a_backlog_that_only_grows_is_not_made_good_by_the_answers_after_the_end() {
        // 140 % of what the server can do: the last answers come three seconds after the end.
        let mut answered = [714; 14];
        answered[13] = 718;
        assert!((in_time(&answered) - 0.742).abs() < 0.01, "{}", in_time(&answered));
        let slightly = [980; 11];
        assert!(in_time(&slightly) < 0.985, "102 %: {}", in_time(&slightly));
    }

    #[test]
    fn a_server_that_catches_up_has_followed() {
        assert!((in_time(&DUE) - 1.0).abs() < 1e-9);
        let stopped_at_the_end = [1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 400, 600];
        assert!((in_time(&stopped_at_the_end) - 1.0).abs() < 1e-9);
        let far_away = [800, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 200];
        assert!((in_time(&far_away) - 1.0).abs() < 1e-9, "what is in flight all the time is not a backlog");
    }

    #[test]
    fn a_schedule_shorter_than_two_seconds_says_nothing_about_time() {
        assert_eq!(answered_in_time(&[], &[]), None);
        assert_eq!(answered_in_time(&[10], &[10, 3]), None);
        assert_eq!(answered_in_time(&[0, 0, 0], &[]), None, "nothing was due");
    }

    #[test]
    fn a_server_follows_that_answers_nearly_all_in_time() {
        let follows = |answered, unanswered, answered_in_time| {
            followed(&ScheduleRecord {
                scheduled: 1000,
                answered,
                unanswered,
                answered_in_time,
                ..ScheduleRecord::default()
            })
        };
        assert!(follows(1000, 0, Some(0.995)));
        assert!(!follows(1000, 0, Some(0.98)), "its answers came too late");
        assert!(!follows(989, 0, Some(1.0)), "it answered less than 99 %");
        assert!(!follows(999, 1, Some(1.0)), "one was unanswered at the end");
        assert!(follows(1000, 0, None));
    }
}
