package nodes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// hostWord begins the answers of a host without a cluster: a line with this word and what `uname -nrm`
// prints. The lines of /etc/os-release follow, those of `lspci -n -d 10de:`, and the line end, which shows
// that nothing was cut off:
//
//	host gpu-1 6.1.0-56-amd64 x86_64
//	ID=debian
//	VERSION_ID="12"
//	01:00.0 0302: 10de:1eb8 (rev a1)
//	end
const hostWord = "host "

// maxLine bounds a line of a host's answers.
const maxLine = 4096

// lspciShape is a line of lspci -n: address, class, vendor and device.
var lspciShape = regexp.MustCompile(`^([0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] ([0-9a-f]{4}): ([0-9a-f]{4}):([0-9a-f]{4})( .*)?$`)

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
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%w: a line has more than %d bytes", ErrFormat, maxLine)
	case err != nil:
		return nil, fmt.Errorf("read the answers of hosts: %w", err)
	}
	h.close()
	return h.done, nil
}

// hosts is what is known while the answers are read.
type hosts struct {
	names map[string]bool
	done  []Node
	open  *Node // the host whose answers are read
}

func (h *hosts) line(text string) error {
	rest, isHost := strings.CutPrefix(text, hostWord)
	switch {
	case text == "" || strings.HasPrefix(text, "#"):
		return nil
	case isHost:
		return h.begin(rest)
	case h.open == nil:
		return fmt.Errorf("%.80q follows no line host NAME RELEASE MACHINE", text)
	case text == "end":
		h.open.Fault = ""
		h.close()
		return nil
	case assignment.MatchString(text):
		h.release(text)
		return nil
	}
	m := lspciShape.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("%.80q is no line of os-release or of lspci -n", text)
	}
	if m[3] != "10de" || !gpuClass(m[2]) {
		return nil
	}
	device, err := strconv.ParseUint(m[4], 16, 16)
	if err != nil {
		return err // not reached: four hexadecimal digits
	}
	if h.open.GPUs.Presence = Present; !slices.Contains(h.open.GPUs.Devices, uint16(device)) {
		h.open.GPUs.Devices = append(h.open.GPUs.Devices, uint16(device))
	}
	return nil
}

// begin is for the line host NAME RELEASE MACHINE.
func (h *hosts) begin(answer string) error {
	h.close()
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
	h.open = &Node{Name: fields[0], Kernel: fields[1], Arch: fields[2], GPUs: GPUs{Presence: Absent}, Fault: "its answers were cut off: they do not end with the line end"}
	return nil
}

// release reads a line of os-release.
func (h *hosts) release(text string) {
	key, value, _ := strings.Cut(text, "=")
	value = strings.Trim(value, `"'`)
	switch key {
	case "ID":
		h.open.ID = value
	case "VERSION_ID":
		h.open.VersionID = value
	case "PRETTY_NAME":
		h.open.OSImage = value
	}
}

// close ends the answers of a host.
func (h *hosts) close() {
	if h.open == nil {
		return
	}
	slices.Sort(h.open.GPUs.Devices)
	if h.open.Fault == "" {
		h.open.complete()
	}
	h.done = append(h.done, *h.open)
	h.open = nil
}
