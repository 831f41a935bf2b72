//! The machine: kernel, CPU model, online CPUs. Touches /proc and /sys.

use dragstrip_crds::observed::HostTruth;
use std::fs;

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
    fn this_machine_has_a_kernel_and_cpus() {
        let host = read();
        assert!(!host.kernel.is_empty() && host.cpus > 0, "{host:?}");
    }
}
