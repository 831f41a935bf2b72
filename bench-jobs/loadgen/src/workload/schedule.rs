//! When requests of an open loop are due, in times since the start. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use dragstrip_crds::workload::{ArrivalSchedule, OpenLoopSpec};
use rand::distr::Distribution;
use rand::rngs::SmallRng;
use rand_distr::Exp1;

use crate::workload::streams::{Crowd, Purpose, stream};

/// What all timetables of a process have in common.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The rate of all connections of all processes.
    pub(crate) rate: OpenLoopSpec,
    pub(crate) seed: u64,
    pub(crate) crowd: Crowd,
    /// Connections of the process.
    pub(crate) connections: u64,
}

impl Plan {
    /// Mean time between requests of one connection, in seconds.
    pub(crate) fn interval(&self) -> f64 {
        self.connections as f64 * f64::from(self.crowd.processes) / self.rate.operations_per_second as f64
    }
}

/// The intended times of one connection, one after the other.
#[derive(Clone, Debug)]
struct Timetable {
    arrival: ArrivalSchedule,
    /// Mean time between requests, in seconds.
    interval: f64,
    random: SmallRng,
    /// Requests so far.
    count: u64,
    /// Time of the first request of a fixed grid, or of the last drawn one, in seconds.
    at: f64,
}

impl Timetable {
    fn new(plan: &Plan, number: u64) -> Self {
        let Plan { ref rate, seed, crowd, .. } = *plan;
        let at = match rate.arrival {
            // Staggered, so that all connections of all processes together make an even grid.
            ArrivalSchedule::Fixed => {
                let place = number as f64 * f64::from(crowd.processes) + f64::from(crowd.index);
                place / rate.operations_per_second as f64
            }
            ArrivalSchedule::Poisson => 0.0,
        };
        let random = stream(seed, crowd, Purpose::Arrivals, number);
        Self { arrival: rate.arrival, interval: plan.interval(), random, count: 0, at }
    }

