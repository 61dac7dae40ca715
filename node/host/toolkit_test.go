package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/drivertoolkit"
)

// besideToolkit returns the supplier of an image in a pod with a toolkit whose make runs a script.
func besideToolkit(t *testing.T, script string) (*supply, drivertoolkit.Builder) {
	t.Helper()
	s := signing(t, "")
	s.toolkitImage, s.cfg.Toolkit, s.cfg.ToolkitTimeout = t.TempDir(), t.TempDir(), 2*time.Minute
	s.info = kbuildtest.Image(t, s.toolkitImage)
	root := t.TempDir()
	path := kbuildtest.Toolkit(t, root, imageKernel, script)
	return s, drivertoolkit.Builder{Dir: s.cfg.Toolkit, Log: logtest.New(t), Path: path, Root: root, Scratch: filepath.Join(t.TempDir(), "scratch")}
}

// runToolkit is the toolkit container; it has ended when stop returns.
func runToolkit(t *testing.T, b drivertoolkit.Builder) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}
}

// TestToolkitFallback: without an answer this container compiles, if it can. A driver that does not compile
// in the toolkit is not compiled again.
func TestToolkitFallback(t *testing.T) {
	t.Parallel()
	w := node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel, Modules: kbuildtest.Modules[:3]}
	var warned []string
	told := node.CompileEvents{Waits: func(string) {}, Warn: func(format string, args ...any) { warned = append(warned, fmt.Sprintf(format, args...)) }}
	s, b := besideToolkit(t, "echo 'nv.c:1: error: no such thing'; exit 2")
	s.cfg.ToolkitTimeout = 100 * time.Millisecond
	_, err := s.Compile(t.Context(), w, told)
	if !errors.As(err, new(*drivertoolkit.UnavailableError)) || !strings.HasSuffix(err.Error(), "; this image has no compiler of its own") || len(warned) > 0 {
		t.Errorf("%v, %q", err, warned)
	}
	s.info.Toolchain = true
	_, err = s.Compile(t.Context(), w, told)
	require.ErrorAs[*buildtree.NoHeadersError](t, err)
	assert.ErrorContains(t, err, "did not begin within 100ms")
	if len(warned) != 1 || !strings.Contains(warned[0], "did not begin within 100ms") || !strings.HasSuffix(warned[0], "this container compiles, with headers of the package repositories unless the node has them") {
		t.Errorf("%q", warned)
	}
	defer runToolkit(t, b)()
	s.cfg.ToolkitTimeout = 2 * time.Minute
	_, err = s.Compile(t.Context(), w, told)
	require.ErrorAs[*kbuild.CompileError](t, err)
	assert.Equal(t, 1, len(warned))
	s.cfg.ToolkitMissing = "driver-toolkit:418.94.1"
	begin := time.Now()
	_, err = s.Compile(t.Context(), w, told)
	assert.Equalf(t, true, errors.As(err, new(*buildtree.NoHeadersError)) && time.Since(begin) < time.Minute, "an image that is missing is waited for: %v", err)
}
