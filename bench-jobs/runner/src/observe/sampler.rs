//! Samples what the pod's servers use, from a command until its time is over, another
//! measurement begins, or the operator reads the result. Touches /proc and the
//! servers' cgroups.

use super::{finder::Servers, probes::Probes, samples::Samples};
use crate::measuring::{host, pace::paced, usage::with_clock_rates};
use dragstrip_results::{
    protocol::{UsageCommand, UsageWindow},
    usage::ServerUsage,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, timeout_at},
};

struct Measurement {
    token: String,
    samples: Arc<Mutex<Samples>>,
    sampling: AbortHandle,
    /// Clock rates at the begin.
    megahertz: Option<[f64; 2]>,
}

pub struct Sampler {
    servers: Servers,
    current: Mutex<Option<Measurement>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampler {
    pub fn new(servers: Servers) -> Self {
        Self { servers, current: Mutex::default() }
    }

    /// Begins to sample, or continues if it already samples for the same measurement.
    pub fn begin(&self, command: UsageCommand) {
        let mut current = locked(&self.current);
        if let Some(former) = &*current {
            if former.token == command.token && !former.sampling.is_finished() {
                return;
            }
            former.sampling.abort();
        }
        let samples = Arc::<Mutex<Samples>>::default();
        let work = sample(self.servers.clone(), Arc::clone(&samples));
        let end = Instant::now() + Duration::from_secs(command.seconds);
        // Its time being over is how it is meant to end.
        let sampling = tokio::spawn(async move { drop(timeout_at(end, work).await) }).abort_handle();
        *current =
            Some(Measurement { token: command.token, samples, sampling, megahertz: host::megahertz() });
    }

    /// What each server used in a window. This ends the sampling: the measurement is over.
    pub fn usage(&self, window: &UsageWindow) -> Result<Vec<ServerUsage>, String> {
        let current = locked(&self.current);
        let Some(measurement) = current.as_ref().filter(|measurement| measurement.token == window.token)
        else {
            return Err("nothing was sampled for this measurement: the observer got no command for it, \
                        or was restarted since"
                .to_owned());
        };
        let used = locked(&measurement.samples).usage(&self.servers.ports, window);
        let used = used.map_err(|error| error.to_string())?;
        measurement.sampling.abort();
        let with_rates = |one: ServerUsage| {
            let usage = with_clock_rates(one.usage, measurement.megahertz);
            ServerUsage { usage, ..one }
        };
        Ok(used.into_iter().map(with_rates).collect())
    }
}

async fn sample(servers: Servers, samples: Arc<Mutex<Samples>>) {
    let mut probes = Probes::of(servers);
    loop {
        let interval = locked(&samples).interval;
        probes.find_missing();
        let (sample, wait) = paced(interval, || probes.sample());
        locked(&samples).push(sample);
        sleep(wait).await;
    }
}
