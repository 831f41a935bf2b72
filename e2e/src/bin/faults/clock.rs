//! Steps the wall clock of single processes, as if their node's clock had been set: the machine's own clock is
//! everybody's. Programs read the time from a page of code that the kernel maps into each of them (the vDSO);
//! here its `clock_gettime` gets a jump to a few instructions that add the step to CLOCK_REALTIME. For x86-64.

use anyhow::{Context, Result, ensure};
use dragstrip_e2e::processes::{Signal, signal};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    os::unix::fs::FileExt,
    time::Duration,
};

/// Between two looks for new processes: a tool that its runner starts has a stepped clock too.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The instructions: `clock_gettime` by system call, and the step if the clock is CLOCK_REALTIME.
fn instructions(step_seconds: f64) -> Vec<u8> {
    let seconds = step_seconds.floor();
    // From 0 to 10^9, and steps are of minutes at most.
    #[allow(clippy::cast_possible_truncation)]
    let (whole, nanos) = (seconds as i32, ((step_seconds - seconds) * 1e9) as i32);
    let second = 1_000_000_000_i32.to_le_bytes();
    let mut code = vec![0xb8, 0xe4, 0, 0, 0]; // mov eax, 228 (clock_gettime)
    code.extend([0x0f, 0x05]); // syscall
    code.extend([0x85, 0xc0, 0x75, 40]); // test eax, eax; jne to ret
    code.extend([0x85, 0xff, 0x75, 36]); // test edi, edi; jne to ret
    code.extend([0x48, 0x81, 0x06]); // add qword [rsi], whole
    code.extend(whole.to_le_bytes());
    code.extend([0x48, 0x81, 0x46, 0x08]); // add qword [rsi+8], nanos
    code.extend(nanos.to_le_bytes());
    code.extend([0x48, 0x81, 0x7e, 0x08]); // cmp qword [rsi+8], 10^9
    code.extend(second);
    code.extend([0x7c, 11, 0x48, 0x81, 0x6e, 0x08]); // jl to ret; sub qword [rsi+8], 10^9
    code.extend(second);
    code.extend([0x48, 0xff, 0x06, 0xc3]); // inc qword [rsi]; ret
    code
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<usize> {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(bytes.get(at..at + N).context("the vDSO is cut short")?);
    Ok(usize::try_from(u64::from_le_bytes(wide))?)
}

/// Offset of `clock_gettime` in the vDSO's image, from its table of dynamic symbols (ELF, 64 bits).
fn entry(image: &[u8]) -> Result<usize> {
    let (table, size, count) = (number::<8>(image, 40)?, number::<2>(image, 58)?, number::<2>(image, 60)?);
    for section in (0..count).map(|index| table + index * size) {
        // SHT_DYNSYM; its names are in the section that sh_link names.
        if number::<4>(image, section + 4)? != 11 {
            continue;
        }
        let (symbols, bytes) = (number::<8>(image, section + 24)?, number::<8>(image, section + 32)?);
        let names = number::<8>(image, table + number::<4>(image, section + 40)? * size + 24)?;
        for symbol in (symbols..symbols + bytes).step_by(24) {
            let name = image.get(names + number::<4>(image, symbol)?..).unwrap_or_default();
            if name.starts_with(b"__vdso_clock_gettime\0") {
                return number::<8>(image, symbol + 8);
            }
        }
    }
    anyhow::bail!("the vDSO has no clock_gettime")
}

/// A process whose clock is stepped.
struct Stepped {
    memory: File,
    entry: u64,
    /// What was at the entry.
    own: Vec<u8>,
}

impl Stepped {
    fn new(pid: u32, code: &[u8]) -> Result<Self> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let range = maps.lines().find(|line| line.ends_with("[vdso]")).context("no vDSO")?;
        let (from, to) = range.split(' ').next().and_then(|it| it.split_once('-')).context("no range")?;
        let (from, to) = (u64::from_str_radix(from, 16)?, u64::from_str_radix(to, 16)?);
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        let mut image = vec![0; usize::try_from(to - from)?];
        memory.read_exact_at(&mut image, from)?;
        let (entry, place) = (entry(&image)?, image.len() - code.len());
        // An earlier step left its instructions: a thread may have been among them when it ended.
        let free = image[place..].iter().all(|byte| *byte == 0) || image[place..].starts_with(&code[..7]);
        ensure!(free, "the vDSO's last page is full");
        let jump = i32::try_from(place)? - i32::try_from(entry)? - 5;
        let stepped = Self { memory, entry: from + entry as u64, own: image[entry..entry + 5].to_vec() };
        stepped.memory.write_all_at(code, from + place as u64)?;
        stepped.memory.write_all_at(&[&[0xe9], jump.to_le_bytes().as_slice()].concat(), stepped.entry)?;
        Ok(stepped)
    }

    fn step_back(&self) -> Result<()> {
        Ok(self.memory.write_all_at(&self.own, self.entry)?)
    }
}

