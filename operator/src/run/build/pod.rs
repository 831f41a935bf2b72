//! The pod of a client: the runner put into the tool's own image. Pure.

use super::placement::{nodes, separation, spread};
use crate::{
    cluster::settings::Settings,
    objects::{empty_directory, http_probe, locked_down, mount, port, run_as},
};
use dragstrip_core::{
    datastore::resources::{of_client, of_helper},
    env::{own_field, secret_variable, variable},
    nodes::client_tolerations,
    pods::CLIENT_CONTAINER,
    run::{
        decide::ReadyTarget,
        job::bare_job,
        turn::TurnCheck,
        validate::{Attempt, ValidatedRun, client_needs},
    },
};
use dragstrip_crds::workload::{ExecFiles, ToolSpec};
use dragstrip_results::protocol::{
    AUTHORITY_DIRECTORY, CLIENT_CERTIFICATE_DIRECTORY, JOB_VARIABLE, JobSpec, PASSWORD_VARIABLE,
    POD_NAME_VARIABLE, READY_PATH, RUNNER_PORT,
};
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMapVolumeSource, Container, EnvVar, KeyToPath, PodSpec, Probe, SecretVolumeSource,
    Volume, VolumeMount,
};

const CLIENT_USER: i64 = 65532;
/// Time for a client pod to end its tool and write its result.
const CLIENT_GRACE_SECONDS: i64 = 8;
/// Seconds that a runner may take to the start line: a day, more than any `load` takes.
const PREPARED_WITHIN: i32 = 86_400;
const RUNNER: &str = "/dragstrip-runner";
/// Where the runner is copied to in client pods with another image.
const BIN: &str = "/dragstrip/bin";
/// Where the tool writes its files.
const OUTPUT: &str = "/dragstrip/output";

pub(super) fn runner_job(
    run: &ValidatedRun,
    attempt: &Attempt,
    target: &ReadyTarget,
    settings: &Settings,
) -> JobSpec {
    let mut job = bare_job(run, attempt, target);
    job.verifying_key.clone_from(&settings.verifying_key);
    if run.spec.target.external().is_some() {
        // The runner resolves the name of an external target.
        job.target.blocked.clone_from(&settings.blocked_networks);
    }
    job.linger_seconds = settings.linger_seconds();
    job
}

/// Whether the runner's image has the tool. Another image needs one more container, and a second.
fn is_own(tool: &ToolSpec) -> bool {
    matches!(tool, ToolSpec::Loadgen(_))
}

/// Copies the static runner into a volume, so that the tool's image is used as it is.
fn installer(settings: &Settings) -> Container {
    Container {
        name: "install-runner".to_owned(),
        image: Some(settings.runner_image.clone()),
        command: Some(vec![RUNNER.to_owned(), "install".to_owned(), BIN.to_owned()]),
        resources: Some(of_helper()),
        security_context: Some(locked_down()),
        volume_mounts: Some(vec![mount("bin", BIN, false)]),
        ..Container::default()
    }
}

/// `text` as a variable's value, in which Kubernetes would replace $(NAME), by secrets too.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn client_environment(job: &JobSpec, target: &ReadyTarget) -> Result<Vec<EnvVar>, serde_json::Error> {
    let mut env = match &job.tool {
        // The operator's own variables come later and so win.
        ToolSpec::Exec(exec) => exec.env.clone(),
        _ => Vec::new(),
    };
    env.push(variable(JOB_VARIABLE, &literal(&serde_json::to_string(job)?)));
    env.push(own_field(POD_NAME_VARIABLE, "metadata.name"));
    // The tool of a user's own image may need the image's PATH.
    if !matches!(job.tool, ToolSpec::Exec(_)) {
        // Our own image has its programs, of which only some are copied, at its root.
        let path = format!("{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/");
        env.push(variable("PATH", &path));
    }
    env.extend(target.connection.auth.as_ref().map(|secret| secret_variable(PASSWORD_VARIABLE, secret)));
    Ok(env)
}

fn image(tool: &ToolSpec, settings: &Settings) -> String {
    match tool {
        ToolSpec::Loadgen(_) => settings.runner_image.clone(),
        ToolSpec::Memtier(memtier) => memtier.image.clone().unwrap_or_else(|| settings.memtier_image.clone()),
        ToolSpec::Bullmq(bullmq) => bullmq.image.clone().unwrap_or_else(|| settings.bullmq_image.clone()),
        ToolSpec::Exec(exec) => exec.image.clone(),
    }
}

fn certificates(name: &str, secret: &str, keys: &[&str], path: &str) -> (Volume, VolumeMount) {
    let item = |key: &&str| KeyToPath { key: (*key).to_owned(), path: (*key).to_owned(), mode: None };
    let volume = Volume {
        name: name.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            items: Some(keys.iter().map(item).collect()),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    };
    (volume, mount(name, path, true))
}

