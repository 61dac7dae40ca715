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

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/images/runner"
)

func TestOutput(t *testing.T) {
	t.Parallel()
	vertex := digest.FromString("exec")
	var lines []string
	write := func(line string) { lines = append(lines, line) }
	o := &output{vertex: vertex, lines: runner.NewLines(write), print: write}
	log := func(of digest.Digest, stream int, text string) *client.VertexLog {
		return &client.VertexLog{Vertex: of, Stream: stream, Data: []byte(text)}
	}
	cached := []*client.Vertex{{Digest: digest.FromString("source"), Cached: true}, {Digest: vertex, Cached: true}}
	o.take(&client.SolveStatus{Vertexes: cached})
	o.take(&client.SolveStatus{Vertexes: cached, Logs: []*client.VertexLog{
		log(vertex, 1, "one\ntw"), log(vertex, 2, "err one\nerr"), log(digest.FromString("source"), 1, "extracting\n"),
		log(vertex, 1, "o\nend"), log(vertex, 2, " two\n"), log(vertex, 7, "odd\n"),
	}})
	o.take(&client.SolveStatus{Logs: []*client.VertexLog{log(vertex, 2, strings.Repeat("x", maxPart+1))}})
	tail := o.tail()
	want := []string{"one", "err one", "two", "err two", "odd", strings.Repeat("x", maxPart), "xend"}
	assert.Samef(t, append([]string{"cached"}, want...), lines, "lines (-want +got)")
	assert.Samef(t, want, tail, "tail (-want +got)")
}

// TestExplain: which errors are the step's, and which the daemon's.
func TestExplain(t *testing.T) {
	t.Parallel()
	exit := func(code uint32, last string, memory int64) error {
		r := &Daemon{address: "unix:///x"}
		o := &output{lines: runner.NewLines(nil)}
		o.write(2, []byte(last+"\n"))
		return r.explain(t.Context(), runner.Step{Name: "s", Memory: memory}, o, fmt.Errorf("solve: %w", &gateway.ExitError{ExitCode: code}))
	}
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{exit(3, "boom", 0), 3, "boom"},
		{exit(1, "runc run failed: unable to start container process: exec: \"/none\"", 0), -1, "unable to start"},
		{exit(1, "No space left on device", 0), 1, "No space left"},
		{exit(137, "", 0), -1, "memory was at an end on the daemon's machine"},
		{exit(137, "", 5e6), -1, "may use 5 MB"},
		{exit(139, "", 0), -1, "signal 11"},
	} {
		if f, ok := errors.AsType[*runner.FailedError](c.err); !ok || f.Code != c.code ||
			!strings.Contains(c.err.Error(), c.says) || f.Runner != "buildkit unix:///x" {
			t.Errorf("%v, want code %d and %q", c.err, c.code, c.says)
		}
	}
	for _, c := range []struct {
		err  error
		full bool
	}{
		{status.Error(codes.Unavailable, "error reading from server: EOF"), false},
		{status.Error(codes.Canceled, "grpc: the client connection is closing"), false},
		{fmt.Errorf("%w: %w", &gateway.ExitError{ExitCode: 137}, context.Canceled), false},
		{status.Error(codes.ResourceExhausted, "write /x: no space left on device"), true},
		{status.Error(codes.Unknown, "failed to copy: write /x: disk quota exceeded"), true},
	} {
		r := &Daemon{address: "unix:///x"}
		err := r.explain(t.Context(), runner.Step{Name: "s"}, &output{lines: runner.NewLines(nil)}, c.err)
		if trouble, ok := errors.AsType[*daemonError](err); !ok || trouble.full != c.full || !strings.Contains(err.Error(), "unix:///x") {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	if !refusesLimits(status.Error(codes.Unknown, "unknown API capability exec.meta.linux.resources")) {
		t.Error("an old daemon's refusal of limits is not known")
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
