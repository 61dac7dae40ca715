package buildkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	controlapi "github.com/moby/buildkit/api/services/control"
	apitypes "github.com/moby/buildkit/api/types"
	"github.com/moby/buildkit/solver/pb"
	"google.golang.org/grpc"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/runnertest"
	"github.com/driver-container/driver-container/ci/testfile"
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
// once, and nothing of gRPC's words.
func TestProgramEnds(t *testing.T) {
	noLeaks(t)
	onPath(t, "kubectl", "echo 'Error from server (NotFound): pods \"gone\" not found' >&2\nexit 1\n")
	begin := time.Now()
	err := reachable(t.Context(), "kube-pod://gone?namespace=ci")
	want := `connect to BuildKit: no builder is available: buildkitd at kube-pod://gone?namespace=ci does not answer: kubectl ended with exit status 1: ` +
		`Error from server (NotFound): pods "gone" not found: the pod is not there: look with kubectl get pods, and give ?namespace= and ?context= if it is elsewhere`
	if !errors.Is(err, runner.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	assert.Equal(t, strings.ReplaceAll(want, "no builder is available", runner.ErrUnavailable.Error()), err.Error())
	if d := time.Since(begin); d > 30*time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestProgramMissing: the error names the program, and nothing was started.
func TestProgramMissing(t *testing.T) {
	noLeaks(t)
	t.Setenv("PATH", t.TempDir())
	err := reachable(t.Context(), "kube-pod://buildkitd-0")
	if !errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), "needs the program kubectl on this machine") {
		t.Errorf("%v", err)
	}
	err = FindPrograms([]string{"tcp://builder:1234", "ssh://builder"})
	if err == nil || !strings.Contains(err.Error(), "install ssh") {
		t.Errorf("%v", err)
	}
}

// TestProgramHangs: a program that says nothing has a limit, and ends with the attempt.
func TestProgramHangs(t *testing.T) {
	noLeaks(t)
	dir := onPath(t, "kubectl", `echo $$ >"${0%/*}/pid"`+"\nexec sleep 1000\n")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
	defer cancel()
	p := require.Value(dial(t.Context(), "kube-pod://buildkitd-0", TLS{}, func(string) {}))(t)
	_, err := p.ask(ctx)
	if err == nil || !strings.Contains(err.Error(), "enough") || !strings.Contains(err.Error(), "try by hand whether this works and asks nothing: kubectl exec buildkitd-0 -- buildctl debug workers") {
		t.Errorf("%v", err)
	}
	assert.NoError(t, p.close())
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

// TestOld: a daemon that does not report its version is older than v0.11, which cannot run our steps.
func TestOld(t *testing.T) {
	noLeaks(t)
	platforms := []*pb.Platform{{OS: "linux", Architecture: "arm64"}}
	for says, record := range map[string]*apitypes.WorkerRecord{
		"is too old: give the address of one of v0.11 or newer": {Platforms: platforms},
		"": {Platforms: platforms, BuildkitVersion: &apitypes.BuildkitVersion{Version: "v0.11.6"}},
	} {
		l := require.Value(net.Listen("unix", t.TempDir()+"/s"))(t)
		s := grpc.NewServer()
		controlapi.RegisterControlServer(s, control{record: record})
		go s.Serve(l)
		err := reachable(t.Context(), "unix://"+l.Addr().String())
		if says == "" != (err == nil) || err != nil && (!errors.Is(err, runner.ErrUnavailable) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%v, want %q", err, says)
		}
		s.Stop()
	}
}

// programs are the ways to a daemon through a program: the address, and the program's arguments before the
// command that runs beside the daemon.
var programs = []struct{ address, name, arguments string }{
	{"kube-pod://buildkitd-0?context=me@far&namespace=ci&container=buildkitd", "kubectl", "--context=me@far --namespace=ci exec --container=buildkitd -i buildkitd-0 --"},
	{"docker-container://buildkitd?context=far", "docker", "--context=far exec -i buildkitd"},
	{"podman-container://buildkitd", "podman", "exec -i buildkitd"},
	{"nerdctl-container://buildkitd?namespace=ci", "nerdctl", "exec --namespace ci -i buildkitd"},
	{"ssh://me@builder", "ssh", "-l me -- builder"},
}

// beside replaces a program that runs commands elsewhere: it refuses other arguments than these, and runs the
// real buildctl, in the environment of a container whose daemon is d. Like kubectl it reports how the command
// ended.
func beside(t *testing.T, d *testDaemon, name, arguments string) (pid string) {
	t.Helper()
	n := len(strings.Fields(arguments))
	buildctl := filepath.Join(filepath.Dir(require.Value(built())(t)), "buildctl")
	dir := onPath(t, name, fmt.Sprintf(`echo $$ >"${0%%/*}/pid"
[ "$*" = '%s buildctl dial-stdio' ] || { echo "arguments: $*" >&2; exit 64; }
[ -e '%s/s' ] || { echo 'Error from server (NotFound): pods "buildkitd-0" not found' >&2; exit 1; }
shift %d
BUILDKIT_HOST='unix://%s/s' '%s' dial-stdio
code=$?
[ -e '%s/killed' ] && code=137
[ $code = 0 ] || echo "command terminated with exit code $code" >&2
exit $code
`, arguments, d.dir, n, d.dir, buildctl, d.dir))
	return filepath.Join(dir, "pid")
}

// TestRealPrograms: a step runs through each program, and the program ends with the connection.
func TestRealPrograms(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	for _, c := range programs {
		t.Run(c.name, func(t *testing.T) {
			pid := beside(t, d, c.name, c.arguments)
			p := connect(t, c.address)
			if lines, err := run(t, p, step(t, runnertest.ProgramLayer(t), "exit", "0", "hello")); err != nil || len(lines) != 1 {
				t.Errorf("%v, %q", err, lines)
			}
			assert.NoError(t, p.Close())
			ends(t, pid)
		})
	}
}

// TestRealPodDies: a pod that is killed while it works, and does not come back.
func TestRealPodDies(t *testing.T) {
	realTier(t)
	noLeaks(t)
	d := startDaemon(t, "")
	beside(t, d, programs[0].name, programs[0].arguments)
	p := connect(t, programs[0].address)
	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- p.Run(t.Context(), step(t, runnertest.ProgramLayer(t), "sleep"), t.TempDir(), func(line string) {
			if line == "started" {
				close(started)
			}
		})
	}()
	<-started
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "killed"), nil, 0o600))
	d.kill()
	require.NoError(t, os.Remove(filepath.Join(d.dir, "s")))
	err := <-ended
	if !errors.Is(err, runner.ErrUnavailable) {
		t.Fatal(err)
	}
	assert.Containsf(t, err.Error(), "command terminated with exit code 137: the container was killed: kubectl describe pod says why", "the step")
	assert.Containsf(t, err.Error(), "(NotFound)", "the next attempt")
}
