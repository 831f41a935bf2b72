//! The platform's policy where the apiserver cannot hold it: the rules of the chart's
//! ValidatingAdmissionPolicies, on the same values, but for what only the apiserver
//! knows: who made an object, and what he may do himself. Pure.

use dragstrip_crds::{
    BenchmarkRunSpec, DatastoreSpec,
    datastore::Placement,
    pod::{ImagePullSecret, PodSettings},
    run::{ExternalTarget, Raise},
    units::Period,
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::EnvVar;
use serde::Deserialize;
use std::net::IpAddr;

/// Which Secrets may be named.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Secrets {
    names: Vec<String>,
}

/// What servers that Dragstrip did not make may be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct External {
    /// Networks that they may not be in.
    pub blocked_networks: Vec<IpNet>,
    blocked_hosts: Vec<String>,
    allow_flush: bool,
}

/// How much a run may take; any of what is not told.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    pods: Option<i64>,
    repetitions: Option<i32>,
    timeout: Option<Period>,
}

/// The values of the chart's `policy`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Whether the apiserver refuses what the policy forbids: the operator then does not.
    pub held_by_apiserver: bool,
    /// What external targets may be.
    pub external: External,
    secrets: Secrets,
    images: Vec<String>,
    tolerations: Vec<String>,
    host_network: bool,
    service_accounts: Vec<String>,
    priority_classes: Vec<String>,
    limits: Limits,
}

/// What the policy forbids; each names the value of the chart that does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// A Secret.
    #[error(
        "this cluster's policy does not let Secret {0} be named (policy.secrets.names of Dragstrip's chart)"
    )]
    Secret(String),
    /// An image.
    #[error("this cluster's policy does not allow image {0} (policy.images of Dragstrip's chart)")]
    Image(String),
    /// A toleration.
    #[error("this cluster's policy does not allow to tolerate {0} (policy.tolerations of Dragstrip's chart)")]
    Toleration(String),
    /// The node's network.
    #[error("this cluster's policy does not allow hostNetwork (policy.hostNetwork of Dragstrip's chart)")]
    HostNetwork,
    /// A ServiceAccount.
    #[error(
        "this cluster's policy does not allow serviceAccountName {0} (policy.serviceAccounts of Dragstrip's chart)"
    )]
    ServiceAccount(String),
    /// A PriorityClass.
    #[error(
        "this cluster's policy does not allow priorityClassName {0} (policy.priorityClasses of Dragstrip's chart)"
    )]
    PriorityClass(String),
    /// An address in a form that tools read in their own ways.
    #[error(
        "target.external.address names {0}: write an IPv4 address as four decimal numbers and an IPv6 address not as a mapped IPv4 one"
    )]
    Form(String),
    /// An address.
    #[error(
        "this cluster's policy blocks target.external.address {0} (policy.external of Dragstrip's chart)"
    )]
    Address(String),
    /// Emptying a server that is not ours.
    #[error(
        "this cluster's policy lets no run empty a server that Dragstrip did not make (policy.external.allowFlush of its chart)"
    )]
    Flush,
    /// Client pods.
    #[error("this cluster's policy allows {0} client pods at most (policy.limits.pods of Dragstrip's chart)")]
    Pods(i64),
    /// Repetitions.
    #[error(
        "this cluster's policy allows {0} repetitions at most (policy.limits.repetitions of Dragstrip's chart)"
    )]
    Repetitions(i32),
    /// Time.
    #[error(
        "this cluster's policy allows a timeout of {0} s at most (policy.limits.timeout of Dragstrip's chart)"
    )]
    Timeout(u64),
}

/// What a declaration names, whichever kind it is.
#[derive(Default)]
struct Named<'a> {
    secrets: Vec<&'a str>,
    images: Vec<&'a str>,
    settings: Vec<&'a PodSettings>,
    placements: Vec<&'a Placement>,
}

