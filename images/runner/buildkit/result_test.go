package buildkit

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/buildkit/client"
	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/runnertest"
	"github.com/driver-container/driver-container/images/runner"
)

// archive returns a tar of headers. For regular files, Linkname is the content.
func archive(t testing.TB, list ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range list {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		require.NoError(t, w.WriteHeader(&h))
		require.Value(io.WriteString(w, content))(t)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func file(name, content string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Linkname: content}
}

// receive sends an archive as a session does.
func receive(dir string, b []byte) error {
	r := newResult(dir)
	w, err := r.open()
	if err != nil {
		return err
	}
	_, sent := w.Write(b)
	closed := w.Close()
	if err := r.close(); err != nil {
		return err
	}
	return errors.Join(sent, closed)
}

func TestResult(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, receive(dir, archive(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o700},
		tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o700},
		file("d/a", "1"), file("e/f/b", "2"),
		tar.Header{Name: "twin", Typeflag: tar.TypeLink, Linkname: "d/a"})))
	assert.Same(t, map[string]string{"d/": "", "d/a": "1", "e/": "", "e/f/": "", "e/f/b": "2", "twin": "1"}, runnertest.Files(t, dir))
}

func TestResultRefused(t *testing.T) {
	t.Parallel()
	whole := archive(t, file("a", strings.Repeat("x", 2000)))
	for name, c := range map[string]struct {
		b    []byte
		says string
	}{
		"symbolic link":     {archive(t, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), "neither a regular file"},
		"device":            {archive(t, tar.Header{Name: "l", Typeflag: tar.TypeChar}), "neither a regular file"},
		"pipe":              {archive(t, tar.Header{Name: "l", Typeflag: tar.TypeFifo}), "neither a regular file"},
		"setuid":            {archive(t, tar.Header{Name: "l", Typeflag: tar.TypeReg, Mode: 0o4755}), "setuid"},
		"outside":           {archive(t, file("../l", "1")), "leads out"},
		"absolute":          {archive(t, file("/l", "1")), "leads out"},
		"link to outside":   {archive(t, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../x"}), "outside"},
		"link to nothing":   {archive(t, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "x"}), "no such file"},
		"twice":             {archive(t, file("l", "1"), file("l", "2")), "exists"},
		"file as folder":    {archive(t, file("l", "1"), file("l/x", "2")), "l"},
		"long path":         {archive(t, file(strings.Repeat("x/", 600)+"y", "2")), "a path of"},
		"no archive":        {bytes.Repeat([]byte("x"), 4096), "tar"},
		"cut in a file":     {whole[:1000], errIncomplete.Error()},
		"cut in a header":   {whole[:100], errIncomplete.Error()},
		"cut before an end": {whole[:2560], ""},
	} {
		dir := t.TempDir()
		err := receive(dir, c.b)
		if c.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// TestResultEnds: close returns whatever the daemon does, and nothing is written after it.
func TestResultEnds(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	r := newResult(dir)
	assert.ErrorIsf(t, r.close(), errIncomplete, "nothing came")
	assert.Errorf(t, assert.Err(r.open()), "a result began after its end")
	r = newResult(dir)
	w := require.Value(r.open())(t)
	assert.Errorf(t, assert.Err(r.open()), "a second result")
	require.Value(w.Write(archive(t, file("a", strings.Repeat("x", 2000)))[:1000]))(t)
	assert.ErrorIsf(t, r.close(), errIncomplete, "stopped in the middle")
	assert.Errorf(t, assert.Err(w.Write([]byte("more"))), "more was taken after the end")
}

// FuzzUnpack: no archive writes outside of the folder, or makes anything except regular files and folders.
func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, file("d/a", "1"), tar.Header{Name: "twin", Typeflag: tar.TypeLink, Linkname: "d/a"}))
	f.Add(archive(f, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, file("l/x", "1")))
	f.Add(archive(f, file("../x", "1")))
	f.Fuzz(func(t *testing.T, b []byte) {
		top := t.TempDir()
		dir := filepath.Join(top, "result")
		require.NoError(t, os.Mkdir(dir, 0o755))
		_ = unpack(bytes.NewReader(b), dir)
		if list, _ := os.ReadDir(top); len(list) != 1 {
			t.Errorf("it wrote outside: %v", list)
		}
		assert.NoError(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !d.Type().IsRegular() {
				err = fmt.Errorf("%s is a %v", p, d.Type())
			}
			return err
		}))
	})
}

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
		r := &daemon{address: "unix:///x"}
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
		r := &daemon{address: "unix:///x"}
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
