package probe

import (
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// The driver's messages about a GPU that it cannot reach any more. Xid 79 is that event; the second message
// comes from the same code. The third comes from the probe of a GPU, in three lines. The last one says that
// the driver is to give up a GPU that is in use, and waits.
var (
	xid79     = lazyregexp.New(`^NVRM: Xid \((?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?\): 79,`)
	offTheBus = lazyregexp.New(`^NVRM: GPU (?:at )?(?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?: GPU has fallen off the bus`)
	installed = lazyregexp.New(`^NVRM: The NVIDIA GPU ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?`)
	removal   = lazyregexp.New(`^NVRM: Attempting to remove device ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])? with non-zero usage count`)
)

// fallenOff returns, by PCI address, the lines of the kernel's log that say that a GPU fell off the bus.
func fallenOff(log []string) map[string]string {
	fallen := map[string]string{}
	note := func(found []string, line string) {
		if found != nil && fallen[found[1]+".0"] == "" {
			fallen[found[1]+".0"] = line
		}
	}
	const apart = 2 // lines from the address to the words
	for i, line := range log {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "NVRM: "):
		case strings.HasPrefix(line, "NVRM: fallen off the bus"):
			for _, earlier := range log[max(0, i-apart):i] {
				note(installed().FindStringSubmatch(strings.TrimSpace(earlier)), line)
			}
		default:
			note(xid79().FindStringSubmatch(line), line)
			note(offTheBus().FindStringSubmatch(line), line)
		}
	}
	return fallen
}

// Unbinding returns the addresses of GPUs that another program unbinds although they are in use, according to
// the kernel's log. The unbinding hangs in the kernel until nobody uses the GPU.
func Unbinding(log []string) (addresses []string) {
	for _, line := range log {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "NVRM: Attempting to remove") {
			continue
		}
		found := removal().FindStringSubmatch(line)
		if found != nil && !slices.Contains(addresses, found[1]+".0") {
			addresses = append(addresses, found[1]+".0")
		}
	}
	return addresses
}