impl<'a> Named<'a> {
    fn add_environment(&mut self, env: &'a [EnvVar]) {
        let sources = env.iter().filter_map(|variable| variable.value_from.as_ref());
        self.secrets.extend(sources.filter_map(|from| Some(from.secret_key_ref.as_ref()?.name.as_str())));
    }

    fn add_pods(&mut self, settings: &'a PodSettings, placement: &'a Placement) {
        let name = |secret: &'a ImagePullSecret| secret.name.as_str();
        self.secrets.extend(settings.image_pull_secrets.iter().map(name));
        self.settings.push(settings);
        self.placements.push(placement);
    }

    fn add_datastore(&mut self, spec: &'a DatastoreSpec) {
        self.secrets.extend(spec.auth_secret_ref.iter().map(|secret| secret.name.as_str()));
        if let Some(tls) = &spec.tls {
            self.secrets.push(&tls.secret_name);
            self.secrets.extend(tls.client_secret_name.as_deref());
        }
        self.add_environment(&spec.env);
        self.images.extend(spec.image.as_deref());
        self.add_pods(&spec.pod, &spec.placement);
    }

    fn add_external(&mut self, external: &'a ExternalTarget) {
        self.secrets.extend(external.auth_secret_ref.iter().map(|secret| secret.name.as_str()));
        if let Some(tls) = &external.tls {
            self.secrets
                .extend(tls.ca_secret_name.as_deref().into_iter().chain(tls.client_secret_name.as_deref()));
        }
    }

    fn of_run(spec: &'a BenchmarkRunSpec) -> Self {
        let mut named = Self::default();
        spec.target.datastore.iter().for_each(|datastore| named.add_datastore(datastore));
        spec.target.external.iter().for_each(|external| named.add_external(external));
        named.add_pods(&spec.clients.pod, &spec.clients.placement);
        for phase in &spec.phases {
            named.images.extend(phase.memtier.as_ref().and_then(|tool| tool.image.as_deref()));
            named.images.extend(phase.bullmq.as_ref().and_then(|tool| tool.image.as_deref()));
            if let Some(exec) = &phase.exec {
                named.images.push(&exec.image);
                named.add_environment(&exec.env);
            }
        }
        named
    }
}

/// Whether `list` holds `name`, or any by "*".
fn listed(list: &[String], name: &str) -> bool {
    list.iter().any(|one| one == "*" || one == name)
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

/// Whether `image` is of the repository, or below the path, that `start` names.
fn is_of(start: &str, image: &str) -> bool {
    image
        .strip_prefix(start)
        .is_some_and(|rest| start.ends_with('/') || rest.is_empty() || rest.starts_with(['/', ':', '@']))
}

/// Whether tools may read `host` as another address than is written: 2852039166 and
/// 0xA9FEA9FE are 169.254.169.254 to them.
fn is_ambiguous(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host);
    let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    number || last.starts_with("0x") || host.contains(':')
}

impl Policy {
    fn check_named(&self, named: &Named) -> Result<(), Forbidden> {
        self.check_values(named)?;
        named.settings.iter().try_for_each(|settings| self.check_settings(settings))
    }

    /// What nobody may, whatever his rights.
    fn check_values(&self, named: &Named) -> Result<(), Forbidden> {
        let refused = |allowed: &[String], name: &&str, fits: fn(&str, &str) -> bool| {
            !allowed.is_empty() && !allowed.iter().any(|one| fits(one, name))
        };
        if let Some(name) = named.secrets.iter().find(|name| refused(&self.secrets.names, name, matches)) {
            return Err(Forbidden::Secret((*name).to_owned()));
        }
        if let Some(image) = named.images.iter().find(|image| refused(&self.images, image, is_of)) {
            return Err(Forbidden::Image((*image).to_owned()));
        }
        let tolerations = named.placements.iter().flat_map(|placement| &placement.tolerations);
        for key in tolerations.map(|toleration| toleration.key.as_deref()) {
            if !key.map_or_else(|| listed(&self.tolerations, "*"), |key| listed(&self.tolerations, key)) {
                return Err(Forbidden::Toleration(key.unwrap_or("every taint").to_owned()));
            }
        }
        Ok(())
    }

