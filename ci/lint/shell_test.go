package lint

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/assert"
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
	hosts      map[string]string
}

// newShell clones the repository and starts two registries, origin and site.
func newShell(t *testing.T) *shell {
	t.Helper()
	dir, err := os.MkdirTemp("", "pages-") //nolint:usetesting // the name of a test is too long for sockets of BuildKit
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	s := &shell{t: t, repository: require.Value(tool.Project())(t), dir: dir, clone: dir + "/driver-container", site: dir + "/site", hosts: map[string]string{}}
	ca := testcert.Authority("pages")
	trusted := testfile.Write(t, dir+"/ca.pem", ca.CertPEM())
	ca.Server("127.0.0.1").Write(t, dir+"/server.pem", dir+"/server-key.pem")
	s.env = append(os.Environ(), "DRIVER_BUILD_CA="+trusted, "DOCKER_CONFIG="+dir+"/docker", "PATH="+s.clone+"/bin:"+os.Getenv("PATH"))
	s.in(s.repository, s.env, "git clone -q --shared . "+s.clone)
	testfile.Write(t, s.clone+"/password", "correct horse")
	testfile.Write(t, dir+"/htpasswd", s.run("htpasswd -Bbn builder 'correct horse'"))
	s.registry("origin", fmt.Sprintf("auth: {htpasswd: {realm: pages, path: %s/htpasswd}}\n", dir))
	s.registry("site", "")
	s.env = append(s.env, "ORIGIN="+s.hosts["origin"], "SITE="+s.hosts["site"])
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

// registry starts Debian's docker-registry with TLS until the test ends.
func (s *shell) registry(name, more string) {
	s.t.Helper()
	listener := require.Value(net.Listen("tcp", "127.0.0.1:0"))(s.t)
	s.hosts[name] = listener.Addr().String()
	require.NoError(s.t, listener.Close())
	config := testfile.Write(s.t, s.dir+"/"+name+".yml", fmt.Sprintf(`version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %[1]s/registry-%[2]s}}
http: {addr: %[3]s, tls: {certificate: %[1]s/server.pem, key: %[1]s/server-key.pem}}
%[4]s`, s.dir, name, s.hosts[name], more))
	cmd := exec.Command("docker-registry", "serve", config)
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // returns that the process was killed
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", s.hosts[name], time.Second)
		if err == nil {
			require.NoError(s.t, conn.Close())
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("docker-registry does not listen on %s: %v", s.hosts[name], err)
		}
	}
}
