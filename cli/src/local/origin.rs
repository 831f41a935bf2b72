//! What a run is measured with beside its own spec, so that what is measured later is not put
//! beside what was measured with something else. [`Origin::of`] touches files; the rest is pure.

use super::{keep, plan::Plan};
use dragstrip_crds::DatastoreSpec;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// A file as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    file: PathBuf,
    bytes: u64,
    modified: Timestamp,
}

impl Program {
    fn at(path: &Path) -> Result<Self, keep::Error> {
        let failed = |error| keep::Error::Read(error, path.to_owned());
        let file = fs::metadata(path).map_err(failed)?;
        let modified = file.modified().map_err(failed)?;
        let modified = Timestamp::try_from(modified).map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self { file: path.to_owned(), bytes: file.len(), modified })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, of {})", self.file.display(), self.bytes, self.modified)
    }
}

/// What a run is measured with.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The declaration of its server; none of an external target.
    datastore: Option<DatastoreSpec>,
    /// The programs of its server and its tools, by what they are for.
    programs: BTreeMap<String, Program>,
}

impl Origin {
    /// What the run of `plan` is measured with, if it is measured now.
    pub fn of(plan: &Plan) -> Result<Self, keep::Error> {
        let server = plan.server.iter().map(|server| ("the server", &server.file));
        let tools = plan.tools.iter().map(|(name, file)| (name.as_str(), file));
        let program = |(name, file): (&str, &PathBuf)| Ok((name.to_owned(), Program::at(file)?));
        Ok(Self {
            datastore: plan.server.as_ref().map(|server| server.datastore.spec.clone()),
            programs: server.chain(tools).map(program).collect::<Result<_, _>>()?,
        })
    }

    /// How `now` is something else; none where it is the same.
    pub fn difference(&self, now: &Self) -> Option<String> {
        let of = |origin: &Self| serde_json::to_value(&origin.datastore).unwrap_or_default();
        let mut told = fields(&of(self), &of(now));
        let programs =
            now.programs.iter().filter(|(name, program)| self.programs.get(*name) != Some(program));
        told.extend(programs.map(|(name, program)| {
            let was = self.programs.get(name).map_or_else(|| "unknown".to_owned(), ToString::to_string);
            format!("{name} is {program} and was {was}")
        }));
        (!told.is_empty()).then(|| told.join("; "))
    }
}

/// The fields of a Datastore's spec that differ, for people.
fn fields(was: &Value, now: &Value) -> Vec<String> {
    let names = |value: &Value| value.as_object().into_iter().flat_map(|all| all.keys().cloned()).collect();
    let mut all: Vec<String> = names(was);
    all.extend::<Vec<String>>(names(now));
    all.sort();
    all.dedup();
    let told = |value: &Value| if value.is_null() { "absent".to_owned() } else { value.to_string() };
    let field = |name: String| {
        let (was, now) = (&was[name.as_str()], &now[name.as_str()]);
        (was != now).then(|| format!("spec.{name} of its Datastore is {} and was {}", told(now), told(was)))
    };
    all.into_iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(threads: i32, server: &Path) -> Origin {
        let datastore = serde_json::json!({"engine": "Redis", "threads": threads});
        let programs = [("the server".to_owned(), Program::at(server).unwrap())].into();
        Origin { datastore: Some(serde_json::from_value(datastore).unwrap()), programs }
    }

    #[test]
    fn what_differs_is_named_with_what_it_was() {
        let server = tempfile::NamedTempFile::new().unwrap();
        let first = origin(1, server.path());
        let read: Origin = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
        assert_eq!(read.difference(&origin(1, server.path())), None, "nothing differs");
        let told = first.difference(&origin(4, server.path())).unwrap();
        assert_eq!(told, "spec.threads of its Datastore is 4 and was 1");
        fs::write(server.path(), "built anew").unwrap();
        let told = first.difference(&origin(1, server.path())).unwrap();
        assert!(
            told.contains("(10 bytes, of ") && told.contains("and was ") && told.contains("(0 bytes"),
            "{told}"
        );
    }
}
