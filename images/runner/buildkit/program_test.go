package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	controlapi "github.com/moby/buildkit/api/services/control"
	apitypes "github.com/moby/buildkit/api/types"
	"github.com/moby/buildkit/solver/pb"
	"google.golang.org/grpc"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/runnertest"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/images/runner"
)

// onPath writes a shell script as a program of this name and puts it first in PATH.
func onPath(t *testing.T, name, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	testfile.Write(t, filepath.Join(dir, name), "#!/bin/sh\n"+script)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// TestProgramEnds: a program that ends instead of connecting is an error with its last words and a remedy, at
// once, and nothing of gRPC's words. The error of one that is missing names it.
func TestProgramEnds(t *testing.T) {
	noLeaks(t)
	dir := onPath(t, "kubectl", "echo 'Error from server (NotFound): pods \"gone\" not found' >&2\nexit 1\n")
	err := reachable(t.Context(), "kube-pod://gone?namespace=ci")
	assert.ErrorIs(t, err, runner.ErrUnavailable)
	assert.Equal(t, "connect to BuildKit: "+runner.ErrUnavailable.Error()+": buildkitd at kube-pod://gone?namespace=ci does not answer: kubectl ended with exit status 1: "+
		`Error from server (NotFound): pods "gone" not found: try by hand whether this works and asks nothing: kubectl --namespace=ci exec gone -- buildctl debug workers`, err.Error())
	t.Setenv("PATH", t.TempDir())
	require.NoError(t, os.RemoveAll(dir))
	err = reachable(t.Context(), "kube-pod://buildkitd-0")
	assert.ErrorIs(t, err, runner.ErrUnavailable)
	assert.ErrorContains(t, err, "needs the program kubectl on this machine")
	assert.ErrorContains(t, Check(t.Context(), "ssh://builder", TLS{}), "install ssh")
	assert.NoError(t, Check(t.Context(), "tcp://builder:1234", TLS{}))
}

// TestProgramHangs: a program that says nothing has a limit, and ends with the attempt.
func TestProgramHangs(t *testing.T) {
	noLeaks(t)
	dir := onPath(t, "kubectl", `echo $$ >"${0%/*}/pid"`+"\nexec sleep 1000\n")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
	defer cancel()
	p := require.Value(dial(t.Context(), Options{Address: "kube-pod://buildkitd-0"}))(t)
	_, err := p.ask(ctx)
	if err == nil || !strings.Contains(err.Error(), "enough") || !strings.Contains(err.Error(), "try by hand whether this works and asks nothing: kubectl exec buildkitd-0 -- buildctl debug workers") {
		t.Errorf("%v", err)
	}
	assert.NoError(t, p.Close())
	ends(t, filepath.Join(dir, "pid"))
}

// ends waits for the end of the process whose number a file has.
func ends(t *testing.T, file string) {
	t.Helper()
	pid := strings.TrimSpace(string(require.Value(os.ReadFile(file))(t)))
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			return
		} else if time.Now().After(end) {
			t.Fatalf("process %s is left", pid)
		}
	}
}

// control answers as a daemon of some version does.
type control struct {
	controlapi.UnimplementedControlServer
	record *apitypes.WorkerRecord
}

func (c control) ListWorkers(context.Context, *controlapi.ListWorkersRequest) (*controlapi.ListWorkersResponse, error) {
	return &controlapi.ListWorkersResponse{Record: []*apitypes.WorkerRecord{c.record}}, nil
}

