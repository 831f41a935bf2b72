//! `install`: copies this program, and the load generator when it lies beside
//! it, into a volume that the tool's own image then starts it from. Touches
//! files and nothing else.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The runner's file name in the volume.
pub const RUNNER_NAME: &str = "dragstrip-runner";
/// The load generator's file name, here and in the volume.
pub const LOADGEN_NAME: &str = "dragstrip-loadgen";
/// The file name of what loads through client libraries. Phases of it run in our
/// own image, so it is never copied.
pub const CLIENTS_NAME: &str = "dragstrip-clients";

/// A step of the installation that failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot find this program's own file")]
    Locate(#[source] io::Error),
    #[error("cannot create the directory {path}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot copy {from} to {to}")]
    Copy { from: PathBuf, to: PathBuf, source: io::Error },
}

/// Installs into `directory`; returns the files written.
pub fn install(directory: &Path) -> Result<Vec<PathBuf>, InstallError> {
    let own = std::env::current_exe().map_err(InstallError::Locate)?;
    install_from(&own, directory)
}

fn install_from(own: &Path, directory: &Path) -> Result<Vec<PathBuf>, InstallError> {
    fs::create_dir_all(directory)
        .map_err(|source| InstallError::Directory { path: directory.to_path_buf(), source })?;
    let mut written = vec![copy(own, &directory.join(RUNNER_NAME))?];
    let loadgen = own.with_file_name(LOADGEN_NAME);
    if loadgen.is_file() {
        written.push(copy(&loadgen, &directory.join(LOADGEN_NAME))?);
    }
    Ok(written)
}

/// Copies under another name first: an init container that runs again must not
/// write into a program that is being executed.
fn copy(from: &Path, to: &Path) -> Result<PathBuf, InstallError> {
    let partial = to.with_extension("partial");
    let steps = || {
        fs::copy(from, &partial)?;
        fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
        fs::rename(&partial, to)
    };
    steps().map_err(|source| InstallError::Copy {
        from: from.to_path_buf(),
        to: to.to_path_buf(),
        source,
    })?;
    Ok(to.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_are_installed_executable_and_again() {
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = source.path().join("some-name");
        fs::write(&own, "runner").unwrap();
        fs::write(source.path().join(LOADGEN_NAME), "loadgen").unwrap();
        let into = target.path().join("bin");
        install_from(&own, &into).unwrap();
        assert_eq!(install_from(&own, &into).unwrap(), [into.join(RUNNER_NAME), into.join(LOADGEN_NAME)]);
        let mode = fs::metadata(into.join(RUNNER_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert_eq!(fs::read_to_string(into.join(LOADGEN_NAME)).unwrap(), "loadgen");
        assert_eq!(fs::read_dir(&into).unwrap().count(), 2);
    }

    #[test]
    fn the_load_generator_is_optional() {
        let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = source.path().join("runner");
        fs::write(&own, "runner").unwrap();
        assert_eq!(install_from(&own, target.path()).unwrap(), [target.path().join(RUNNER_NAME)]);
    }
}
