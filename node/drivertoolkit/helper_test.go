package drivertoolkit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/cli"
	"github.com/driver-container/driver-container/node/modules"
)

// TestMain is also the program that the toolkit container starts from the shared folder.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "dtk-build-driver" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		root := os.Getenv("TOOLKIT_ROOT")
		b := Builder{Dir: filepath.Dir(os.Args[0]), Log: cli.Log(os.Stderr, "text"), Path: filepath.Join(root, "bin"), Root: root,
			Scratch: os.Getenv("TOOLKIT_SCRATCH"), Poll: 20 * time.Millisecond}
		if err := b.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// pod is two containers that share a folder.
type pod struct {
	t       *testing.T
	dir     string // shared
	image   string // root of the driver container
	toolkit string // root of the toolkit container
	info    driverinfo.Description
	log     logtest.Log
}

// newPod returns a pod whose toolkit has headers of a kernel, and a make that runs a script.
func newPod(t *testing.T, release, script string) *pod {
	t.Helper()
	p := &pod{t: t, dir: t.TempDir(), image: t.TempDir(), toolkit: t.TempDir()}
	p.info = kbuildtest.Image(t, p.image)
	kbuildtest.Toolkit(t, p.toolkit, release, script)
	return p
}

// container is a process with the toolkit container's command line.
type container struct {
	cmd  *exec.Cmd
	done chan error
}

// run starts the toolkit container as the GPU Operator does, with a shorter pause.
func (p *pod) run() *container {
	p.t.Helper()
	const script = "until [ -f DIR/dir_prepared ]; do sleep 0.05; done; exec DIR/ocp_dtk_entrypoint dtk-build-driver"
	cmd := exec.Command("bash", "-xc", strings.ReplaceAll(script, "DIR", p.dir)) //nolint:noctx // ended by stop and kill
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TOOLKIT_ROOT=" + p.toolkit, "TOOLKIT_SCRATCH=" + filepath.Join(p.toolkit, "scratch")}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Minute
	require.NoError(p.t, cmd.Start())
	c := &container{cmd, make(chan error, 1)}
	go func() { c.done <- cmd.Wait(); close(c.done) }()
	p.t.Cleanup(c.kill)
	return c
}

// kill ends the container and everything in it, as a node without memory does.
func (c *container) kill() {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.done
}

// stop ends the container as the kubelet does, and returns how it ended.
func (c *container) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	return <-c.done
}

// job is what the driver container wants; it accepts modules of this driver for this kernel.
func (p *pod) job() Job {
	return Job{Dir: p.dir, Timeout: waitLimit, Logger: p.log.Logger(), Poll: 10 * time.Millisecond, Kernel: kbuildtest.Kernel, Request: modules.Request{Image: p.image, Info: p.info, Flavour: driverinfo.Proprietary, Modules: kbuildtest.Modules[:3],
		Optional: kbuildtest.Modules[3:], MaxThreads: 1, Work: filepath.Join(p.t.TempDir(), "work")}, Fits: func(k kbuild.Key) bool {
		return k.Driver == p.info.Driver && k.Release == kbuildtest.Kernel && k.Flavour == driverinfo.Proprietary && k.Method == kbuild.Method
	}}
}

// compile is the driver container.
func (p *pod) compile(change func(*Job)) (*kbuild.Set, error) {
	j := p.job()
	if change != nil {
		change(&j)
	}
	return j.Compile(p.t.Context())
}

func (p *pod) has(name string) bool { return exists(filepath.Join(p.dir, name)) }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// waitLimit is how long a test waits for what takes a moment on a machine that has nothing else to do.
const waitLimit = 2 * time.Minute

// wait waits for something that takes a moment.
func (p *pod) wait(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(waitLimit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s did not happen\n%s", what, p.log.String())
		}
	}
}

// counted returns a script that counts in a file how often make ran.
func counted(t *testing.T, script string) (file, text string) {
	file = filepath.Join(t.TempDir(), "count")
	return file, "printf x >> " + file + "\n" + script
}
