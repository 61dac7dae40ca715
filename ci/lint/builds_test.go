package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/ci/testkit/tool"
)

// atSite are parts of the commands of the page trust that belong to the site. They run in its folder,
// with its cache.
var atSite = []string{"$SITE", "--offline", "mkdir mirror"}

// TestBuilds runs what the pages do without a cluster, in a fresh clone of this repository: with Debian's
// repositories, a registry of the origin with a password, and a registry of the site. The site has a cache
// and a folder of its own, into which the bundle is carried. Each page can run alone: -run TestBuilds/trust.
func TestBuilds(t *testing.T) {
	tool.Real(t, "it builds images from Debian's repositories and pushes them to real registries")
	tool.Program(t, "htpasswd", "apache2-utils")
	s := newShell(t)
	s.prepare()
	for _, name := range Names {
		if all := commands(t, name, byBuilds); len(all) > 0 {
			t.Run(name, func(t *testing.T) {
				page := *s
				page.t = t
				page.before(name)
				for _, c := range all {
					page.command(name, c)
				}
			})
		}
	}
}

// prepare puts the base where the matrix's mirror looks for it, and finds the kernels that there are now.
func (s *shell) prepare() {
	s.t.Helper()
	base := strings.TrimSpace(s.run(filepath.Join(s.repository, "ci/base") + " debian12 amd64"))
	base = base[strings.LastIndex(base, "\n")+1:]
	program := filepath.Join(s.repository, "bin", "driver-build") // make e2e-full has built it
	s.run(program + " push " + base + " $SITE/library/debian:12-slim")
	kernels := strings.Fields(s.run(program + ` kernels --os debian12 --kernel-flavour amd64 | awk '$5 == "yes" {print $3}' | sort -V | tail -2`))
	if len(kernels) != 2 {
		s.t.Fatalf("the repository has the kernels %q, want two", kernels)
	}
	s.env = append(s.env, "OLDER_KERNEL="+kernels[0], "KERNEL="+kernels[1])
}

// before does what a page takes for granted: the programs and the login of the page about installing, keys, an image.
func (s *shell) before(name string) {
	s.t.Helper()
	if name == "install" {
		return
	}
	s.run("test -e bin || ln -s " + s.repository + "/bin bin") // for a page that runs alone
	s.run(logIn + " && rm -f matrix.lock")                     // a page has its own lock
	switch name {
	case "build":
		s.run("driver-build --os debian12 --driver 535.261.03 --output oci:dist && driver-build --os debian12 --driver 535.261.03 --output oci-archive:driver.tar")
	case "kernels":
		testcert.Authority("modules").Write(s.t, s.clone+"/cert.pem", s.clone+"/key.pem")
	case "trust": // an image that is signed, with its provenance
		for _, key := range []string{"image", "site"} {
			s.run(fmt.Sprintf("openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out %[1]s.key && openssl pkey -in %[1]s.key -pubout -out %[1]s.pub", key))
		}
		s.run("driver-build --os debian12 --driver 535.261.03 --push --repository $ORIGIN/gpu/driver --image-key image.key --provenance --sbom")
		require.NoError(s.t, os.MkdirAll(s.site, 0o755))
		for _, file := range []string{"fleet.tar", "image.pub", "site.key"} {
			require.NoError(s.t, os.Symlink(filepath.Join(s.clone, file), filepath.Join(s.site, file)))
		}
	}
}

// command runs a command of a page; it has to end with 0.
func (s *shell) command(name string, c Command) {
	s.t.Helper()
	text := substitute(c.Text)
	cwd, env := s.clone, s.env
	if name == "trust" && slices.ContainsFunc(atSite, func(part string) bool { return strings.Contains(text, part) }) {
		cwd, env = s.site, append(slices.Clone(env), "DRIVER_BUILD_CACHE="+s.dir+"/site-cache")
	}
	s.in(cwd, env, text)
}

func substitute(text string) string {
	text += " "
	for _, s := range substitutions {
		text = strings.ReplaceAll(text, s[0], s[1])
	}
	return strings.TrimSpace(text)
}

// matrix writes the rows that the pages use, with the site's registry as a mirror of Docker's.
func (s *shell) matrix() {
	s.t.Helper()
	s.run("rm -r matrix.yaml patches && " + s.repository + "/bin/driver-build matrix init --os debian12 --driver 470.256.02,535.261.03")
	file := filepath.Join(s.clone, "matrix.yaml")
	text := strings.Replace(testfile.Read(s.t, file), "defaults:\n", "defaults:\n  mirrors: {docker.io: ["+s.siteHost+"]}\n", 1)
	testfile.Write(s.t, file, text)
}