/// Changes a process while it does not run. A process may end meanwhile.
fn paused<T>(pid: u32, change: impl FnOnce() -> Result<T>) -> Result<T> {
    signal(pid, Signal::STOP)?;
    let changed = change();
    signal(pid, Signal::CONT)?;
    changed
}

/// Steps the clocks of the processes that `pids` lists, new ones included, for as long as `lasts`; how many.
pub async fn stepped(pids: impl Fn() -> Vec<u32>, step_seconds: f64, lasts: Duration) -> Result<usize> {
    ensure!(cfg!(target_arch = "x86_64"), "clocks are stepped on x86-64 only");
    let code = instructions(step_seconds);
    let mut all: BTreeMap<u32, Stepped> = BTreeMap::new();
    let mut failed = None;
    let until = tokio::time::Instant::now() + lasts;
    while tokio::time::Instant::now() < until {
        for pid in pids() {
            if let Entry::Vacant(new) = all.entry(pid) {
                match paused(pid, || Stepped::new(pid, &code)) {
                    Ok(stepped) => _ = new.insert(stepped),
                    Err(error) => failed = Some(error),
                }
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    for (pid, stepped) in &all {
        // A process that has ended needs its clock no more.
        _ = paused(*pid, || stepped.step_back());
    }
    match failed {
        Some(error) if all.is_empty() => Err(error),
        _ => Ok(all.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        process::{Command, Stdio},
        time::SystemTime,
    };

    /// The process whose clock is stepped.
    #[test]
    #[ignore = "a part of the other test, which starts it"]
    fn prints_the_time() {
        for _ in 0..30 {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            println!("{}", now.as_millis());
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    #[tokio::test]
    async fn a_process_reads_the_stepped_time_and_its_own_afterwards() -> Result<()> {
        let this = ["--exact", "clock::tests::prints_the_time", "--ignored", "--nocapture"];
        let child = Command::new(std::env::current_exe()?).args(this).stdout(Stdio::piped()).spawn()?;
        let pid = child.id();
        tokio::time::sleep(Duration::from_millis(200)).await;
        stepped(|| vec![pid], -5000.25, Duration::from_millis(200)).await?;
        tokio::time::sleep(Duration::from_millis(120)).await;
        stepped(|| vec![pid], 7.5, Duration::from_millis(200)).await?;
        let text = String::from_utf8(child.wait_with_output()?.stdout)?;
        let times: Vec<i64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let steps = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| step.abs() > 1000);
        let steps: Vec<i64> = steps.collect();
        let wanted = [-5_000_250, 5_000_250, 7_500, -7_500];
        ensure!(
            steps.len() == 4 && steps.iter().zip(wanted).all(|(step, wanted)| (step - wanted).abs() < 300),
            "the steps are {steps:?}, not {wanted:?}"
        );
        Ok(())
    }
}
