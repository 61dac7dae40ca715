package images

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/registry"
)

func unreachable(text string) error { return fmt.Errorf("%s%w", text, hidden{fetch.ErrUnreachable}) }

// hidden is an error without a text.
type hidden struct{ error }

func (hidden) Error() string   { return "" }
func (h hidden) Unwrap() error { return h.error }

func TestCauseOf(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"no such kernel": errors.New("535-debian12: no such kernel"),
		"registry h.example: no such host; later": fmt.Errorf("535-debian12: base: %w", &registry.Error{Host: "h.example", Err: errors.New("no such host\nlater")}),
		"server m.example: no such host":          unreachable("ask for the size of https://m.example/a/b.run: m.example: no such host"),
		"server m.example:80: 500 trouble":        unreachable("plan: get http://me:secret@m.example:80/dists/x: 500 trouble"),
		"server z.example: refused":               unreachable("get http://a.example/x: no; get https://z.example/y: refused"),
		"something else":                          unreachable("something else"),
		"no headers":                              fmt.Errorf("535-debian12: %w", nameError("535-6.1.0-9-debian12", errors.New("no headers"))),
		"get https://m.example/x: 404 Not Found":  fmt.Errorf("get https://m.example/x: 404 Not Found%w%w", hidden{fetch.ErrUnreachable}, hidden{fs.ErrNotExist}),
	} {
		assert.Equal(t, want, CauseOf(err, "535-debian12"))
	}
}

func TestJoinErrors(t *testing.T) {
	t.Parallel()
	assert.Equal(t, nil, JoinErrors([]error{nil, nil}, strconv.Itoa))
	own := errors.New("4: only this")
	var errs []error
	for i := range 6 {
		errs = append(errs, fmt.Errorf("%d: base: %w", i, &registry.Error{Host: "h.example", Err: errors.New("no such host")}))
	}
	errs[4], errs[5] = own, nil
	err := JoinErrors(errs, strconv.Itoa)
	assert.Equal(t, "registry h.example: no such host: 4 targets: 0, 1, 2 and 1 more\n4: only this", err.Error())
	if !errors.Is(err, own) || !errors.Is(err, fetch.ErrUnreachable) {
		t.Error("the errors are lost")
	}
}
