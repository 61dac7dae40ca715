package batch

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/registry"
)

// maxNamed is how many targets of a cause are named.
const maxNamed = 3

// address finds an address in the text of an error: its host and what follows it.
var address = regexp.MustCompile(`https?://(?:[^/\s@]*@)?([^/\s:]+(?::[0-9]+)?)\S*: `)

// CauseOf returns the cause of a target's error: of what is out of reach the server, of anything
// else the text without the target's name. What a server does not have is a cause of its own.
func CauseOf(err error, target string) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if e, ok := errors.AsType[*namedError](err); ok {
		text = strings.Replace(text, e.name+": ", "", 1)
	}
	for target != "" { // "535.261.03-debian12: build 535.261.03-debian12 amd64: ..."
		head, rest, ok := strings.Cut(text, ": ")
		if !ok || !strings.Contains(head, target) {
			break
		}
		text = rest
	}
	if !errors.Is(err, fetch.ErrUnreachable) || errors.Is(err, fs.ErrNotExist) {
		return text
	}
	if e, ok := errors.AsType[*registry.Error](err); ok {
		return fmt.Sprintf("registry %s: %s", e.Host, strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	}
	all := address.FindAllStringSubmatchIndex(text, -1)
	if len(all) == 0 {
		return text
	}
	last := all[len(all)-1]
	host := text[last[2]:last[3]]
	reason := text[last[1]:]
	if strings.HasPrefix(reason, host) {
		return "server " + reason
	}
	return "server " + host + ": " + reason
}

// Cause is why targets failed, such as a registry that does not answer, with all that it hits.
type Cause struct {
	Text    string
	Targets []string
}

func (g Cause) String() string {
	named := g.Targets[:min(len(g.Targets), maxNamed)]
	text := fmt.Sprintf("%s: %d targets: %s", g.Text, len(g.Targets), strings.Join(named, ", "))
	if more := len(g.Targets) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// AddCause adds a target to those of its cause.
func AddCause(groups []Cause, cause, target string) []Cause {
	i := slices.IndexFunc(groups, func(g Cause) bool { return g.Text == cause })
	if i < 0 {
		return append(groups, Cause{cause, []string{target}})
	}
	groups[i].Targets = append(groups[i].Targets, target)
	return groups
}

// joined is the error of several targets.
type joined struct {
	all  []error
	text string
}

func (j *joined) Error() string   { return j.text }
func (j *joined) Unwrap() []error { return j.all }

// JoinErrors is errors.Join of the errors of targets, some of which may be nil, whose text says
// each cause once. name returns the name of a target.
func JoinErrors(errs []error, name func(int) string) error {
	j := &joined{}
	var causes []Cause
	whole := map[string]string{} // the text of the error, for a cause that hits one target
	for i, err := range errs {
		if err != nil {
			j.all = append(j.all, err)
			cause := CauseOf(err, name(i))
			causes, whole[cause] = AddCause(causes, cause, name(i)), err.Error()
		}
	}
	if len(j.all) == 0 {
		return nil
	}
	for _, c := range causes {
		text := c.String()
		if len(c.Targets) == 1 {
			text = whole[c.Text]
		}
		j.text = strings.TrimPrefix(j.text+"\n"+text, "\n")
	}
	return j
}

// About puts the name of what failed before an error, unless the error's text has it already: the
// packages below name their target too. Of nil it is nil.
func About(name string, err error) error {
	if err == nil || strings.Contains(err.Error(), name) {
		return err
	}
	return &namedError{name, err}
}

// namedError is the error of an image, which may have another name than the target that it is
// counted for: an image of one kernel.
type namedError struct {
	name string
	err  error
}

func (e *namedError) Error() string { return e.name + ": " + e.err.Error() }
func (e *namedError) Unwrap() error { return e.err }