    fn next(&mut self) -> Duration {
        let seconds = match self.arrival {
            // By multiplication: added intervals would add up their errors.
            ArrivalSchedule::Fixed => self.at + self.count as f64 * self.interval,
            ArrivalSchedule::Poisson => {
                let gap: f64 = Exp1.sample(&mut self.random);
                self.at += gap * self.interval;
                self.at
            }
        };
        self.count += 1;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

/// The intended times of the connections of one thread, in order of time.
#[derive(Debug)]
pub(crate) struct Agenda {
    next: BinaryHeap<Reverse<(Duration, usize)>>,
    timetables: Vec<Timetable>,
    /// The next times of connections that are out of the order for a while.
    parked: Vec<Option<Duration>>,
}

impl Agenda {
    /// `numbers` are those of the thread's connections within the run.
    pub(crate) fn new(plan: &Plan, numbers: &[u64]) -> Self {
        let mut timetables: Vec<_> = numbers.iter().map(|&number| Timetable::new(plan, number)).collect();
        let next =
            timetables.iter_mut().enumerate().map(|(index, table)| Reverse((table.next(), index))).collect();
        let parked = vec![None; timetables.len()];
        Self { next, timetables, parked }
    }

    /// Mean time between requests of these connections, in seconds.
    pub(crate) fn mean_interval(&self) -> f64 {
        let each = self.timetables.first().map_or(0.0, |table| table.interval);
        each / self.timetables.len().max(1) as f64
    }

    /// The next request of any connection, with the connection.
    pub(crate) fn peek(&self) -> Option<(Duration, usize)> {
        self.next.peek().map(|Reverse(next)| *next)
    }

    /// The same, and goes on.
    pub(crate) fn pop(&mut self) -> Option<(Duration, usize)> {
        let Reverse((due, connection)) = self.next.pop()?;
        if let Some(table) = self.timetables.get_mut(connection) {
            self.next.push(Reverse((table.next(), connection)));
        }
        Some((due, connection))
    }

    /// Takes the connection that is next out of the order, with its time.
    pub(crate) fn park(&mut self) {
        if let Some(Reverse((due, connection))) = self.next.pop()
            && let Some(place) = self.parked.get_mut(connection)
        {
            *place = Some(due);
        }
    }

    pub(crate) fn unpark(&mut self, connection: usize) {
        if let Some(due) = self.parked.get_mut(connection).and_then(Option::take) {
            self.next.push(Reverse((due, connection)));
        }
    }

    /// The next time of a parked connection.
    pub(crate) fn parked(&self, connection: usize) -> Option<Duration> {
        self.parked.get(connection).copied().flatten()
    }

    /// Goes on to the time after it.
    pub(crate) fn skip(&mut self, connection: usize) {
        if let (Some(place), Some(table)) =
            (self.parked.get_mut(connection), self.timetables.get_mut(connection))
        {
            *place = Some(table.next());
        }
    }

    /// Takes a connection out: it has sent all its requests.
    pub(crate) fn retire(&mut self, connection: usize) {
        self.next.retain(|Reverse((_, other))| *other != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(arrival: ArrivalSchedule, rate: i64, connections: u64, crowd: Crowd) -> Plan {
        Plan {
            rate: OpenLoopSpec { operations_per_second: rate, arrival, ..OpenLoopSpec::default() },
            seed: 7,
            crowd,
            connections,
        }
    }

    fn times(
        arrival: ArrivalSchedule,
        rate: i64,
        connections: u64,
        until: Duration,
    ) -> Vec<(Duration, usize)> {
        let numbers: Vec<u64> = (0..connections).collect();
        let mut agenda = Agenda::new(&plan(arrival, rate, connections, Crowd::ALONE), &numbers);
        due_by(&mut agenda, until)
    }

    fn due_by(agenda: &mut Agenda, until: Duration) -> Vec<(Duration, usize)> {
        let due = |agenda: &Agenda| agenda.peek().is_some_and(|(due, _)| due <= until);
        std::iter::from_fn(|| due(agenda).then(|| agenda.pop().unwrap())).collect()
    }

    #[test]
    fn a_fixed_schedule_is_an_even_grid_over_all_connections() {
        let times = times(ArrivalSchedule::Fixed, 1000, 4, Duration::from_millis(999));
        assert_eq!(times.len(), 1000);
        for (number, (due, connection)) in times.iter().enumerate() {
            let wanted = number as f64 / 1000.0;
            assert!((due.as_secs_f64() - wanted).abs() < 1e-9, "{number}: {due:?}");
            assert_eq!(*connection, number % 4);
        }
    }

    #[test]
    fn the_fixed_schedules_of_all_processes_interleave() {
        let mut all: Vec<Duration> = (0..3)
            .flat_map(|index| {
                let crowd = Crowd { index, processes: 3 };
                let mut agenda = Agenda::new(&plan(ArrivalSchedule::Fixed, 100, 2, crowd), &[0, 1]);
                due_by(&mut agenda, Duration::from_millis(999)).into_iter().map(|(due, _)| due)
            })
            .collect();
        all.sort();
        assert_eq!(all.len(), 100, "100 operations a second of all processes together");
        for (number, due) in all.iter().enumerate() {
            let wanted = number as f64 / 100.0;
            assert!((due.as_secs_f64() - wanted).abs() < 1e-9, "{number}: {due:?}, not {wanted} s");
        }
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_the_spread_of_the_law() {
        let times = times(ArrivalSchedule::Poisson, 1000, 5, Duration::from_secs(100));
        let count = times.len() as f64;
        // Within 4 standard deviations of a Poisson count of 100,000.
        assert!((count - 100_000.0).abs() < 4.0 * 100_000_f64.sqrt(), "{count}");
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|pair| (pair[1].0.as_secs_f64() - pair[0].0.as_secs_f64()) * 1000.0)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "{}", variance.sqrt() / mean);
    }

    #[test]
    fn a_retired_connection_gets_nothing_more() {
        let mut agenda = Agenda::new(&plan(ArrivalSchedule::Fixed, 10, 2, Crowd::ALONE), &[0, 1]);
        assert!((agenda.mean_interval() - 0.1).abs() < 1e-12);
        agenda.retire(0);
        let clients: Vec<usize> =
            due_by(&mut agenda, Duration::from_secs(1)).into_iter().map(|(_, client)| client).collect();
        assert_eq!(clients, vec![1; 5]);
        agenda.retire(1);
        assert_eq!(agenda.peek(), None);
    }

    proptest! {
        #[test]
        fn times_never_go_back_and_keep_the_rate(rate in 1i64..100_000, connections in 1u64..50, poisson: bool) {
            let arrival = if poisson { ArrivalSchedule::Poisson } else { ArrivalSchedule::Fixed };
            let window = Duration::from_secs_f64(1000.0 / rate as f64);
            let times = times(arrival, rate, connections, window);
            prop_assert!(times.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            let tolerance = if poisson { 200 } else { 2 };
            prop_assert!(times.len().abs_diff(1000) <= tolerance, "{}", times.len());
        }
    }
}
