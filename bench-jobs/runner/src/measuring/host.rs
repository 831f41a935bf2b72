//! The machine: kernel, CPU model, online CPUs, and what its CPUs did. Touches /proc.

use dragstrip_crds::observed::HostTruth;
use dragstrip_results::usage::HostUsage;
use procfs::{CpuInfo, Current as _, CurrentSI as _, KernelStats};
use std::{fs, sync::LazyLock, time::Duration};

/// Read once: every sample has it.
static MODEL: LazyLock<String> =
    LazyLock::new(|| CpuInfo::current().map(|information| cpu_model(&information)).unwrap_or_default());

/// Reads what the kernel reports of the machine; what is missing reads as empty or 0.
pub fn read() -> HostTruth {
    let online = KernelStats::current().map(|statistics| statistics.cpu_time.len()).unwrap_or_default();
    HostTruth {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        cpu_model: MODEL.clone(),
        cpus: i32::try_from(online).unwrap_or(i32::MAX),
    }
}

/// What all CPUs did since the machine started; `None` where the kernel does not report it.
pub fn usage() -> Option<HostUsage> {
    let statistics = KernelStats::current().ok()?;
    let total = &statistics.total;
    // A guest's time is already in the time of the process that runs it.
    let busy = total.user_duration() + total.nice_duration() + total.system_duration();
    let seconds = |times: &[Option<Duration>]| times.iter().flatten().map(Duration::as_secs_f64).sum();
    Some(HostUsage {
        cpus: u32::try_from(statistics.cpu_time.len()).unwrap_or(u32::MAX),
        cpu_model: Some(MODEL.clone()).filter(|model| !model.is_empty()),
        busy_seconds: busy.as_secs_f64(),
        interrupt_seconds: seconds(&[total.irq_duration(), total.softirq_duration()]),
        steal_seconds: seconds(&[total.steal_duration()]),
    })
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

    #[test]
    fn models_of_both_architectures_are_named() {
        let model = |text: &str| cpu_model(&CpuInfo::from_read(text.as_bytes()).unwrap());
        assert_eq!(model("processor\t: 0\nmodel name\t: Xeon X\n"), "Xeon X");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
        assert_eq!(model(arm), "Arm implementer 0x41 part 0xd40");
    }

    #[test]
    fn the_usage_of_this_machine_is_plausible() {
        let usage = usage().unwrap();
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
