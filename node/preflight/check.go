// Package preflight checks a node before anything on it is changed and reports what would prevent
// the driver from working there. Each finding says how to fix it.
//
// The package reads sysfs, procfs, the image and, where it is visible, the host's root. It loads,
// unloads, mounts and writes nothing and starts no program. A check that cannot find out its answer
// is reported as skipped with the reason, never as passed.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Status is the result of a check.
type Status string

// Results of a check. Only Blocked prevents a start.
const (
	OK      Status = "ok"
	Warning Status = "warning" // the driver may work, but a person should look at this
	// the driver cannot work, or would leave its users with a driver that they cannot use
	Blocked Status = "blocking"
	Skipped Status = "skipped" // not needed here, or the facts are unknown
)

// Names of checks that others ask for.
const (
	GPUPresent   = "gpu"
	GPUDriver    = "gpu-driver"
	GPUSupported = "gpu-supported"
	GPUFlavour   = "gpu-flavour"
	Available    = "modules-found"
	Signing      = "module-signing"
	Headers      = "headers"
	Compiler     = "compiler"
	Disk         = "disk"
)

// Check is one finding. Fix says in the imperative what to do; every check that is not OK has it,
// and a skipped one may have it.
type Check struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Finding string `json:"finding"`
	Fix     string `json:"fix,omitempty"`

	Signatures *Signatures `json:"signatures,omitempty"` // of the check Signing
}

func ok(format string, args ...any) Check {
	return Check{Status: OK, Finding: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) Check {
	return Check{Status: Skipped, Finding: fmt.Sprintf(format, args...)}
}

func warn(fix, format string, args ...any) Check {
	return Check{Status: Warning, Finding: fmt.Sprintf(format, args...), Fix: fix}
}

func block(fix, format string, args ...any) Check {
	return Check{Status: Blocked, Finding: fmt.Sprintf(format, args...), Fix: fix}
}

// step is a row of the table of checks.
type step struct {
	name string
	run  func(*Input) Check
}

func steps() []step {
	return []step{
		{"kernel", checkKernel},
		{"system", checkSystem},
		{"privileges", checkPrivileges},
		{"host-pid", checkHostPID},
		{"run-shared", checkRunShared},
		{GPUPresent, checkPresent},
		{GPUDriver, checkBound},
		{GPUSupported, checkSupported},
		{GPUFlavour, checkFlavour},
		{"modules", checkModules},
		{"host-driver", checkHostDriver},
		{Available, checkAvailable},
		{Signing, checkSigning},
		{"fabric", checkFabric},
		{"vgpu", checkVGPU},
		{"gpudirect", checkGPUDirect},
		{"advisories", checkAdvisories},
		{"kernel-limit", checkKernelRule},
		{Headers, checkHeaders},
		{Compiler, checkCompiler},
		{Disk, checkDisk},
	}
}

// Run runs every check, also after one that blocks, and returns the findings in the order of the
// checks. With a cancelled context it returns the findings so far.
func Run(ctx context.Context, in Input) []Check { return run(ctx, in, steps()) }

// RunGPUs runs only the checks whether the driver and its modules drive the GPUs.
func RunGPUs(ctx context.Context, in Input) []Check {
	others := func(s step) bool { return s.name != GPUSupported && s.name != GPUFlavour }
	return run(ctx, in, slices.DeleteFunc(steps(), others))
}

func run(ctx context.Context, in Input, steps []step) []Check {
	in.defaults()
	var checks []Check
	for _, s := range steps {
		if ctx.Err() != nil {
			break
		}
		c := s.run(&in)
		c.Name = s.name
		checks = append(checks, c)
	}
	return checks
}

// Names returns the names of all checks, in the order in which they run.
func Names() (names []string) {
	for _, s := range steps() {
		names = append(names, s.name)
	}
	return names
}

// Former returns the names of checks that earlier versions had: a configuration may still skip them.
func Former() []string {
	return []string{"gpu-health", "kernel-modules", "rdma", "memory", "driver-toolkit"}
}

// BlockedError holds the checks that prevent a start.
type BlockedError struct{ Checks []Check }

// Error returns one line for each check: the finding and the fix.
func (e *BlockedError) Error() string {
	lines := make([]string, len(e.Checks))
	for i, c := range e.Checks {
		lines[i] = fmt.Sprintf("%s: %s. %s", c.Name, oneLine(c.Finding), oneLine(c.Fix))
	}
	return "this node cannot run the driver as it is:\n" + strings.Join(lines, "\n")
}

// Has says whether the check of that name blocks. A blocked Signing concerns the module and not the
// node, and has an exit code of its own.
func (e *BlockedError) Has(name string) bool {
	return slices.ContainsFunc(e.Checks, func(c Check) bool { return c.Name == name })
}

// Blocking returns a *BlockedError with the checks that block, nil when there are none.
func Blocking(checks []Check) error {
	var e BlockedError
	for _, c := range checks {
		if c.Status == Blocked {
			e.Checks = append(e.Checks, c)
		}
	}
	if len(e.Checks) == 0 {
		return nil
	}
	return &e
}
