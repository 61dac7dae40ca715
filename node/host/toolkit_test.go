package host

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/kbuildtest"
	"github.com/driver-container/driver-container/ci/testkit/logtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/drivertoolkit"
	"github.com/driver-container/driver-container/node/status"
)

// besideToolkit returns the supplier of an image in a pod with a toolkit whose make runs a script.
func besideToolkit(t *testing.T, script string) (*supply, drivertoolkit.Builder) {
	t.Helper()
	s := signing(t, "")
	s.toolkitImage, s.cfg.Toolkit, s.cfg.ToolkitTimeout = t.TempDir(), t.TempDir(), 2*time.Minute
	s.info = kbuildtest.Image(t, s.toolkitImage)
	root := t.TempDir()
	path := kbuildtest.Toolkit(t, root, imageKernel, script)
	return s, drivertoolkit.Builder{Dir: s.cfg.Toolkit, Log: logtest.New(t), Path: path, Root: root, Scratch: filepath.Join(t.TempDir(), "scratch"), Poll: 20 * time.Millisecond}
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

// TestToolkitKey: modules and companions of the toolkit container are signed with the node's key, like those
// that are compiled here. The key stays out of the shared folder, and so do signatures. Another container of
// the pod takes the unsigned modules from there and signs them with its own key.
func TestToolkitKey(t *testing.T) {
	t.Parallel()
	s, b := besideToolkit(t, "cp KOS/*.ko .")
	s.info.Companions = kbuildtest.Companions(t, s.toolkitImage, filepath.Join(b.Path, "gcc-12"))
	stop := runToolkit(t, b)
	w := node.Want{Driver: v535, Flavour: driverinfo.Proprietary, Release: imageKernel, Modules: kbuildtest.Modules, Companions: driverinfo.Companions()}
	told := node.CompileEvents{Waits: func(string) {}, Warn: func(format string, args ...any) { t.Errorf(format, args...) }}
	for _, name := range []string{"A", "B"} {
		pair := testcert.New(x509.Certificate{Subject: pkix.Name{CommonName: name}}, nil)
		file := testfile.WriteMode(t, filepath.Join(t.TempDir(), "key.pem"), pair.KeyPEM()+pair.CertPEM(), 0o600)
		s.signer = require.Value(loadSigner(config.Config{SigningKey: file, Toolkit: s.cfg.Toolkit}, s.log))(t)
		s.cfg.StateDir = t.TempDir() // the operator mounts none: the cache ends with the container
		set := require.Value(s.Compile(t.Context(), w, told))(t)
		if s.Signer(set, status.Compiled) == nil {
			t.Fatal("the modules are not to be signed")
		}
		kept := require.Value(s.Keep(t.Context(), require.Value(s.Sign(t.Context(), set))(t)))(t)
		assert.Equal(t, strings.Join(append(slices.Clone(kbuildtest.Modules), w.Companions...), " "), strings.Join(names(kept), " "))
		for _, m := range kept.Modules {
			_, err := sign.VerifyFile(t.Context(), m.Path, []*x509.Certificate{pair.Certificate})
			assert.NoErrorf(t, err, "%s", m.Name)
		}
		found, source, err := s.Find(t.Context(), w)
		if err != nil || source != status.FromCache || s.Signer(found, source) != nil {
			t.Errorf("the next start: %s, %v", source, err)
		}
		assert.Equalf(t, "", strings.Join(pair.Leaks(t, s.cfg.Toolkit), " "), "files with the key")
	}
	stop()
	shared := require.Value((kbuild.Cache{Dir: filepath.Join(s.cfg.Toolkit, "modules")}).Find(t.Context(), func(kbuild.Key) bool { return true }))(t)
	if shared.SignedBy() != "" || len(shared.Certificate) > 0 {
		t.Errorf("the shared folder has modules signed by %s", shared.SignedBy())
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
	if !errors.As(err, new(*buildtree.NoHeadersError)) || !strings.Contains(err.Error(), "did not begin within 100ms") {
		t.Errorf("%v", err)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "did not begin within 100ms") || !strings.HasSuffix(warned[0], "this container compiles, with headers of the package repositories unless the node has them") {
		t.Errorf("%q", warned)
	}
	defer runToolkit(t, b)()
	s.cfg.ToolkitTimeout = 2 * time.Minute
	_, err = s.Compile(t.Context(), w, told)
	if !errors.As(err, new(*kbuild.CompileError)) || len(warned) != 1 {
		t.Errorf("%v, %q", err, warned)
	}
	s.cfg.ToolkitMissing = "driver-toolkit:418.94.1"
	begin := time.Now()
	_, err = s.Compile(t.Context(), w, told)
	assert.Equalf(t, true, errors.As(err, new(*buildtree.NoHeadersError)) && time.Since(begin) < time.Minute, "an image that is missing is waited for: %v", err)
}
