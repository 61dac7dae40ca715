package lint

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// commandLimit bounds each command; the slowest one compiles modules for two kernels.
const commandLimit = 30 * time.Minute

// shell runs commands as a person would who has cloned the repository.
type shell struct {
	t          *testing.T
	repository string
	dir        string // of everything here
	clone      string // of the repository, where the commands run
	site       string // where those of the site run
	env        []string
	siteHost   string // of the site's registry
}

// newShell clones the repository and starts two registries, origin and site.
func newShell(t *testing.T) *shell {
	t.Helper()
	dir, err := os.MkdirTemp("", "pages-") //nolint:usetesting // the name of a test is too long for sockets of BuildKit
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	s := &shell{t: t, repository: require.Value(tool.Project())(t), dir: dir, clone: dir + "/driver-container", site: dir + "/site"}
	ca := testcert.Authority("pages")
	trusted := testfile.Write(t, dir+"/ca.pem", ca.CertPEM())
	ca.Server("127.0.0.1").Write(t, dir+"/server.pem", dir+"/server-key.pem")
	s.env = append(os.Environ(), "DRIVER_BUILD_CA="+trusted, "DOCKER_CONFIG="+dir+"/docker", "PATH="+s.clone+"/bin:"+os.Getenv("PATH"))
	s.in(s.repository, s.env, "git clone -q --shared . "+s.clone)
	testfile.Write(t, s.clone+"/password", "correct horse")
	testfile.Write(t, dir+"/htpasswd", s.run("htpasswd -Bbn builder 'correct horse'"))
	tls := fmt.Sprintf("tls: {certificate: %[1]s/server.pem, key: %[1]s/server-key.pem}", dir)
	users := fmt.Sprintf("auth: {htpasswd: {realm: pages, path: %s/htpasswd}}\n", dir)
	s.siteHost = imagetest.DockerRegistry(t, dir+"/registry-site", tls, "")
	s.env = append(s.env, "ORIGIN="+imagetest.DockerRegistry(t, dir+"/registry-origin", tls, users), "SITE="+s.siteHost)
	s.matrix()
	return s
}

// run runs a command in the clone and returns its stdout. If it fails, the test ends.
func (s *shell) run(text string) string {
	s.t.Helper()
	return s.in(s.clone, s.env, text)
}

func (s *shell) in(cwd string, env []string, text string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), commandLimit)
	defer cancel()
	begin := time.Now()
	out := require.Value(tool.Run(ctx, cwd, env, "bash", "-euo", "pipefail", "-c", text))(s.t)
	s.t.Logf("%s: %s", text, time.Since(begin).Round(100*time.Millisecond))
	return out
}
