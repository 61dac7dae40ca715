package drivertoolkit

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node/modules"
)

// TestMain: nearly all that the tests do is wait, one poll or two, so many of them do it at a time.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

// pod is two containers that share a folder.
type pod struct {
	t       *testing.T
	dir     string // shared
	image   string // root of the driver container
	toolkit string // root of the toolkit container
	path    string // of its programs
	info    driverinfo.Description
	log     logtest.Log
}

// newPod returns a pod whose toolkit has headers of a kernel, and a make that runs a script.
func newPod(t *testing.T, release, script string) *pod {
	t.Helper()
	p := &pod{t: t, dir: t.TempDir(), image: t.TempDir(), toolkit: t.TempDir()}
	p.info, p.path = kbuildtest.Image(t, p.image), kbuildtest.Toolkit(t, p.toolkit, release, script)
	return p
}

// run starts the toolkit container. stop ends it as the kubelet does; ended waits for its end.
func (p *pod) run() (stop func(), ended func() error) {
	ctx, stop := context.WithCancel(p.t.Context())
	b := Builder{Dir: p.dir, Log: p.log.Logger(), Path: p.path, Root: p.toolkit, Scratch: filepath.Join(p.toolkit, "scratch")}
	result := make(chan error, 1)
	go func() { result <- b.Run(ctx) }()
	ended = sync.OnceValue(func() error { return <-result })
	p.t.Cleanup(func() { stop(); _ = ended() })
	return stop, ended
}

// job is what the driver container wants; it accepts modules of this driver for this kernel.
func (p *pod) job() Job {
	return Job{Dir: p.dir, Timeout: waitLimit, Logger: p.log.Logger(), Waits: func(string) {}, Kernel: kbuildtest.Kernel,
		Request: modules.Request{Image: p.image, Info: p.info, Flavour: driverinfo.Proprietary, Modules: kbuildtest.Modules[:3],
			Optional: kbuildtest.Modules[3:], MaxThreads: 1, Work: filepath.Join(p.t.TempDir(), "work")},
		Fits: func(k kbuild.Key) bool {
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

func missing(path string) bool { _, err := os.Lstat(path); return err != nil }

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
