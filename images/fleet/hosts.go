package fleet

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros/osrelease"
)

// hostWord begins the answers of a host without a cluster: a line with this word and what `uname
// -nrm` prints. The lines of /etc/os-release follow, those of `lspci -n -d 10de:`, and the line
// end, which shows that nothing was cut off:
//
//	host gpu-1 6.1.0-56-amd64 x86_64
//	ID=debian
//	VERSION_ID="12"
//	01:00.0 0302: 10de:1eb8 (rev a1)
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Thu Jun ...
//	end
//
// The line before the last, of /proc/driver/nvidia/version, may be missing.
const hostWord = "host "

// maxLine bounds a line of a host's answers.
const maxLine = 4096

// lspciShape is a line of lspci -n: address, class, vendor and device.
var lspciShape = regexp.MustCompile(
	`^([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ([0-9a-f]{4}): ([0-9a-f]{4}):([0-9a-f]{4})( .*)?$`,
)

// assignment is a line of os-release.
var assignment = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=`)

// readHosts reads the answers of hosts.
func readHosts(r io.Reader) ([]Node, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, maxLine), maxLine)
	h := &hosts{names: map[string]bool{}}
	for number := 1; lines.Scan(); number++ {
		if err := h.line(strings.TrimRight(lines.Text(), "\r ")); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, number, err)
		}
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("%w: a line has more than %d bytes", ErrFormat, maxLine)
	}
	for i := range h.done {
		n := &h.done[i]
		if n.Fault != "" {
			// as far as anyone can tell: what was cut off may have been a GPU
			n.GPUs.Presence = Present
			continue
		}
		slices.Sort(n.GPUs.Devices)
		n.complete()
	}
	return h.done, nil
}

// hosts is what is known while the answers are read.
type hosts struct {
	names map[string]bool
	done  []Node
	open  bool // the answers of the last host have not ended
	// variant is VARIANT_ID of the last host.
	variant string
}

func (h *hosts) line(text string) error {
	rest, isHost := strings.CutPrefix(text, hostWord)
	if text == "" || strings.HasPrefix(text, "#") {
		return nil
	}
	if isHost {
		return h.begin(rest)
	}
	if !h.open {
		return fmt.Errorf("%.80q follows no line host NAME RELEASE MACHINE", text)
	}
	n := &h.done[len(h.done)-1]
	key, value, _ := strings.Cut(text, "=")
	value = strings.Trim(value, `"'`)
	m := lspciShape.FindStringSubmatch(text)
	module := moduleLine.FindStringSubmatch(text)
	switch {
	case text == "end":
		n.ID = osrelease.Variant(n.ID, h.variant)
		n.Fault = ""
		h.open = false
	case key == "ID":
		n.ID = value
	case key == "VERSION_ID":
		n.VersionID = value
	case key == "PRETTY_NAME":
		n.OSImage = value
	case key == "VARIANT_ID":
		h.variant = value
	case module != nil:
		n.Loaded = Loaded{module[1], fromModule}
	case assignment.MatchString(text) || strings.HasPrefix(text, "GCC version:"):
	case m == nil:
		return fmt.Errorf("%.80q is no line of os-release, of lspci -n or of /proc/driver/nvidia/version", text)
	case m[3] == "10de" && m[2] == "0680":
		n.GPUs.Switches = true
	case m[3] == "10de" && (m[2] == "0300" || m[2] == "0302"): // VGA and 3D controllers
		device, err := strconv.ParseUint(m[4], 16, 16)
		n.GPUs.Presence = Present
		if !slices.Contains(n.GPUs.Devices, uint16(device)) {
			n.GPUs.Devices = append(n.GPUs.Devices, uint16(device))
		}
		return err // not reached: four hexadecimal digits
	}
	return nil
}

// begin is for the line host NAME RELEASE MACHINE.
func (h *hosts) begin(answer string) error {
	fields := strings.Fields(answer)
	switch {
	case len(fields) != 3:
		return fmt.Errorf("%.80q is not what uname -nrm prints: want NAME RELEASE MACHINE", answer)
	case !isWord(fields[0], 253):
		return fmt.Errorf("%.80q is no name of a host", fields[0])
	case h.names[fields[0]]:
		return fmt.Errorf("the host %s is there twice", fields[0])
	case len(h.names) == maxNodes:
		return fmt.Errorf("there are more than %d hosts", maxNodes)
	}
	h.names[fields[0]] = true
	h.open = true
	h.variant = ""
	h.done = append(h.done, Node{
		Name: fields[0], Kernel: fields[1], Arch: fields[2], GPUs: GPUs{Presence: Absent},
		Fault: "its answers were cut off: they do not end with the line end",
	})
	return nil
}