// TestWorker: a daemon that does not report its version is older than v0.11, which cannot run our steps; one
// that cannot run an architecture gets no step for it.
func TestWorker(t *testing.T) {
	noLeaks(t)
	platforms := []*pb.Platform{{OS: "linux", Architecture: "riscv64"}}
	for says, record := range map[string]*apitypes.WorkerRecord{
		"is too old: give the address of one of v0.11 or newer": {Platforms: platforms},
		"runs linux/riscv64 only":                               {Platforms: platforms, BuildkitVersion: &apitypes.BuildkitVersion{Version: "v0.11.6"}},
	} {
		l := require.Value(net.Listen("unix", t.TempDir()+"/s"))(t)
		s := grpc.NewServer()
		controlapi.RegisterControlServer(s, control{record: record})
		go s.Serve(l)
		p, err := New(t.Context(), Options{Address: "unix://" + l.Addr().String()})
		if err == nil {
			err = errors.Join(p.Run(t.Context(), runnertest.Step(t, nil, ""), t.TempDir(), nil), p.Close())
		}
		assert.ErrorIs(t, err, runner.ErrUnavailable)
		assert.ErrorContains(t, err, says)
		s.Stop()
	}
}

// TestCommands: what runs for each address, to the letter, and what a person can try.
func TestCommands(t *testing.T) {
	for _, c := range []struct{ address, program, arguments, try string }{
		{"kube-pod://buildkitd-0", "kubectl", "--context= --namespace= exec --container= -i buildkitd-0 -- buildctl dial-stdio",
			"kubectl exec buildkitd-0 -- buildctl debug workers"},
		{"kube-pod://buildkitd-0?context=me@far&namespace=ci&container=buildkitd", "kubectl",
			"--context=me@far --namespace=ci exec --container=buildkitd -i buildkitd-0 -- buildctl dial-stdio",
			"kubectl --context=me@far --namespace=ci exec --container=buildkitd buildkitd-0 -- buildctl debug workers"},
		{"docker-container://buildkitd?context=far", "docker", "--context=far exec -i buildkitd buildctl dial-stdio",
			"docker --context=far exec buildkitd buildctl debug workers"},
		{"podman-container://buildkitd", "podman", "exec -i buildkitd buildctl dial-stdio", "podman exec buildkitd buildctl debug workers"},
		{"nerdctl-container://buildkitd?namespace=k8s.io", "nerdctl", "exec --namespace k8s.io -i buildkitd buildctl dial-stdio",
			"nerdctl --namespace=k8s.io exec buildkitd buildctl debug workers"},
		{"ssh://me@builder:22/run/buildkit/buildkitd.sock", "ssh", "-l me -p 22 -- builder buildctl --addr unix:///run/buildkit/buildkitd.sock dial-stdio",
			"ssh ssh://me@builder:22 buildctl debug workers"},
	} {
		t.Run(c.address, func(t *testing.T) {
			dir := onPath(t, c.program, `echo "$*" >"${0%/*}/arguments"`+"\nexec cat\n")
			_, p, err := parse(c.address)
			require.NoError(t, err)
			assert.Equal(t, c.try, p.byHand)
			conn := require.Value(p.dial(t.Context(), ""))(t)
			require.Value(conn.Write([]byte("hello")))(t)
			got := make([]byte, 5)
			require.Value(io.ReadFull(conn, got))(t)
			assert.Equal(t, "hello", string(got))
			assert.NoError(t, conn.Close())
			assert.NoError(t, p.reason(nil))
			assert.Equal(t, c.arguments+"\n", string(require.Value(os.ReadFile(filepath.Join(dir, "arguments")))(t)))
		})
	}
}

// TestEnded: the last words of programs, as they print them, and what to do about them. Those of kubectl are in
// ci/cluster/control, from kubectl itself.
func TestEnded(t *testing.T) {
	for _, c := range []struct{ address, words, says string }{
		{"kube-pod://x", "E1123 04:14:27.8 2 memcache.go:265] no list\nE1123 04:14:27.9 2 memcache.go:265] no list\nerror: You must be logged in to the server",
			"exit status 3: error: You must be logged in to the server: try by hand"},
		{"ssh://x", "\x1b[31mred\x00\nand so on", "ssh ended with exit status 3: [31mred and so on: try by hand whether this works and asks nothing: ssh ssh://x buildctl debug workers"},
	} {
		t.Run(c.words, func(t *testing.T) {
			_, p, err := parse(c.address)
			require.NoError(t, err)
			dir := onPath(t, p.name, `cat "${0%/*}/words" >&2`+"\nexit 3\n")
			testfile.Write(t, filepath.Join(dir, "words"), c.words)
			conn := require.Value(p.dial(t.Context(), ""))(t)
			_, err = conn.Read(make([]byte, 1))
			assert.ErrorContains(t, err, c.says)
			assert.NoError(t, conn.Close())
		})
	}
}

