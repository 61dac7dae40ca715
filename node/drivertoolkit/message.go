package drivertoolkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kmsg"
	"github.com/driver-container/driver-container/node/modules"
)

// schema is the version of request and answer. Both containers run the same program, unless the
// image of one was changed in a running pod.
const schema = 4

// Bounds of what one container reads of the other one.
const (
	maxLines = 64   // of a compile's output in an answer
	maxText  = 2048 // bytes of a text for people
)

// request is what the driver container wants. The paths in it are not for the toolkit container.
type request struct {
	Schema          int    `json:"schema"`
	Run             string `json:"run"` // names this request
	Kernel          string `json:"kernel"`
	modules.Request `json:"compile"`
}

// answer is what became of a request: nothing yet, because it is being compiled, a set, or the
// reason why there is none.
type answer struct {
	Schema int    `json:"schema"`
	Run    string `json:"run"`           // of the request
	Set    string `json:"set,omitempty"` // name of the folder below modules
	Reason string `json:"reason,omitempty"`
	// if the compile itself failed; Reason has its Err
	Failure *kbuild.CompileError `json:"failure,omitempty"`
	Full    bool                 `json:"full,omitempty"` // because the disk was full
}

var setName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,254}$`)

// errSchema says that the other container runs another version of this program.
var errSchema = errors.New("it is of another version of this program")

// receive reads a request or an answer of this version.
func (f folder) receive(name string, into any) error {
	data, err := f.read(name)
	if err != nil {
		return err
	}
	var version struct{ Schema int }
	if err := json.Unmarshal(data, &version); err == nil && version.Schema != schema {
		return errSchema
	}
	return json.Unmarshal(data, into)
}

// check refuses what could be a path, and makes the texts printable.
func (a *answer) check() error {
	if a.Set != "" && !setName().MatchString(a.Set) {
		return fmt.Errorf("its set %.40q is no name", a.Set)
	}
	a.Reason = plain(a.Reason)
	if x := a.Failure; x != nil {
		for _, lines := range []*[]string{&x.Errors, &x.Tail} {
			*lines = (*lines)[:min(len(*lines), maxLines)]
			for i := range *lines {
				(*lines)[i] = plain((*lines)[i])
			}
		}
	}
	return nil
}

// plain returns a text of the other container for one line of a log.
func plain(text string) string {
	text = kmsg.PrintableLines(text[:min(len(text), maxText)])
	return strings.TrimSpace(strings.ReplaceAll(text, "\n", " "))
}

// put replaces request or answer.
func (f folder) put(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return f.write(name, 0o644, bytes.NewReader(append(data, '\n')))
}
