package drivertoolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod/kmsg"
)

// schema is the version of request and answer. Both containers run the same program, unless the image of one
// was changed in a running pod.
const schema = 3

// Bounds of what one container reads of the other one.
const (
	maxRequest = 64 << 10
	maxAnswer  = 256 << 10
	maxNames   = 64   // of a list in them
	maxText    = 2048 // bytes of a text for people
)

// request is what the driver container wants.
type request struct {
	Schema     int      `json:"schema"`
	Run        string   `json:"run"`              // names this request: 16 hex digits
	Compile    bool     `json:"compile"`          // false: there is nothing to do
	Reason     string   `json:"reason,omitempty"` // why there is nothing to do
	Kernel     string   `json:"kernel,omitempty"`
	Driver     string   `json:"driver,omitempty"`
	Flavour    string   `json:"flavour,omitempty"`
	Modules    []string `json:"modules,omitempty"`
	Optional   []string `json:"optional,omitempty"`
	Companions []string `json:"companions,omitempty"`
	RDMA       []string `json:"rdma,omitempty"` // name of the node's RDMA driver (modules.OFED)
	MaxThreads int      `json:"maxThreads,omitempty"`
}

// States of an answer.
const (
	stateStarted  = "started"  // it compiles
	stateBuilt    = "built"    // Set is in the folder
	stateFailed   = "failed"   // there is no set, for a reason that is not the compile's output
	stateCompiler = "compiler" // the compile itself failed
)

// answer is what became of a request.
type answer struct {
	Schema  int      `json:"schema"`
	Run     string   `json:"run"` // of the request
	State   string   `json:"state"`
	Reason  string   `json:"reason,omitempty"`
	Set     string   `json:"set,omitempty"` // name of the folder below modules
	Failure *failure `json:"failure,omitempty"`
}

// failure is a kbuild.CompileError.
type failure struct {
	Jobs    int      `json:"jobs"`
	Killed  bool     `json:"killed,omitempty"`
	Full    bool     `json:"full,omitempty"` // the disk
	Message string   `json:"message"`
	Errors  []string `json:"errors,omitempty"`
	Tail    []string `json:"tail,omitempty"`
}

var (
	runName       = lazyregexp.New(`^[0-9a-f]{16}$`)
	driverVersion = lazyregexp.New(`^[0-9]{1,5}(\.[0-9]{1,5}){1,2}$`)
	setName       = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,254}$`)
)

// errSchema says that the other container runs another version of this program.
var errSchema = errors.New("it is of another version of this program")

func parseRequest(data []byte) (request, error) {
	var r request
	if err := decode(data, maxRequest, &r); err != nil {
		return request{}, err
	}
	lists := [][]string{r.Modules, r.Optional, r.Companions, r.RDMA}
	switch {
	case !runName().MatchString(r.Run):
		return request{}, fmt.Errorf("its run %.40q is no name", r.Run)
	case !r.Compile:
		r.Reason = plain(r.Reason)
		return r, nil
	case !driverVersion().MatchString(r.Driver):
		return request{}, fmt.Errorf("its driver %.40q is no version", r.Driver)
	case r.Flavour != driverinfo.Open && r.Flavour != driverinfo.Proprietary:
		return request{}, fmt.Errorf("its flavour %.40q is not known", r.Flavour)
	case r.MaxThreads < 0, slices.ContainsFunc(lists, func(l []string) bool { return len(l) > maxNames }):
		return request{}, errors.New("a number or a list of it is out of bounds")
	}
	return r, nil
}

func parseAnswer(data []byte) (answer, error) {
	var a answer
	if err := decode(data, maxAnswer, &a); err != nil {
		return answer{}, err
	}
	switch {
	case !runName().MatchString(a.Run):
		return answer{}, fmt.Errorf("its run %.40q is no name", a.Run)
	case !slices.Contains([]string{stateStarted, stateBuilt, stateFailed, stateCompiler}, a.State):
		return answer{}, fmt.Errorf("its state %.40q is not known", a.State)
	case a.State == stateBuilt && !setName().MatchString(a.Set):
		return answer{}, fmt.Errorf("its set %.40q is no name", a.Set)
	case a.State == stateCompiler && (a.Failure == nil || len(a.Failure.Errors) > maxNames || len(a.Failure.Tail) > maxNames):
		return answer{}, errors.New("it does not say how the compile failed")
	}
	a.Reason = plain(a.Reason)
	if a.Failure != nil {
		a.Failure.Message = plain(a.Failure.Message)
		for _, lines := range [][]string{a.Failure.Errors, a.Failure.Tail} {
			for i := range lines {
				lines[i] = plain(lines[i])
			}
		}
	}
	return a, nil
}

// decode decodes a request or an answer of this version.
func decode(data []byte, limit int, into any) error {
	if len(data) > limit {
		return fmt.Errorf("larger than %d bytes", limit)
	}
	var version struct{ Schema int }
	if err := json.Unmarshal(data, &version); err == nil && version.Schema != schema {
		return errSchema
	}
	return json.Unmarshal(data, into)
}

// plain returns a text of the other container for one line of a log.
func plain(text string) string {
	text = kmsg.PrintableLines(strings.ToValidUTF8(text[:min(len(text), maxText)], "?"))
	return strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))
}

// put replaces request or answer.
func put(f folder, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return f.write(name, 0o644, bytes.NewReader(append(data, '\n')))
}
