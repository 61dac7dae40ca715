package fleet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
)

// elsewhere are the reasons for which a machine is no loss: it has no GPU, or its driver comes another way.
var elsewhere = []string{NoGPU, GPUUnknown, HostDriver, OwnWay, Jetson, ForMachines}

// losses are the other reasons.
var losses = []string{BadReport, VGPUGuest, SystemUnknown, NoDriver, GPUUnsupported, GPUsDiffer, KernelDrivers, NotLabelled, Alike}

// UnservedError says that machines with a GPU get no driver.
type UnservedError struct {
	Nodes int
	Codes []string // of the reasons
}

func (e *UnservedError) Error() string {
	return fmt.Sprintf("nodes with a GPU that get no driver: %d: mend what is named above, or accept it with --allow-unserved %s",
		e.Nodes, strings.Join(e.Codes, ","))
}

// FailureKind says what the command makes of it.
func (*UnservedError) FailureKind() failure.Kind { return failure.Unserved }

// Unserved are the machines with a GPU that get nothing.
func (p *Plan) Unserved() []Without {
	return slices.DeleteFunc(slices.Clone(p.Without), func(w Without) bool { return slices.Contains(elsewhere, w.Code) })
}

// CheckReasons checks the names of reasons that are accepted.
func CheckReasons(accepted []string) error {
	for _, code := range accepted {
		if code != "all" && !slices.Contains(losses, code) {
			return matrix.RequestErrorf("%q is no reason that can be accepted: use %s or all", code, strings.Join(losses, ", "))
		}
	}
	return nil
}

// CheckServed returns an *UnservedError if a machine with a GPU gets nothing, for a reason that is not accepted.
// "all" accepts every reason.
func (p *Plan) CheckServed(accepted []string) error {
	e := &UnservedError{}
	for _, w := range p.Unserved() {
		if !slices.Contains(accepted, w.Code) && !slices.Contains(accepted, "all") {
			e.Nodes += len(w.Nodes)
			e.Codes = append(e.Codes, w.Code)
		}
	}
	if e.Nodes == 0 {
		return nil
	}
	e.Codes = slices.Compact(e.Codes)
	return e
}