/// The volumes for clients' encryption: of the server's Secret the authority, never the key.
fn tls(target: &ReadyTarget) -> Vec<(Volume, VolumeMount)> {
    let Some(tls) = &target.connection.tls else {
        return Vec::new();
    };
    let authority = tls
        .authority_secret
        .iter()
        .map(|secret| certificates("tls-authority", secret, &["ca.crt"], AUTHORITY_DIRECTORY));
    let own = tls.client_secret.iter().map(|secret| {
        certificates("tls-client", secret, &["tls.crt", "tls.key"], CLIENT_CERTIFICATE_DIRECTORY)
    });
    authority.chain(own).collect()
}

/// The files of a user's own tool.
fn files(attempt: &Attempt) -> Vec<(Volume, VolumeMount)> {
    let ToolSpec::Exec(exec) = &*attempt.tool else { return Vec::new() };
    let volume = |(index, files): (usize, &ExecFiles)| {
        let name = format!("files-{index}");
        let source =
            ConfigMapVolumeSource { name: files.config_map.clone(), ..ConfigMapVolumeSource::default() };
        let mount = mount(&name, &files.mount_path, true);
        (Volume { name, config_map: Some(source), ..Volume::default() }, mount)
    };
    exec.files.iter().enumerate().map(volume).collect()
}

/// User and group id of the tool, and of the runner that starts it.
fn user(attempt: &Attempt) -> i64 {
    match &*attempt.tool {
        ToolSpec::Exec(exec) => exec.user.unwrap_or(CLIENT_USER),
        _ => CLIENT_USER,
    }
}

/// Succeeds at the start line, and is not sent again: a readiness probe would meet the end of a client,
/// fail, and leave a Warning event. A failure ends no client: a busy node may start the runner late.
fn at_start_line() -> Probe {
    Probe {
        failure_threshold: Some(PREPARED_WITHIN),
        ..http_probe(READY_PATH, i32::from(RUNNER_PORT), PREPARED_WITHIN)
    }
}

fn client(
    run: &ValidatedRun,
    attempt: &Attempt,
    target: &ReadyTarget,
    placed: bool,
    settings: &Settings,
) -> Result<Container, serde_json::Error> {
    let own = [mount("output", OUTPUT, false), mount("tmp", "/tmp", false)];
    let (runner, bin) = if is_own(&attempt.tool) {
        (RUNNER.to_owned(), None)
    } else {
        (format!("{BIN}{RUNNER}"), Some(mount("bin", BIN, true)))
    };
    let further = tls(target).into_iter().chain(files(attempt)).map(|(_, mount)| mount);
    Ok(Container {
        name: CLIENT_CONTAINER.to_owned(),
        image: Some(image(&attempt.tool, settings)),
        command: Some(vec![runner, "run".to_owned()]),
        args: Some(vec!["--output-directory".to_owned(), OUTPUT.to_owned()]),
        env: Some(client_environment(&runner_job(run, attempt, target, settings), target)?),
        ports: Some(vec![port("runner", i32::from(RUNNER_PORT))]),
        startup_probe: Some(at_start_line()),
        resources: Some(of_client(&run.spec.clients, client_needs(&run.spec, placed))),
        security_context: Some(locked_down()),
        volume_mounts: Some(bin.into_iter().chain(own).chain(further).collect()),
        ..Container::default()
    })
}

pub(super) fn client_pod(
    run: &ValidatedRun,
    attempt: &Attempt,
    target: &ReadyTarget,
    turn: &TurnCheck,
    settings: &Settings,
) -> Result<PodSpec, serde_json::Error> {
    let placement = &run.spec.clients.placement;
    let own = ["output", "tmp"].map(empty_directory);
    let installed = (!is_own(&attempt.tool)).then(|| (vec![installer(settings)], empty_directory("bin")));
    let (init_containers, bin) = installed.unzip();
    let further = tls(target).into_iter().chain(files(attempt)).map(|(volume, _)| volume);
    Ok(PodSpec {
        init_containers,
        containers: vec![client(run, attempt, target, !turn.client_nodes.is_empty(), settings)?],
        restart_policy: Some("Never".to_owned()),
        enable_service_links: Some(false),
        automount_service_account_token: Some(false),
        termination_grace_period_seconds: Some(CLIENT_GRACE_SECONDS),
        security_context: Some(run_as(user(attempt))),
        node_selector: Some(placement.node_selector.clone()).filter(|labels| !labels.is_empty()),
        affinity: Some(Affinity {
            node_affinity: Some(nodes(&turn.client_nodes, turn.wanted.clone())),
            pod_anti_affinity: Some(separation(run, attempt)),
            ..Affinity::default()
        }),
        topology_spread_constraints: spread(run, attempt),
        tolerations: Some(client_tolerations(&run.spec.clients)),
        volumes: Some(bin.into_iter().chain(own).chain(further).collect()),
        ..PodSpec::default()
    })
}