    fn check_settings(&self, settings: &PodSettings) -> Result<(), Forbidden> {
        if settings.host_network && !self.host_network {
            return Err(Forbidden::HostNetwork);
        }
        let unlisted = |name: &Option<String>, list| name.clone().filter(|name| !listed(list, name));
        if let Some(name) = unlisted(&settings.service_account_name, &self.service_accounts) {
            return Err(Forbidden::ServiceAccount(name));
        }
        unlisted(&settings.priority_class_name, &self.priority_classes)
            .map_or(Ok(()), |name| Err(Forbidden::PriorityClass(name)))
    }

    fn check_external(&self, external: &ExternalTarget) -> Result<(), Forbidden> {
        let host = external.address.rsplit_once(':').map_or("", |(host, _)| host).to_lowercase();
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let blocked = match host.parse::<IpAddr>() {
            Ok(address) if address.to_canonical() != address => return Err(Forbidden::Form(host.to_owned())),
            Ok(address) => self.external.blocked_networks.iter().any(|network| network.contains(&address)),
            Err(_) if is_ambiguous(host) => return Err(Forbidden::Form(host.to_owned())),
            Err(_) => self.external.blocked_hosts.iter().any(|blocked| {
                host.strip_suffix(blocked.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }),
        };
        if blocked {
            return Err(Forbidden::Address(host.to_owned()));
        }
        if external.allow_flush && !self.external.allow_flush { Err(Forbidden::Flush) } else { Ok(()) }
    }

    fn check_limits(&self, spec: &BenchmarkRunSpec) -> Result<(), Forbidden> {
        let limits = &self.limits;
        let searched = spec.phases.iter().filter_map(|phase| phase.search.as_ref());
        let searched = searched.filter(|search| search.raise == Raise::Pods).map(|search| search.to);
        let most_pods = searched.chain([i64::from(spec.clients.pods)]).max();
        if let Some(pods) = limits.pods.filter(|pods| most_pods > Some(*pods)) {
            return Err(Forbidden::Pods(pods));
        }
        if let Some(repetitions) = limits.repetitions.filter(|most| spec.repetitions > *most) {
            return Err(Forbidden::Repetitions(repetitions));
        }
        match &limits.timeout {
            Some(most) if spec.timeout.duration() > most.duration() => {
                Err(Forbidden::Timeout(most.duration().as_secs()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a Datastore may be so, where that is the operator's to say.
    pub fn check_datastore(&self, spec: &DatastoreSpec) -> Result<(), Forbidden> {
        if self.held_by_apiserver {
            return Ok(());
        }
        let mut named = Named::default();
        named.add_datastore(spec);
        self.check_named(&named)
    }

    /// Whether a run may be so, where that is the operator's to say.
    pub fn check_run(&self, spec: &BenchmarkRunSpec) -> Result<(), Forbidden> {
        if self.held_by_apiserver {
            return Ok(());
        }
        self.check_named(&Named::of_run(spec))?;
        self.check_limits(spec)?;
        spec.target.external.iter().try_for_each(|external| self.check_external(external))
    }

    /// Whether a run that the operator makes for a suite may be so: the apiserver does not look
    /// at what the operator makes. The rights that settings of pods take it asks, where it
    /// holds the policy, of who writes the suite.
    pub fn check_run_of_suite(&self, spec: &BenchmarkRunSpec) -> Result<(), Forbidden> {
        if !self.held_by_apiserver {
            return self.check_run(spec);
        }
        self.check_values(&Named::of_run(spec))?;
        self.check_limits(spec)?;
        spec.target.external.iter().try_for_each(|external| self.check_external(external))
    }
}

#[cfg(test)]
mod tests;
