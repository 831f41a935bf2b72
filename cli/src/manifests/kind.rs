//! The kinds of objects that manifests declare and commands name. Pure.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Suite,
    Run,
    Datastore,
}

impl Kind {
    /// The kind of runs or suites that people call `text`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_lowercase().as_str() {
            "run" | "runs" | "benchmarkrun" | "benchmarkruns" => Some(Self::Run),
            "suite" | "suites" | "benchmarksuite" | "benchmarksuites" => Some(Self::Suite),
            _ => None,
        }
    }

    pub fn singular(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Suite => "suite",
            Self::Datastore => "datastore",
        }
    }
}
