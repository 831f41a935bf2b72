//! The CPU times of a process's threads and of those of its children, from files that
//! stay open between readings: that costs an eighth of opening them each time. Touches /proc.

use dragstrip_results::usage::ThreadUsage;
use std::{collections::BTreeMap, fs, fs::File, os::unix::fs::FileExt as _, sync::Arc};

/// A thread, and what it used since it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    pub id: i32,
    /// Whether it is the first one of its process.
    pub main: bool,
    pub name: Arc<str>,
    pub cpu_nanos: u64,
    /// Time in which it was ready to run and had no CPU, in nanoseconds.
    pub waiting_nanos: u64,
}

impl Times {
    /// What was used since an earlier reading; all of it without one.
    pub fn since(&self, before: Option<&Self>) -> ThreadUsage {
        let grown = |now: u64, then: Option<u64>| now.saturating_sub(then.unwrap_or_default()) as f64 / 1e9;
        ThreadUsage {
            name: self.name.to_string(),
            cpu_seconds: grown(self.cpu_nanos, before.map(|times| times.cpu_nanos)),
            waiting_seconds: grown(self.waiting_nanos, before.map(|times| times.waiting_nanos)),
        }
    }
}

/// The busiest of `threads` first, at most `most` of them. Pure.
pub fn busiest(mut threads: Vec<ThreadUsage>, most: usize) -> Vec<ThreadUsage> {
    threads.sort_by(|one, other| other.cpu_seconds.total_cmp(&one.cpu_seconds));
    threads.truncate(most);
    threads
}

struct Opened {
    main: bool,
    name: Arc<str>,
    /// Whether its name was read a second time: a thread names itself just after its start.
    named: bool,
    statistics: File,
}

/// The threads of a process and of those that it started.
pub struct Threads {
    pub process: i32,
    /// Most files that are open.
    most: usize,
    opened: BTreeMap<i32, Opened>,
}

impl Threads {
    pub fn of(process: i32, most: usize) -> Self {
        Self { process, most, opened: BTreeMap::new() }
    }

    /// Reads all of them; none when they are gone, or the kernel has no such statistics.
    pub fn read(&mut self) -> Vec<Times> {
        self.open_new();
        let mut read = Vec::with_capacity(self.opened.len());
        self.opened.retain(|id, thread| {
            let Some((cpu_nanos, waiting_nanos)) = statistics(&thread.statistics) else { return false };
            let Opened { main, ref name, .. } = *thread;
            read.push(Times { id: *id, main, name: Arc::clone(name), cpu_nanos, waiting_nanos });
            true
        });
        read
    }

    fn open_new(&mut self) {
        let mut processes = vec![self.process];
        while let Some(process) = processes.pop() {
            for id in tasks(process) {
                self.open(process, id);
            }
            // A script starts the tool from its only thread.
            let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
            processes.extend(children.unwrap_or_default().split_whitespace().flat_map(str::parse::<i32>));
        }
    }

    fn open(&mut self, process: i32, id: i32) {
        let name = || fs::read_to_string(format!("/proc/{process}/task/{id}/comm")).ok();
        if let Some(opened) = self.opened.get_mut(&id) {
            if !opened.named {
                opened.named = true;
                opened.name = name().map_or_else(|| Arc::clone(&opened.name), |name| name.trim_end().into());
            }
            return;
        }
        let path = format!("/proc/{process}/task/{id}/schedstat");
        if self.opened.len() < self.most
            && let (Ok(statistics), Some(name)) = (File::open(path), name())
        {
            let opened =
                Opened { main: id == process, name: name.trim_end().into(), named: false, statistics };
            self.opened.insert(id, opened);
        }
    }
}

fn tasks(process: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// CPU time and run delay in nanoseconds; `None` when the thread has ended.
fn statistics(file: &File) -> Option<(u64, u64)> {
    // Three numbers of at most 20 digits.
    let mut buffer = [0; 64];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let mut numbers = std::str::from_utf8(buffer.get(..length)?).ok()?.split_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::mpsc,
        thread,
        time::{Duration, Instant},
    };

    fn own() -> Threads {
        Threads::of(i32::try_from(std::process::id()).unwrap(), 512)
    }

    fn named<'a>(read: &'a [Times], name: &str) -> Option<&'a Times> {
        read.iter().find(|times| &*times.name == name)
    }

    #[test]
    fn threads_are_read_by_name_and_with_their_usage_until_they_end() {
        let (end, ended) = mpsc::channel::<()>();
        let (worked, has_worked) = mpsc::channel();
        let worker = thread::Builder::new().name("a-busy-one".to_owned()).spawn(move || {
            let deadline = Instant::now() + Duration::from_millis(30);
            while Instant::now() < deadline {}
            worked.send(()).unwrap();
            let _ = ended.recv();
        });
        has_worked.recv().unwrap();
        let mut threads = own();
        let first = threads.read();
        assert!(first.iter().any(|times| times.main), "the main thread is one of them: {first:?}");
        let busy = named(&first, "a-busy-one").unwrap();
        assert!(busy.cpu_nanos > 1_000_000 && !busy.main, "{busy:?}");
        assert!(busy.since(Some(busy)).cpu_seconds < 1e-9 && busy.since(None).cpu_seconds > 0.001);
        end.send(()).unwrap();
        worker.unwrap().join().unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        while named(&threads.read(), "a-busy-one").is_some() {
            assert!(Instant::now() < deadline, "a thread that has ended is still reported");
        }
    }

    #[test]
    fn threads_of_children_count_and_an_ended_process_has_none() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let child_id = i32::try_from(child.id()).unwrap();
        // The child of this test's own thread is a child of no main thread: watched directly.
        let mut threads = Threads::of(child_id, 512);
        let deadline = Instant::now() + Duration::from_secs(5);
        while named(&threads.read(), "sleep").is_none() {
            // Its name may have been read twice before the kernel set that of the new program.
            threads = Threads::of(child_id, 512);
            assert!(Instant::now() < deadline, "a process that runs has no threads");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(threads.read().is_empty(), "a process that is gone has no threads");
    }

    #[test]
    fn no_more_than_so_many_files_are_open() {
        let mut threads = Threads::of(i32::try_from(std::process::id()).unwrap(), 1);
        assert_eq!(threads.read().len(), 1);
    }

    #[test]
    fn the_busiest_come_first() {
        let thread = |name: &str, cpu_seconds| ThreadUsage {
            name: name.to_owned(),
            cpu_seconds,
            ..ThreadUsage::default()
        };
        let first = busiest(vec![thread("idle", 0.0), thread("hot", 2.0), thread("warm", 1.0)], 2);
        assert_eq!(first, [thread("hot", 2.0), thread("warm", 1.0)]);
    }
}
