// Package preflight looks at a node before anything on it is changed and says what would stop the driver there, each finding
// with what to do about it.
//
// It reads sysfs, procfs, the image and, where it can be seen, the host's root; it loads, unloads, mounts and writes nothing
// and starts no program. What a check cannot find out it says as a skipped check with the reason, never as a pass.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Status is the result of a check.
type Status string

// The results. Only Blocked stops a start.
const (
	OK      Status = "ok"
	Warning Status = "warning"  // it may work, and somebody should look at it
	Blocked Status = "blocking" // it cannot work, or would leave consumers with a driver they cannot use
	Skipped Status = "skipped"  // not needed here, or there is nothing to judge by
)

// Names of checks, in the order in which they run.
const (
	Kernel       = "kernel"
	System       = "system"
	Privileges   = "privileges"
	HostPID      = "host-pid"
	RunShared    = "run-shared"
	GPUPresent   = "gpu"
	GPUDriver    = "gpu-driver"
	GPUHealth    = "gpu-health"
	GPUSupported = "gpu-supported"
	GPUFlavour   = "gpu-flavour"
	Modules      = "modules"
	HostDriver   = "host-driver"
	Available    = "modules-found"
	Signing      = "module-signing"
	Dependencies = "kernel-modules"
	RDMADevices  = "rdma"
	KernelRule   = "kernel-limit"
	Headers      = "headers"
	Compiler     = "compiler"
	Memory       = "memory"
	Disk         = "disk"
)

// Check is one finding. Fix tells in the imperative what to do; it is there for every check that is not OK, and may be there
// for a skipped one.
type Check struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Finding string `json:"finding"`
	Fix     string `json:"fix,omitempty"`

	Signatures *Signatures `json:"signatures,omitempty"` // of the check Signing
}

// result is what a check function says; its name is the table's.
type result struct {
	status       Status
	finding, fix string
	detail       *Signatures
}

func ok(format string, args ...any) result {
	return result{status: OK, finding: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) result {
	return result{status: Skipped, finding: fmt.Sprintf(format, args...)}
}

func warn(fix, format string, args ...any) result {
	return result{status: Warning, finding: fmt.Sprintf(format, args...), fix: fix}
}

func block(fix, format string, args ...any) result {
	return result{status: Blocked, finding: fmt.Sprintf(format, args...), fix: fix}
}

// step is a row of the table of checks.
type step struct {
	name string
	look func(context.Context, *Input) result
}

// quick is for checks that are over at once.
func quick(look func(*Input) result) func(context.Context, *Input) result {
	return func(_ context.Context, in *Input) result { return look(in) }
}

func steps() []step {
	return []step{
		{Kernel, quick(checkKernel)},
		{System, quick(checkSystem)},
		{Privileges, quick(checkPrivileges)},
		{HostPID, quick(checkHostPID)},
		{RunShared, quick(checkRunShared)},
		{GPUPresent, quick(checkPresent)},
		{GPUDriver, quick(checkBound)},
		{GPUHealth, quick(checkHealth)},
		{GPUSupported, quick(checkSupported)},
		{GPUFlavour, quick(checkFlavour)},
		{Modules, quick(checkModules)},
		{HostDriver, quick(checkHostDriver)},
		{Available, quick(checkAvailable)},
		{Signing, checkSigning},
		{Dependencies, quick(checkDependencies)},
		{RDMADevices, quick(checkRDMA)},
		{KernelRule, quick(checkKernelRule)},
		{Headers, quick(checkHeaders)},
		{Compiler, quick(checkCompiler)},
		{Memory, quick(checkMemory)},
		{Disk, quick(checkDisk)},
	}
}

// Run asks every check, whatever the others say, and returns all findings in the order of steps. Of a cancelled context it
// returns what there is.
func Run(ctx context.Context, in Input) []Check {
	in.defaults()
	var checks []Check
	for _, s := range steps() {
		if ctx.Err() != nil {
			break
		}
		r := s.look(ctx, &in)
		checks = append(checks, Check{Name: s.name, Status: r.status, Finding: r.finding, Fix: r.fix, Signatures: r.detail})
	}
	return checks
}

// BlockedError holds the checks that stop a start.
type BlockedError struct{ Checks []Check }

// Error is one line for each check: what was found and what to do.
func (e *BlockedError) Error() string {
	lines := make([]string, len(e.Checks))
	for i, c := range e.Checks {
		lines[i] = fmt.Sprintf("%s: %s. %s", c.Name, oneLine(c.Finding), oneLine(c.Fix))
	}
	return "this node cannot run the driver as it is:\n" + strings.Join(lines, "\n")
}

// Has says whether a check of that name is among those that block. A blocked Signing is a matter of the module, not of the
// node, and has an exit code of its own.
func (e *BlockedError) Has(name string) bool {
	return slices.ContainsFunc(e.Checks, func(c Check) bool { return c.Name == name })
}

// Blocking returns a *BlockedError of the checks that block, nil when none does.
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
