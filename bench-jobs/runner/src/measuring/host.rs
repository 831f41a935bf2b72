//! The machine: kernel, CPU model, online CPUs, and what its CPUs did. Touches /proc.

use super::settings::SETTINGS;
use dragstrip_crds::observed::HostTruth;
use dragstrip_results::{
    ranges,
    usage::{AllowedCpus, HostUsage, InterruptedCpu},
};
use procfs::{CpuInfo, Current as _};
use std::{collections::BTreeSet, fs, sync::LazyLock};

/// Read once: every sample has it.
static MODEL: LazyLock<String> =
    LazyLock::new(|| CpuInfo::current().map(|information| cpu_model(&information)).unwrap_or_default());

/// Reads what the kernel reports of the machine; what is missing reads as empty or 0.
pub fn read() -> HostTruth {
    let online = times().map(|times| times.cpus.len()).unwrap_or_default();
    HostTruth {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        cpu_model: MODEL.clone(),
        cpus: i32::try_from(online).unwrap_or(i32::MAX),
    }
}

/// What CPUs did since the machine started, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuTimes {
    /// For processes, in the kernel and out of it.
    pub busy: f64,
    pub interrupt: f64,
    pub steal: f64,
}

impl CpuTimes {
    /// The times in a row of `/proc/stat` without its name, in ticks of which a second has this many. A
    /// guest's time is already in that of the process that runs it.
    fn of_row(row: &str, ticks: f64) -> Option<Self> {
        let fields: Vec<f64> = row.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, interrupt, soft_interrupt, steal, ..] = fields[..] else {
            return None;
        };
        Some(Self {
            busy: (user + nice + system) / ticks,
            interrupt: (interrupt + soft_interrupt) / ticks,
            steal: steal / ticks,
        })
    }

    /// What was used since an earlier reading. Some kernels let a CPU's times step back a little.
    fn since(self, before: Self) -> Self {
        Self {
            busy: (self.busy - before.busy).max(0.0),
            interrupt: (self.interrupt - before.interrupt).max(0.0),
            steal: (self.steal - before.steal).max(0.0),
        }
    }
}

/// What all CPUs did since the machine started.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    pub all: CpuTimes,
    /// Each online CPU by its number, ascending.
    pub cpus: Vec<(u32, CpuTimes)>,
}

/// What CPUs did since the machine started; `None` where the kernel does not report it.
pub fn times() -> Option<Times> {
    parse(&fs::read_to_string("/proc/stat").ok()?, procfs::ticks_per_second() as f64)
}

/// The lowest and the highest clock rate of `/proc/cpuinfo`, in MHz. Reading it interrupts every CPU under
/// some kernels: once before a load and once after it.
pub fn megahertz() -> Option<[f64; 2]> {
    range(&fs::read_to_string("/proc/cpuinfo").ok()?)
}

fn range(cpu_information: &str) -> Option<[f64; 2]> {
    let rate = |line: &str| line.strip_prefix("cpu MHz")?.split_once(':')?.1.trim().parse().ok();
    cpu_information.lines().filter_map(rate).map(|rate: f64| [rate, rate]).reduce(wider)
}

/// The range that contains both.
pub fn wider([low, high]: [f64; 2], other: [f64; 2]) -> [f64; 2] {
    [low.min(other[0]), high.max(other[1])]
}

fn parse(text: &str, ticks: f64) -> Option<Times> {
    let rows = || text.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
    let (_, all) = rows().find(|(number, _)| number.is_empty())?;
    let one = |(number, row): (&str, &str)| Some((number.parse().ok()?, CpuTimes::of_row(row, ticks)?));
    Some(Times { all: CpuTimes::of_row(all, ticks)?, cpus: rows().filter_map(one).collect() })
}

/// What was used between two readings by all CPUs, and by those of the list `allowed`. Pure but for
/// the machine's name of its CPUs.
pub fn usage_between(before: &Times, after: &Times, allowed: Option<&str>) -> HostUsage {
    let all = after.all.since(before.all);
    let cpus: Vec<(u32, CpuTimes)> = after
        .cpus
        .iter()
        .filter_map(|(cpu, times)| {
            let earlier = before.cpus.iter().find(|(other, _)| other == cpu)?;
            Some((*cpu, times.since(earlier.1)))
        })
        .collect();
    HostUsage {
        cpus: u32::try_from(after.cpus.len()).unwrap_or(u32::MAX),
        cpu_model: Some(MODEL.clone()).filter(|model| !model.is_empty()),
        busy_seconds: all.busy,
        interrupt_seconds: all.interrupt,
        steal_seconds: all.steal,
        megahertz: None,
        allowed: allowed.and_then(|list| allowed_of(&cpus, list)),
        most_interrupted: most_interrupted(&cpus),
        settings: SETTINGS.clone(),
    }
}

