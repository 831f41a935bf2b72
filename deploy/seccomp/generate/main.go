// Prints ../dragstrip-io-uring.json: what containerd allows by default, and
// io_uring. One file serves amd64, where this is to be run, and arm64, whose own
// calls are added here: a machine ignores those that it does not have.
//
//	go run -C deploy/seccomp/generate . >deploy/seccomp/dragstrip-io-uring.json
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func allowed(names ...string) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: names, Action: specs.ActAllow}
}

func main() {
	// Servers have no capabilities, each of which would allow more.
	none := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	profile := seccomp.DefaultProfile(none)
	profile.Architectures = []specs.Arch{
		specs.ArchX86_64, specs.ArchX86, specs.ArchX32, specs.ArchAARCH64, specs.ArchARM,
	}
	profile.Syscalls = append(profile.Syscalls,
		allowed("arm_fadvise64_64", "arm_sync_file_range", "breakpoint", "cacheflush", "set_tls", "sync_file_range2"),
		allowed("io_uring_setup", "io_uring_enter", "io_uring_register"),
	)
	if err := json.NewEncoder(os.Stdout).Encode(profile); err != nil {
		log.Fatal(err)
	}
}
