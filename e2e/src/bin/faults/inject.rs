//! Injects the faults, and ends those that end by themselves.

use crate::{
    clock,
    disk::SmallDisk,
    lane::Lane,
    memory, moment,
    plan::{Fault, Plan, Side},
    shared::Turn,
};
use anyhow::{Context, Result, bail, ensure};
use dragstrip_core::labels::RUN;
use dragstrip_e2e::{
    Env, faults, operator,
    processes::{self, Process, Signal, signal},
};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams},
};
use std::time::{Duration, Instant};
use tokio::{task::spawn_blocking, time::sleep};

/// How long to wait for a pod to inject a fault into.
const POD_WITHIN: Duration = Duration::from_secs(10);
/// And for its processes.
const PROCESS_WITHIN: Duration = Duration::from_secs(2);

/// What a fault is injected into.
pub struct Target<'a> {
    pub env: &'a Env,
    pub lane: &'a Lane,
    pub plan: &'a Plan,
    /// The right to inject a fault that every run feels.
    pub turn: Option<Turn<'a>>,
    /// The disk of the clients' node, if it is to become full.
    pub disk: Option<&'a SmallDisk>,
}

/// A fault that was injected.
#[derive(Debug)]
pub struct Injected {
    /// When.
    pub at: Instant,
    /// What exactly was done.
    pub what: String,
}

/// Injects the fault when its moment has come; `None` if the run has ended before.
pub async fn inject(target: Target<'_>) -> Option<Result<Injected>> {
    if !moment::come(target.env, target.plan).await {
        return None;
    }
    let at = Instant::now();
    if let Some(turn) = &target.turn {
        turn.begin(target.plan.fault, target.lane.number);
    }
    Some(target.injected().await.map(|what| Injected { at, what }))
}

/// Runs what blocks beside what does not.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await?
}

