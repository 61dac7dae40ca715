package distros

import "strings"

// Distroless is what an image without a base has of a system, besides what its programs need: the
// description of the system, the C library's own programs, the driver's libraries of other
// projects, and a shell. The GPU Operator's probes need the shell, and kubectl exec.
type Distroless struct {
	Packages []string
	// Assumed are packages that only scripts need: those that install packages, and those in
	// infiniband-diags. Nothing runs them, so the packages count as installed.
	Assumed []string
	Links   map[string]string // as of Distro.Links
}

// shellCommands are links to busybox, as far as no package has the command: those of the GPU
// Operator's probes and of nvidia-bug-report.sh, and those that one debugs with.
const shellCommands = "awk cat chmod cp cut date df dmesg echo env find grep gzip head hostname id kill less ln ls mkdir mount mv " +
	"ps pwd readlink rm sed sh sleep sort stat tail tar test top touch tr true umount uname uniq vi wc which"

// Distroless takes a static busybox as the shell: it needs no other package, and coreutils is three
// times as large. libstdc++, which every base has, is for NVIDIA's programs besides CUDA's.
func (d deb) Distroless(arch string) Distroless {
	links := map[string]string{}
	for command := range strings.FieldsSeq(shellCommands) {
		links["bin/"+command] = "busybox"
	}
	return forArch(arch, Distroless{
		Packages: append(d.Runtime(arch), "base-files", "busybox-static", "libc-bin", "libstdc++6"),
		Assumed:  []string{"awk", "debconf", "debconf-2.0", "dpkg", "perl"}, Links: links,
	})
}

// GuestPrograms returns the packages of what runs containers in a virtual machine without a system of
// its own: a shell with all usual programs, and a runtime. They are Debian's, because its packages
// of both need little else: nil for other systems, and for releases whose runtime is too old.
func GuestPrograms(d Distro) []string {
	own, ok := d.(deb)
	return given(ok && own.family == "debian" && !own.oldRuntime, "busybox-static", "runc")
}
