package gpus

import (
	"regexp"
	"strings"
)

// The driver's messages about a GPU that it cannot reach any more. Xid 79 is that event; the second message
// comes from the same code. The third comes from the probe of a GPU, in three lines.
var (
	xid79     = regexp.MustCompile(`^NVRM: Xid \((?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?\): 79,`)
	offTheBus = regexp.MustCompile(`^NVRM: GPU (?:at )?(?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?: GPU has fallen off the bus`)
	installed = regexp.MustCompile(`^NVRM: The NVIDIA GPU ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?`)
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
		note(xid79.FindStringSubmatch(line), line)
		note(offTheBus.FindStringSubmatch(line), line)
		if strings.HasPrefix(line, "NVRM: fallen off the bus") {
			for _, earlier := range log[max(0, i-apart):i] {
				note(installed.FindStringSubmatch(strings.TrimSpace(earlier)), line)
			}
		}
	}
	return fallen
}
