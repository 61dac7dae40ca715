package rehearse

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

var (
	// KernelBug matches lines of the kernel's log about a fault of the kernel or of a module.
	KernelBug = lazyregexp.New(`WARNING:|\bOops\b|BUG:|BUG\b.*at |general protection|Kernel panic` +
		`|blocked for more than|refcount_t|UBSAN|KASAN`)
	// moduleFault matches lines about a module that does not fit, or that reports a fault.
	moduleFault = lazyregexp.New(`Unknown symbol|disagrees about version of symbol` +
		`|version magic|Invalid module format|NVRM:.*(?i:error|fail|xid|invalid|mismatch)`)
	// diskFault matches lines about the guest's disk, a file on this machine.
	diskFault   = lazyregexp.New(`I/O error, dev vd[a-z]+, .*`)
	kernelCrash = lazyregexp.New(`Kernel panic|\bOops\b|BUG: unable`)
	// fakeGPU matches what NVIDIA's module says of the GPU, which never initialises.
	fakeGPU = lazyregexp.New(`NVRM: GPU [0-9a-f:.]+: `)
)

// faults returns the lines of a kernel's log that show a fault.
func faults(lines []string) []string {
	var found []string
	for _, line := range lines {
		isFault := KernelBug().MatchString(line) || moduleFault().MatchString(line)
		if isFault && !fakeGPU().MatchString(line) {
			found = append(found, line)
		}
	}
	return found
}

// taints are the letters of /proc/sys/kernel/tainted by their bits, as
// Documentation/admin-guide/tainted-kernels.rst has them.
const taints = "PFSRMBUDAWCIOELKXTN"

// expectedTaints are those that each load of the driver causes: a proprietary module (P) from
// outside of the kernel's tree (O), and one without a signature (E). To SUSE's kernels before 15 SP6
// NVIDIA's modules are supported externally (X).
const expectedTaints = "POEX"

// unsupported is the taint that SUSE's kernels have for a module that names no support, such as
// nvidia-peermem.
const unsupported = 1 << 31

// taintLetters returns the letters of a value, and those of them that are not expected.
func taintLetters(value uint64) (all, unexpected string) {
	for bit, letter := range taints {
		if value&(1<<bit) == 0 {
			continue
		}
		all += string(letter)
		if !strings.ContainsRune(expectedTaints, letter) {
			unexpected += string(letter)
		}
	}
	rest := value &^ unsupported >> len(taints)
	if rest != 0 {
		unexpected += fmt.Sprintf("%#x", rest<<len(taints))
	}
	return all, unexpected
}
