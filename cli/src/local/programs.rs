//! The programs of a local run: this one under the names of the runner and the load
//! generators, and those on PATH. Touches the environment and files.

use clap::Parser as _;
use dragstrip_crds::{Engine, workload::ToolSpec};
use dragstrip_runner::{CLIENTS_NAME, LOADGEN_NAME, RUNNER_NAME};
use std::{
    env,
    ffi::OsString,
    io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::ExitCode,
};

const CONTAINED: &[&str] = if cfg!(feature = "libraries") {
    &[RUNNER_NAME, LOADGEN_NAME, CLIENTS_NAME]
} else {
    &[RUNNER_NAME, LOADGEN_NAME]
};

/// The load generator, which is also the server that answers at once.
pub const LOADGEN: &str = LOADGEN_NAME;

/// Whether `program`, a name or a path in a container, is the load generator.
pub fn is_loadgen(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == LOADGEN)
}

/// Runs the program under whose name this one was started, if it is another.
pub fn other_program() -> Option<ExitCode> {
    let name = env::args_os().next()?;
    match Path::new(&name).file_name()?.to_str()? {
        RUNNER_NAME => Some(runner()),
        LOADGEN_NAME => Some(dragstrip_loadgen::main()),
        #[cfg(feature = "libraries")]
        CLIENTS_NAME => Some(dragstrip_clients::main()),
        _ => super::warden::other_work(),
    }
}

/// With one thread: it shares its CPUs with its tool, or observes a server from them.
fn runner() -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(dragstrip_runner::cli::Cli::parse().execute()),
        Err(error) => {
            eprintln!("cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Creates `directory` with links to this program under the names of the others.
pub fn link(directory: &Path) -> io::Result<()> {
    let own = env::current_exe()?;
    std::fs::create_dir_all(directory)?;
    for name in CONTAINED {
        symlink(&own, directory.join(name))?;
    }
    Ok(())
}

/// PATH with `first` in front, all absolute: children have other working directories.
pub fn path_with(first: &Path) -> OsString {
    let mut path = first.as_os_str().to_owned();
    for directory in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
        path.push(":");
        path.push(std::path::absolute(&directory).unwrap_or(directory));
    }
    path
}

/// The absolute path of the file that a shell would start as `program`.
pub fn find(program: &str) -> Option<PathBuf> {
    let executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return std::path::absolute(program).ok().filter(executable);
    }
    let directories = env::var_os("PATH")?;
    let files = env::split_paths(&directories).map(|directory| directory.join(program));
    files.filter_map(|file| std::path::absolute(file).ok()).find(executable)
}

/// The usual names of the server of `engine`; none for a custom one.
pub fn servers(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Redis => &["redis-server"],
        Engine::Valkey => &["valkey-server"],
        Engine::Dragonfly => &["dragonfly"],
        Engine::KeyDB => &["keydb-server"],
        Engine::Garnet => &["GarnetServer", "garnet-server", "garnet"],
        Engine::Custom => &[],
    }
}

pub fn server_remedy(engine: Engine) -> String {
    match engine {
        Engine::Custom => "correct spec.custom.command".to_owned(),
        _ => format!("install it, or use --server-binary {engine}=PATH"),
    }
}

/// The program of `tool` that must be on PATH, and how to get it; `None` if this one contains it.
pub fn of_tool(tool: &ToolSpec) -> Option<(String, &'static str)> {
    match tool {
        ToolSpec::Loadgen(spec) if spec.library.is_some() && !CONTAINED.contains(&CLIENTS_NAME) => Some((
            CLIENTS_NAME.to_owned(),
            "this build of dragstrip does not contain the client libraries: install one that does with 'make cli LIBRARIES=1', or use loadgen's own client (client: Raw)",
        )),
        ToolSpec::Loadgen(_) => None,
        ToolSpec::Memtier(_) => Some((
            "memtier_benchmark".to_owned(),
            "install it (such as: apt install memtier-benchmark, brew install memtier_benchmark; source: https://github.com/redis/memtier_benchmark), or use loadgen, which this program contains",
        )),
        ToolSpec::Bullmq(_) => Some((
            "dragstrip-bullmq".to_owned(),
            "build it from bench-jobs/bullmq in Dragstrip's repository, or run this phase in a cluster",
        )),
        ToolSpec::Exec(exec) => Some((
            exec.command.first().cloned().unwrap_or_default(),
            "local runs start exec's command on this machine: install it, or correct exec.command",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_path_and_by_their_file() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()), "there is no shell on PATH");
        assert_eq!(find("/bin/sh"), Some("/bin/sh".into()));
        let relative = find("../../../../../../../../bin/sh");
        assert!(relative.is_some_and(|path| path.is_absolute()), "another directory has other programs");
        assert_eq!(find("no-such-program"), None);
        assert_eq!(find("/etc/passwd"), None, "it is not executable");
    }
}
