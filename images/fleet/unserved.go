package fleet

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
)

// elsewhere are the reasons for which a machine is no loss: it has no GPU, or its driver comes another way.
var elsewhere = []string{NoGPU, GPUUnknown, HostDriver, OwnWay, Jetson, ForMachines}

// losses are the other reasons.
var losses = []string{BadReport, VGPUGuest, SystemUnknown, NoDriver, GPUUnsupported, GPUsDiffer, KernelDrivers, NotLabelled, Alike}

// Unserved are the machines with a GPU that get nothing.
func (p *Plan) Unserved() []Without {
	return slices.DeleteFunc(slices.Clone(p.Without), func(w Without) bool { return slices.Contains(elsewhere, w.Code) })
}

// CheckReasons checks the names of reasons that are accepted.
func CheckReasons(accepted []string) error {
	for _, code := range accepted {
		if code != "all" && !slices.Contains(losses, code) {
			return failure.Errorf(failure.Usage, "%q is no reason that can be accepted: use %s or all", code, strings.Join(losses, ", "))
		}
	}
	return nil
}

// CheckServed returns an error if a machine with a GPU gets nothing, for a reason that is not accepted. "all"
// accepts every reason.
func (p *Plan) CheckServed(accepted []string) error {
	count, codes := 0, []string(nil)
	for _, w := range p.Unserved() {
		if !slices.Contains(accepted, w.Code) && !slices.Contains(accepted, "all") {
			count += len(w.Nodes)
			codes = append(codes, w.Code)
		}
	}
	if count == 0 {
		return nil
	}
	return failure.Errorf(failure.Unserved, "nodes with a GPU that get no driver: %d: mend what is named above, or accept it with "+
		"--allow-unserved %s", count, strings.Join(slices.Compact(codes), ","))
}
