//! `install`: copies this program, and the load generator if it lies beside
//! it, into a volume from which the tool's own image then starts it. Touches
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
/// The file name of the generator that loads through client libraries. Its phases run in our
/// own image, so it is never copied.
pub const CLIENTS_NAME: &str = "dragstrip-clients";

/// The file that could not be found, made or copied.
#[derive(Debug, thiserror::Error)]
#[error("cannot install {path}")]
pub struct InstallError {
    path: PathBuf,
    source: io::Error,
}

/// Installs into `directory`; returns the files written.
pub fn install(directory: &Path) -> Result<Vec<PathBuf>, InstallError> {
    let own = std::env::current_exe().map_err(|source| InstallError { path: RUNNER_NAME.into(), source })?;
    install_from(&own, directory)
}

fn install_from(own: &Path, directory: &Path) -> Result<Vec<PathBuf>, InstallError> {
    let failed = |path: &Path, source| InstallError { path: path.to_path_buf(), source };
    fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    let mut written = Vec::new();
    for (from, name) in [(own.to_path_buf(), RUNNER_NAME), (own.with_file_name(LOADGEN_NAME), LOADGEN_NAME)] {
        // The load generator need not be there.
        if from.is_file() || name == RUNNER_NAME {
            let to = directory.join(name);
            copy(&from, &to).map_err(|source| failed(&to, source))?;
            written.push(to);
        }
    }
    Ok(written)
}

/// Copies under another name first: an init container that runs again must not
/// write into a program that is being executed.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let partial = to.with_extension("partial");
    fs::copy(from, &partial)?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    fs::rename(&partial, to)
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