// TestWritten: a program that has ended is found also by a write, and its last words are not lost.
func TestWritten(t *testing.T) {
	onPath(t, "kubectl", "echo '(NotFound)' >&2\nexit 1\n")
	_, p, err := parse("kube-pod://x")
	require.NoError(t, err)
	conn := require.Value(p.dial(t.Context(), ""))(t)
	for err == nil {
		_, err = conn.Write([]byte("x")) // the test's time limit ends it
	}
	assert.NoError(t, conn.Close())
	assert.ErrorContains(t, p.reason(nil), "(NotFound)")
}

// FuzzEnded: whatever a program prints, an error is one bounded line that a terminal prints as it is.
func FuzzEnded(f *testing.F) {
	for _, words := range []string{"", "\x1b]0;title\a", "a\r\nb", "\xff\xfe", strings.Repeat("\u2028é", 4096)} {
		f.Add(words)
	}
	p := &program{name: "kubectl", byHand: "kubectl"}
	f.Fuzz(func(t *testing.T, words string) {
		err := p.explain(fmt.Errorf("command [kubectl exec] has exited with exit status 1, make sure the URL is valid: stderr=%s", words))
		if err == nil || len(err.Error()) > maxWords+400 {
			t.Fatalf("%v", err)
		}
		for _, r := range err.Error() {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q in %q", r, err.Error())
			}
		}
	})
}

// beside replaces kubectl: it refuses other arguments than these, and runs the real buildctl, in the environment of a
// container whose daemon is d. Like kubectl it reports how the command ended.
func beside(t *testing.T, d *testDaemon, arguments string) (pid string) {
	t.Helper()
	buildctl := filepath.Join(filepath.Dir(require.Value(built())(t)), "buildctl")
	dir := onPath(t, "kubectl", fmt.Sprintf(`echo $$ >"${0%%/*}/pid"
[ "$*" = '%[1]s buildctl dial-stdio' ] || { echo "arguments: $*" >&2; exit 64; }
[ -e '%[2]s/s' ] || { echo 'Error from server (NotFound): pods "buildkitd-0" not found' >&2; exit 1; }
BUILDKIT_HOST='unix://%[2]s/s' '%[3]s' dial-stdio
code=$?
[ -e '%[2]s/killed' ] && code=137
[ $code = 0 ] || echo "command terminated with exit code $code" >&2
exit $code
`, arguments, d.dir, buildctl))
	return filepath.Join(dir, "pid")
}

// TestRealPod: a step runs in a pod, and the program ends with the connection. Then the pod is killed while it works,
// and does not come back.
func TestRealPod(t *testing.T) {
	realTier(t)
	noLeaks(t)
	const address = "kube-pod://buildkitd-0?context=me@far&namespace=ci&container=buildkitd"
	d := startDaemon(t, "")
	pid := beside(t, d, "--context=me@far --namespace=ci exec --container=buildkitd -i buildkitd-0 --")
	t.Run("step", func(t *testing.T) {
		assert.Same(t, []string{"hello"}, require.Value(run(t, connect(t, address), runnertest.Step(t, nil, "echo hello")))(t))
	})
	ends(t, pid)

	dir := t.TempDir()
	err := connect(t, address).Run(t.Context(), runnertest.Step(t, nil, runnertest.Sleep), dir, func(line string) {
		if line == "started" {
			require.NoError(t, os.WriteFile(filepath.Join(d.dir, "killed"), nil, 0o600))
			d.kill()
			require.NoError(t, os.Remove(filepath.Join(d.dir, "s")))
		}
	})
	assert.ErrorIs(t, err, runner.ErrUnavailable)
	assert.ErrorContains(t, err, "command terminated with exit code 137: try by hand", "(NotFound)")
	assert.Equal(t, 0, len(runnertest.Files(t, dir)))
}
