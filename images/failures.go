package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/registry"
)

// ErrSomeFailed says that of several targets some failed; the errors of these targets are beside
// it.
var ErrSomeFailed = failure.New(failure.Some, "some targets failed")

// Parallel runs f for the numbers below n, several at a time, and returns the errors in the order
// of the numbers. An error does not stop the others; a context that ends does.
func Parallel(ctx context.Context, jobs, n int, f func(i int) error) []error {
	errs := make([]error, n)
	var eg errgroup.Group
	eg.SetLimit(max(1, jobs))
	for i := range n {
		eg.Go(func() error {
			errs[i] = context.Cause(ctx)
			if errs[i] == nil {
				errs[i] = f(i)
			}
			return nil
		})
	}
	_ = eg.Wait() // the errors are in errs
	return errs
}

// Failures are the errors of images, by tag. The zero value has none.
type Failures struct {
	tags []string
	errs []error
}

// Add notes the error of an image; nil is none.
func (f *Failures) Add(tag string, err error) {
	if err != nil {
		f.tags = append(f.tags, tag)
		f.errs = append(f.errs, nameError(tag, err))
	}
}

// Has says whether an image of a tag failed.
func (f *Failures) Has(tag string) bool { return slices.Contains(f.tags, tag) }

// AddAll notes what failed in an earlier step, whose error Err made.
func (f *Failures) AddAll(err error) {
	earlier, ok := errors.AsType[*targetsError](err)
	if ok {
		f.tags = append(f.tags, earlier.failures.tags...)
		f.errs = append(f.errs, earlier.failures.errs...)
	}
}

// Err is the error of all images that failed, beside done tags whose images did not. Of several
// tags it is ErrSomeFailed.
func (f *Failures) Err(done int) error {
	if len(f.errs) == 0 {
		return nil
	}
	err := JoinErrors(f.errs, func(i int) string { return f.tags[i] })
	failed := len(sorted(f.tags))
	if done+failed > 1 {
		err = fmt.Errorf("%d of %d targets: %w:\n%w", failed, done+failed, ErrSomeFailed, err)
	}
	return &targetsError{*f, err}
}

// targetsError is the error of Failures.
type targetsError struct {
	failures Failures
	err      error
}

func (e *targetsError) Error() string { return e.err.Error() }
func (e *targetsError) Unwrap() error { return e.err }

// Each returns the tags that failed, each with its first error, in the order in which they failed.
func (f *Failures) Each(yield func(tag string, err error) bool) {
	for i, tag := range f.tags {
		if slices.Index(f.tags, tag) == i && !yield(tag, f.errs[i]) {
			return
		}
	}
}

// maxNamed is how many targets of a cause are named.
const maxNamed = 3

// address finds an address in the text of an error: its host and what follows it.
var address = regexp.MustCompile(`https?://(?:[^/\s@]*@)?([^/\s:]+(?::[0-9]+)?)\S*: `)

// CauseOf returns the cause of a target's error: of what is out of reach the server, of anything
// else the text without the target's name. What a server does not have is a cause of its own.
func CauseOf(err error, target string) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	named, ok := errors.AsType[*namedError](err)
	if ok {
		text = strings.Replace(text, named.name+": ", "", 1)
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
	remote, ok := errors.AsType[*registry.Error](err)
	if ok {
		reason := strings.ReplaceAll(remote.Err.Error(), "\n", "; ")
		return fmt.Sprintf("registry %s: %s", remote.Host, reason)
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

func (c Cause) String() string {
	named := c.Targets[:min(len(c.Targets), maxNamed)]
	text := fmt.Sprintf("%s: %d targets: %s", c.Text, len(c.Targets), strings.Join(named, ", "))
	more := len(c.Targets) - len(named)
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// AddCause adds a target to those of its cause, once.
func AddCause(causes []Cause, text, target string) []Cause {
	i := slices.IndexFunc(causes, func(c Cause) bool { return c.Text == text })
	if i < 0 {
		return append(causes, Cause{text, []string{target}})
	}
	if !slices.Contains(causes[i].Targets, target) {
		causes[i].Targets = append(causes[i].Targets, target)
	}
	return causes
}

// joinedError is the error of several targets.
type joinedError struct {
	all  []error
	text string
}

func (j *joinedError) Error() string   { return j.text }
func (j *joinedError) Unwrap() []error { return j.all }

// JoinErrors is errors.Join of the errors of targets, some of which may be nil, whose text says
// each cause once. name returns the name of a target.
func JoinErrors(errs []error, name func(int) string) error {
	joined := &joinedError{}
	var causes []Cause
	whole := map[string]string{} // the text of the error, for a cause that hits one target
	for i, err := range errs {
		if err == nil {
			continue
		}
		cause := CauseOf(err, name(i))
		joined.all = append(joined.all, err)
		causes = AddCause(causes, cause, name(i))
		whole[cause] = err.Error()
	}
	if len(joined.all) == 0 {
		return nil
	}
	var lines []string
	for _, c := range causes {
		line := c.String()
		if len(c.Targets) == 1 {
			line = whole[c.Text]
		}
		lines = append(lines, line)
	}
	joined.text = strings.Join(lines, "\n")
	return joined
}

// nameError puts the name of what failed before an error, unless the error's text has it already:
// the packages below name their target too. Of nil it is nil.
func nameError(name string, err error) error {
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