impl Target<'_> {
    async fn injected(&self) -> Result<String> {
        let (plan, lasts) = (self.plan, self.plan.lasts);
        let node = match plan.side {
            Side::Client => &self.lane.client,
            Side::Server => &self.lane.server,
        };
        let name = node.strip_prefix("dragstrip-").context("not a node of the testbed")?;
        match plan.fault {
            Fault::None => Ok(String::new()),
            Fault::ClientKilled => self.kill_client(|_| true).await,
            Fault::ToolKilled => self.kill_client(|process| !process.is("dragstrip-runne")).await,
            Fault::ClientDeleted => self.delete(&self.client().await?).await,
            Fault::ClientEvicted => {
                let name = self.client().await?.name_any();
                self.env.api::<Pod>().evict(&name, &EvictParams::default()).await?;
                Ok(format!("pod {name} evicted"))
            }
            Fault::ClientOutOfMemory => memory::exhaust(&self.client().await?).await,
            Fault::ServerOutOfMemory => memory::exhaust(&self.env.server_pod("redis").await?).await,
            Fault::ServerKilled => self.signal_server(Signal::KILL).await,
            Fault::ServerFrozen => {
                self.signal_server(Signal::STOP).await?;
                sleep(lasts).await;
                self.signal_server(Signal::CONT).await?;
                Ok(format!("server frozen for {lasts:.1?}"))
            }
            Fault::ServerRestarted => self.delete(&self.env.server_pod("redis").await?).await,
            Fault::KubeletRestarted => self.outage(&format!("kubelet:{name}"), lasts).await,
            Fault::ContainerdRestarted => self.outage(&format!("containerd:{name}"), lasts).await,
            Fault::ApiserverRestarted => self.outage("apiserver", lasts).await,
            Fault::EtcdRestarted => self.outage("etcd", lasts).await,
            Fault::NodeLost => self.lose(node, lasts).await,
            Fault::DiskFull => {
                let disk = self.disk.context("no disk")?;
                disk.fill()?;
                sleep(lasts).await;
                disk.empty()?;
                Ok(format!("disk of the clients' logs full for {lasts:.1?}"))
            }
            Fault::ClientClockStepped => {
                let uid = self.client().await?.uid().unwrap_or_default();
                self.step("client", move || pids(&uid)).await
            }
            Fault::OperatorClockStepped => {
                let uid = operator::await_ready(&self.env.client, None).await?.uid().unwrap_or_default();
                self.step("operator", move || pids(&uid)).await
            }
            Fault::NamespaceDeleted => {
                let namespaces: Api<Namespace> = Api::all(self.env.client.clone());
                namespaces.delete(&self.env.namespace, &DeleteParams::default()).await?;
                Ok("namespace deleted".to_owned())
            }
            Fault::ImageMissing => self.remove_image(name.to_owned(), lasts).await,
        }
    }

    /// The newest client pod of the run.
    async fn client(&self) -> Result<Pod> {
        let until = Instant::now() + POD_WITHIN;
        loop {
            let pods: Result<Vec<Pod>> = self.env.labelled(&format!("{RUN}={}", self.plan.run())).await;
            let newest = pods.unwrap_or_default().into_iter().max_by_key(ResourceExt::creation_timestamp);
            match newest {
                Some(pod) => return Ok(pod),
                None if Instant::now() > until => bail!("there is no client pod"),
                None => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn kill_client(&self, which: impl Fn(&Process) -> bool) -> Result<String> {
        let pod = self.client().await?;
        let until = Instant::now() + PROCESS_WITHIN;
        loop {
            let mut found = processes::of_pod(&pod.uid().unwrap_or_default())?;
            found.retain(|process| process.is("dragstrip-") && which(process));
            if !found.is_empty() {
                found.iter().try_for_each(|process| signal(process.pid, Signal::KILL))?;
                let names: Vec<String> = found.iter().map(Process::name).collect();
                return Ok(format!("{names:?} of pod {} killed", pod.name_any()));
            }
            ensure!(Instant::now() < until, "pod {} has no such process", pod.name_any());
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn signal_server(&self, with: Signal) -> Result<String> {
        let pod = self.env.server_pod("redis").await?;
        for process in processes::of_pod(&pod.uid().unwrap_or_default())? {
            if process.is("redis-server") {
                signal(process.pid, with)?;
            }
        }
        Ok(format!("{with:?} sent to the server"))
    }

    /// Deletes a pod, by force as often as not.
    async fn delete(&self, pod: &Pod) -> Result<String> {
        let name = pod.name_any();
        let force = self.plan.seed.is_multiple_of(2);
        let parameters =
            if force { DeleteParams::default().grace_period(0) } else { DeleteParams::default() };
        self.env.api::<Pod>().delete(&name, &parameters).await?;
        Ok(format!("pod {name} deleted{}", if force { " by force" } else { "" }))
    }

    /// Stops a part of the cluster for a while.
    async fn outage(&self, component: &str, lasts: Duration) -> Result<String> {
        let stopped = component.to_owned();
        let fault = blocking(move || faults::Fault::stop(&stopped)).await?;
        sleep(lasts).await;
        blocking(move || fault.mend()).await?;
        Ok(format!("{component} stopped for {lasts:.1?}"))
    }

    /// Kills a node with all its pods, and brings it back.
    async fn lose(&self, node: &str, lasts: Duration) -> Result<String> {
        let lost = node.to_owned();
        let fault = blocking(move || faults::Fault::kill_node(&lost)).await?;
        sleep(lasts).await;
        blocking(move || fault.mend()).await?;
        Ok(format!("{node} lost for {lasts:.1?}"))
    }

    async fn step(&self, whose: &str, pids: impl Fn() -> Vec<u32>) -> Result<String> {
        let (step, lasts) = (self.plan.step_seconds, self.plan.lasts);
        let count = clock::stepped(pids, step, lasts).await?;
        ensure!(count > 0, "the {whose} has no process any more");
        Ok(format!("clock of the {whose} ({count} processes) stepped by {step:.2} s for {lasts:.1?}"))
    }

    /// Takes the runner's image from the clients' node for a while.
    async fn remove_image(&self, node: String, lasts: Duration) -> Result<String> {
        let node = if self.plan.side == Side::Client {
            node
        } else {
            self.lane.client.trim_start_matches("dragstrip-").to_owned()
        };
        let back = node.clone();
        blocking(move || crate::disk::hide_image(&node)).await?;
        sleep(lasts).await;
        blocking(move || crate::disk::restore_image(&back)).await?;
        Ok(format!("the runner's image away for {lasts:.1?}"))
    }
}

/// The processes of a pod that are ours.
fn pids(uid: &str) -> Vec<u32> {
    let found = processes::of_pod(uid).unwrap_or_default();
    found.iter().filter(|process| process.is("dragstrip-")).map(|process| process.pid).collect()
}
