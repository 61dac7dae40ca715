package rehearse

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"syscall"

	"github.com/driver-container/driver-container/images/rehearse/guest"
)

// node is the machine on which a driver is rehearsed: a guest, in tests a stand-in. Nothing that it
// answers is trusted.
type node interface {
	StartContainer(ctx context.Context, c guest.Container) (process, error)
	Hold(ctx context.Context, device string) (process, error)
	Run(ctx context.Context, args ...string) (guest.Result, error)
	Write(ctx context.Context, path string, content []byte, mode fs.FileMode) error
	Dmesg(ctx context.Context) (string, error)
}

// process is a container or a process of a node.
type process interface {
	// WaitLine waits for a line that matches; it fails when the process ends without one.
	WaitLine(ctx context.Context, line *regexp.Regexp) (string, error)
	Wait(ctx context.Context) (code int, err error)
	Signal(ctx context.Context, s syscall.Signal) error
	Kill(ctx context.Context) error // and clean up
	Output() string
}

// machine is a guest as a node.
type machine struct{ *guest.Guest }

func (m machine) StartContainer(ctx context.Context, c guest.Container) (process, error) {
	return m.Guest.StartContainer(ctx, c)
}

func (m machine) Hold(ctx context.Context, device string) (process, error) {
	return m.Guest.Hold(ctx, device)
}

// statusFile is where driver-entrypoint keeps its status; docs/schema/status.schema.json.
const statusFile = "/run/nvidia/driver-status.json"

// driverStatus has the fields of the status file that a rehearsal judges.
type driverStatus struct {
	State    string        `json:"state"`
	Ready    bool          `json:"ready"`
	Reason   string        `json:"reason"`
	WaitsFor string        `json:"waitsFor"`
	Wanted   string        `json:"wanted"`
	Phases   []phaseTiming `json:"phases"`
	Up       *driverUp     `json:"up"`
	Holders  []struct {
		PID int `json:"pid"`
	} `json:"holders"`
}

type phaseTiming struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
}

type driverUp struct {
	Version string `json:"version"`
	Flavour string `json:"flavour"`
	Source  string `json:"source"`
	Modules []struct {
		Name string `json:"name"`
	} `json:"modules"`
	Nodes []struct {
		Path  string `json:"path"`
		Major uint32 `json:"major"`
		Minor uint32 `json:"minor"`
	} `json:"nodes"`
}

// status reads the status file; the zero status if there is none.
func (r *rehearsal) status(ctx context.Context) (st driverStatus, err error) {
	text, err := r.shell(ctx, "cat "+statusFile+" 2>/dev/null || true")
	if err != nil || text == "" {
		return st, err
	}
	r.lastStatus = text
	err = json.Unmarshal([]byte(text), &st)
	if err != nil {
		return st, fmt.Errorf("read %s of the guest: %w", statusFile, err)
	}
	return st, nil
}

// shell runs a script on the node, which must end with 0, and returns its output without the last
// line feed.
func (r *rehearsal) shell(ctx context.Context, script string) (string, error) {
	result, err := r.node.Run(ctx, "sh", "-c", script)
	if err != nil {
		return "", err
	}
	if result.Code != 0 {
		return "", fmt.Errorf("run %.80q in the guest: exit code %d: %s", script, result.Code, message(result.Output))
	}
	return strings.TrimSuffix(result.Output, "\n"), nil
}

// state is what a driver may change on a node.
type state struct{ modules, mounts, devices string }

func (r *rehearsal) look(ctx context.Context) (s state, err error) {
	for _, part := range []struct {
		into   *string
		script string
	}{
		{&s.modules, "cut -d' ' -f1 /proc/modules | sort"},
		{&s.mounts, "cut -d' ' -f5 /proc/1/mountinfo | grep ^/run/nvidia/ | sort || true"},
		{&s.devices, "ls -d /dev/nvidia* 2>/dev/null || true"},
	} {
		*part.into, err = r.shell(ctx, part.script)
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// differences names what one state has that the other one does not have.
func (s state) differences(other state) []string {
	var all []string
	for _, pair := range []struct{ what, have, had string }{
		{"modules", s.modules, other.modules},
		{"mounts", s.mounts, other.mounts},
		{"device files", s.devices, other.devices},
	} {
		more := missing(pair.have, pair.had)
		if len(more) > 0 {
			all = append(all, pair.what+" "+strings.Join(more, ", "))
		}
		less := missing(pair.had, pair.have)
		if len(less) > 0 {
			all = append(all, "without the "+pair.what+" "+strings.Join(less, ", "))
		}
	}
	return all
}

// missing returns the words of have that had does not have.
func missing(have, had string) []string {
	known := map[string]bool{}
	for word := range strings.FieldsSeq(had) {
		known[word] = true
	}
	var more []string
	for word := range strings.FieldsSeq(have) {
		if !known[word] {
			more = append(more, word)
		}
	}
	return more
}
