//! The machine: kernel, CPU model, online CPUs, and what its CPUs did. Touches /proc and /sys.

use dragstrip_crds::observed::HostTruth;
use dragstrip_results::usage::HostUsage;
use procfs::{CurrentSI as _, KernelStats};
use std::{fs, sync::LazyLock, time::Duration};

/// Reads what the kernel says of the machine; what is missing reads as empty or 0.
pub fn read() -> HostTruth {
    let file = |path| fs::read_to_string(path).unwrap_or_default();
    let cpu_information = file("/proc/cpuinfo");
    let online = count_listed(file("/sys/devices/system/cpu/online").trim());
    HostTruth {
        kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
        cpu_model: cpu_model(&cpu_information),
        cpus: online.unwrap_or_else(|| count_processors(&cpu_information)),
    }
}

/// What all CPUs did since the machine started; `None` where the kernel does not tell.
pub fn usage() -> Option<HostUsage> {
    let statistics = KernelStats::current().ok()?;
    let total = &statistics.total;
    // Time of a guest is in the time of the process that runs it already.
    let busy = total.user_duration() + total.nice_duration() + total.system_duration();
    let seconds = |times: &[Option<Duration>]| times.iter().flatten().map(Duration::as_secs_f64).sum();
    Some(HostUsage {
        cpus: u32::try_from(statistics.cpu_time.len()).unwrap_or(u32::MAX),
        cpu_model: model(),
        busy_seconds: busy.as_secs_f64(),
        interrupt_seconds: seconds(&[total.irq_duration(), total.softirq_duration()]),
        steal_seconds: seconds(&[total.steal_duration()]),
    })
}

/// The CPUs' model, which is read once: it is asked for many times a second.
fn model() -> Option<String> {
    static MODEL: LazyLock<String> =
        LazyLock::new(|| cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()));
    Some(MODEL.clone()).filter(|model| !model.is_empty())
}

/// x86 names its model; Arm only has numbers, of which the part says most.
fn cpu_model(information: &str) -> String {
    let field = |wanted: &str| {
        information.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == wanted).then(|| value.trim().to_owned())
        })
    };
    field("model name")
        .or_else(|| {
            Some(format!("Arm implementer {} part {}", field("CPU implementer")?, field("CPU part")?))
        })
        .unwrap_or_default()
}

fn count_processors(information: &str) -> i32 {
    let count = information.lines().filter(|line| line.starts_with("processor")).count();
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// How many numbers a kernel list such as `0-3,8` holds.
fn count_listed(ranges: &str) -> Option<i32> {
    ranges
        .split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
            Some(last - first + 1)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted() {
        assert_eq!(count_listed("0-3,8"), Some(5));
        assert_eq!(count_listed("0"), Some(1));
        assert_eq!(count_listed(""), None);
    }

    #[test]
    fn models_of_both_architectures_are_named() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Xeon X\n"), "Xeon X");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(cpu_model(arm), "Arm implementer 0x41 part 0xd40");
        assert_eq!(count_processors(arm), 1);
    }

    #[test]
    fn this_machines_cpus_are_told_with_what_they_did() {
        let usage = usage().unwrap();
        assert_eq!(i64::from(usage.cpus), i64::from(read().cpus));
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
