//! What a phase runs: one tool with its typed options, and what is done before it.

mod bullmq;
mod exec;
mod keys;
mod loadgen;
mod memtier;
mod tool;

pub use bullmq::{BullmqMode, BullmqSpec};
pub use exec::{
    CsvColumn, CsvMeaning, CsvParser, ExecFiles, ExecSpec, FileParser, GoBenchParser, HdrHistogramLogFile,
    HdrHistogramLogParser, JsonMeaning, JsonParser, JsonValue, Merge, ParserSpec, RedisBenchmarkParser,
    RegexLine, RegexParser, TimeUnit,
};
pub use keys::{KeyPattern, LoadSpec};
pub use loadgen::{
    ArrivalSchedule, BatchOperation, BatchSpec, Client, ConnectionKind, LibrarySpec, LoadgenOperation,
    LoadgenSpec, OnMiss, OpenLoopSpec, OperationName, Pacing,
};
pub use memtier::{MemtierCommand, MemtierProtocol, MemtierSpec, options as memtier_options};
pub use tool::ToolSpec;
