package buildkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/moby/buildkit/client"
	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/images/runner"
)

func TestPrinted(t *testing.T) {
	t.Parallel()
	source, vertex := digest.FromString("source"), digest.FromString("exec")
	var said []string
	lines := runner.NewLines(func(line string) { said = append(said, line) })
	log := func(of digest.Digest, stream int, text string) *client.VertexLog {
		return &client.VertexLog{Vertex: of, Stream: stream, Data: []byte(text)}
	}
	cached := []*client.Vertex{{Name: "root of s", Digest: source, Cached: true}, {Name: "s", Digest: vertex, Cached: true}}
	status := make(chan *client.SolveStatus, 2)
	status <- &client.SolveStatus{Vertexes: cached}
	status <- &client.SolveStatus{Vertexes: cached, Logs: []*client.VertexLog{
		log(vertex, 1, "one\ntw"), log(vertex, 2, "err one\nerr"), log(source, 1, "extracting\n"), log(vertex, 1, "o\nend"), log(vertex, 2, " two\n"),
	}}
	close(status)
	printed(status, "s", lines)
	assert.Same(t, []string{"cached", "one", "err one", "two", "err two", "end"}, lines.Tail())
	assert.Same(t, lines.Tail(), said)
}

// TestExplain: which errors are the step's, and which the daemon's.
func TestExplain(t *testing.T) {
	t.Parallel()
	explain := func(last string, err error) error {
		lines := runner.NewLines(nil)
		lines.Add(2, []byte(last+"\n"))
		d := &Daemon{Options: Options{Address: "unix:///x"}}
		return d.explain(t.Context(), runner.Step{Name: "s"}, lines, err)
	}
	exit := func(code uint32, last string) error {
		return explain(last, fmt.Errorf("solve: %w", &gateway.ExitError{ExitCode: code}))
	}
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{exit(3, "boom"), 3, "boom"},
		{exit(1, "runc run failed: unable to start container process: exec: \"/none\""), -1, "unable to start"},
		{exit(1, "No space left on device"), 1, "No space left"},
		{exit(137, ""), -1, "memory of the daemon's machine was at an end"},
		{exit(139, ""), -1, "signal 11"},
	} {
		if f, ok := errors.AsType[*runner.FailedError](c.err); !ok || f.Code != c.code ||
			!strings.Contains(c.err.Error(), c.says) || f.Runner != "buildkit unix:///x" {
			t.Errorf("%v, want code %d and %q", c.err, c.code, c.says)
		}
	}
	for _, c := range []struct {
		err  error
		lost bool
	}{
		{status.Error(codes.Unavailable, "error reading from server: EOF"), true},
		{status.Error(codes.Canceled, "grpc: the client connection is closing"), true},
		{fmt.Errorf("%w: %w", &gateway.ExitError{ExitCode: 137}, context.Canceled), true},
		{status.Error(codes.ResourceExhausted, "write /x: no space left on device"), false},
		{status.Error(codes.Unknown, "failed to copy: write /x: disk quota exceeded"), false},
	} {
		err := explain("", c.err)
		if !errors.Is(err, runner.ErrUnavailable) || errors.Is(err, errLost) != c.lost || c.lost == strings.Contains(err.Error(), "the disk of buildkitd at unix:///x is full") {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	for text, says := range map[string]string{
		"dial unix /x: connect: permission denied":                                             "--group",
		"lookup builder: no such host":                                                         "check its name",
		"tls: first record does not look like a TLS handshake":                                 "without TLS",
		"x509: certificate is valid for builder.example, not other":                            "SERVERNAME",
		"context deadline exceeded":                                                            "firewall",
		"tls: failed to verify certificate: x509: certificate signed by unknown authority (x)": "CACERT",
	} {
		assert.Containsf(t, advice(errors.New(text)), says, "advice about %q", text)
	}
}
