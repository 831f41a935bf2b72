//! Settings of the machine that change how fast it is, as the kernel shows them. Touches /sys and /proc.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// Read once: a change while a load runs is another machine's setting to the next run.
pub static SETTINGS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| below(Path::new("/")));

fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The files of a directory whose names begin with `prefix`.
fn named(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let matches = entries.filter(|entry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    });
    matches.map(|entry| entry.path()).collect()
}

/// The word in brackets of a list of choices, such as `always [madvise] never`.
fn chosen(choices: &str) -> Option<String> {
    Some(choices.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// The settings that a kernel shows below `root`; what it does not show is absent.
fn below(root: &Path) -> BTreeMap<String, String> {
    let cpus = root.join("sys/devices/system/cpu");
    let governors: BTreeSet<String> = named(&cpus.join("cpufreq"), "policy")
        .iter()
        .filter_map(|policy| text(policy.join("scaling_governor")))
        .collect();
    let turbo = text(cpus.join("intel_pstate/no_turbo")).map(|no_turbo| no_turbo == "0");
    let boost = || text(cpus.join("cpufreq/boost")).map(|boost| boost == "1");
    let smt = text(cpus.join("smt/active")).map(|active| active == "1");
    let nodes = named(&root.join("sys/devices/system/node"), "node").len();
    // A kernel without this option mitigates as with `auto`.
    let mitigations = text(root.join("proc/cmdline")).map(|line| {
        let option = line.split_whitespace().find_map(|word| word.strip_prefix("mitigations="));
        option.unwrap_or("auto").to_owned()
    });
    let huge_pages = text(root.join("sys/kernel/mm/transparent_hugepage/enabled"));
    let settings = [
        ("governor", Some(Vec::from_iter(governors).join(", ")).filter(|governors| !governors.is_empty())),
        ("turbo", turbo.or_else(boost).map(on_or_off)),
        ("simultaneousMultithreading", smt.map(on_or_off)),
        ("numaNodes", (nodes > 0).then(|| nodes.to_string())),
        ("transparentHugePages", huge_pages.and_then(|choices| chosen(&choices))),
        ("mitigations", mitigations),
        ("clocksource", text(root.join("sys/devices/system/clocksource/clocksource0/current_clocksource"))),
        ("interruptAffinity", text(root.join("proc/irq/default_smp_affinity"))),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_machine_are_read_and_absent_ones_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(below(root.path()), BTreeMap::new());
        for policy in [0, 1] {
            let governor = format!("sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor");
            write(&governor, "performance\n");
        }
        write("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
        write("sys/devices/system/cpu/smt/active", "1\n");
        write("sys/devices/system/node/node0/cpulist", "0-3\n");
        write("sys/devices/system/node/node1/cpulist", "4-7\n");
        write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        write("proc/cmdline", "quiet mitigations=off panic=1\n");
        let found = below(root.path());
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("governor", "performance"),
            ("mitigations", "off"),
            ("numaNodes", "2"),
            ("simultaneousMultithreading", "on"),
            ("transparentHugePages", "madvise"),
            ("turbo", "off"),
        ];
        assert_eq!(found, expected);
        write("proc/cmdline", "quiet\n");
        assert_eq!(below(root.path())["mitigations"], "auto");
    }
}