fn allowed_of(cpus: &[(u32, CpuTimes)], list: &str) -> Option<AllowedCpus> {
    let allowed: BTreeSet<u32> = ranges::numbers(list)?.collect();
    let mut sum = AllowedCpus { list: list.to_owned(), ..AllowedCpus::default() };
    for (_, times) in cpus.iter().filter(|(cpu, _)| allowed.contains(cpu)) {
        sum.cpus += 1;
        sum.busy_seconds += times.busy;
        sum.steal_seconds += times.steal;
    }
    Some(sum).filter(|sum| sum.cpus > 0)
}

fn most_interrupted(cpus: &[(u32, CpuTimes)]) -> Option<InterruptedCpu> {
    let (cpu, times) = cpus.iter().max_by(|one, other| one.1.interrupt.total_cmp(&other.1.interrupt))?;
    Some(InterruptedCpu { cpu: *cpu, interrupt_seconds: times.interrupt, busy_seconds: times.busy })
}

/// x86 names its model; Arm only has numbers, of which the part is the most specific.
fn cpu_model(information: &CpuInfo) -> String {
    let field = |name| information.get_field(0, name);
    let arm = || Some(format!("Arm implementer {} part {}", field("CPU implementer")?, field("CPU part")?));
    information.model_name(0).map(str::to_owned).or_else(arm).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead as _;

    /// A machine whose CPU 1 is offline: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
    const BEFORE: &str = "cpu  2090748 1226380 697498 1659708 26449 0 189522 7863 0 0
cpu0 1034749 615301 339265 855678 8518 0 91254 3988 0 0
cpu2 1055998 611079 358232 804029 17931 0 98268 3875 0 0
intr 107338715 0 0
ctxt 5
";
    const AFTER: &str = "cpu  2091748 1226380 697598 1660208 26449 10 189922 7963 500 0
cpu0 1035749 615301 339265 855678 8518 0 91254 3988 500 0
cpu2 1055998 611079 358332 804529 17931 10 98668 3975 0 0
intr 107338715 0 0
ctxt 5
";

    fn between(allowed: Option<&str>) -> HostUsage {
        usage_between(&parse(BEFORE, 100.0).unwrap(), &parse(AFTER, 100.0).unwrap(), allowed)
    }

    fn near(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-6, "{left} is not {right}");
    }

    #[test]
    fn the_use_of_all_cpus_and_of_the_allowed_ones_is_read_row_by_row() {
        let usage = between(Some("1-2"));
        assert_eq!(usage.cpus, 2, "one is offline");
        near(usage.busy_seconds, 11.0);
        near(usage.interrupt_seconds, 4.1);
        near(usage.steal_seconds, 1.0);
        let allowed = usage.allowed.unwrap();
        assert_eq!((allowed.list.as_str(), allowed.cpus), ("1-2", 1));
        near(allowed.busy_seconds, 1.0);
        near(allowed.steal_seconds, 1.0);
    }

    #[test]
    fn the_cpu_with_most_interrupts_is_known_whoever_may_use_it() {
        let most = between(Some("0")).most_interrupted.unwrap();
        assert_eq!(most.cpu, 2);
        near(most.interrupt_seconds, 4.1);
        near(most.busy_seconds, 1.0);
    }

    #[test]
    fn without_a_list_of_allowed_cpus_only_the_machine_is_known() {
        for list in [None, Some(""), Some("7"), Some("x")] {
            assert_eq!(between(list).allowed, None, "{list:?}");
        }
        assert_eq!(parse("intr 5\n", 100.0), None);
    }

    #[test]
    fn models_of_both_architectures_are_named() {
        let model = |text: &str| cpu_model(&CpuInfo::from_read(text.as_bytes()).unwrap());
        assert_eq!(model("processor\t: 0\nmodel name\t: Xeon X\n"), "Xeon X");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(model(arm), "Arm implementer 0x41 part 0xd40");
    }

    #[test]
    fn the_lowest_and_the_highest_clock_rate_are_read() {
        let text = "processor\t: 0\ncpu MHz\t\t: 2300.5\nprocessor\t: 1\ncpu MHz\t\t: 3100.0\n";
        assert_eq!(range(text), Some([2300.5, 3100.0]));
        assert_eq!(range("processor\t: 0\nBogoMIPS\t: 50.0\n"), None, "Arm does not report it here");
        assert_eq!([[2.0, 3.0], [1.0, 2.5]].into_iter().reduce(wider), Some([1.0, 3.0]));
    }

    #[test]
    fn the_usage_of_this_machine_is_plausible() {
        let usage = usage_between(
            &Times { cpus: times().unwrap().cpus, ..Times::default() },
            &times().unwrap(),
            None,
        );
        let online = std::thread::available_parallelism().unwrap().get();
        assert!(usage.cpus as usize >= online, "{usage:?} with {online} CPUs for this process");
        let up: f64 = fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap();
        let most = up * f64::from(usage.cpus);
        assert!(usage.busy_seconds > 0.0 && usage.busy_seconds < most, "{usage:?} of {most} s");
        assert!(usage.interrupt_seconds + usage.steal_seconds < most, "{usage:?}");
    }

    #[test]
    fn this_machine_has_a_kernel_and_cpus() {
        let host = read();
        assert!(!host.kernel.is_empty() && host.cpus > 0, "{host:?}");
    }
}
