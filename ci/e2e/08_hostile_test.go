package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/rpmrepo"
)

// Changes that a mirror or an attacker on the network can make to rpm repositories, each on a copy of Rocky's
// or openSUSE's. None of them results in an image, and the message names what is wrong.
func TestRPMHostile(t *testing.T) {
	journey(t)
	const rocky, leap = "rocky9", "opensuse-leap15.6"
	for _, c := range []struct {
		name, system string
		// folder of each repository by its last path element but one
		harm func(t *testing.T, repositories map[string]string, kmod string)
		code int
		says []string
	}{
		{"payload changed, index renewed", rocky, func(t *testing.T, r map[string]string, kmod string) {
			flip(t, kmod)
			reindex(t, r["BaseOS"])
		}, 5, []string{"kmod"}},
		{"signature removed, index renewed", rocky, func(t *testing.T, r map[string]string, kmod string) {
			sh(t, "rpmsign", "--delsign", kmod)
			reindex(t, r["BaseOS"])
		}, 5, []string{"kmod", "sign"}},
		{"package changed", rocky, func(t *testing.T, _ map[string]string, kmod string) { flip(t, kmod) }, 5, []string{"kmod"}},
		{"package truncated", rocky, func(t *testing.T, _ map[string]string, kmod string) {
			info := require.Value(os.Stat(kmod))(t)
			require.NoError(t, os.Truncate(kmod, info.Size()/2))
		}, 5, []string{"kmod"}},
		{"requirement unresolvable", rocky, func(t *testing.T, r map[string]string, _ string) {
			remove(t, filepath.Join(r["BaseOS"], "Packages", "jansson-[0-9]*"))
			reindex(t, r["BaseOS"])
		}, 6, []string{"binutils", "libjansson.so.4"}},
		{"signed index changed", leap, func(t *testing.T, r map[string]string, _ string) {
			name := filepath.Join(r["repo"], "repodata/repomd.xml")
			text := require.Value(os.ReadFile(name))(t)
			require.NoError(t, os.WriteFile(name, append(text, '\n', '\n'), 0o644))
		}, 5, []string{"repo-oss", "repomd.xml"}},
		{"signature of the index missing", leap, func(t *testing.T, r map[string]string, kmod string) {
			remove(t, filepath.Join(r["repo"], "repodata/repomd.xml.asc"))
			sh(t, "rpmsign", "--delsign", kmod)
			reindex(t, r["repo"])
		}, 5, []string{"sign"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, r, kmod := copied(t, c.system)
			c.harm(t, r, kmod)
			refused(t, s, freshDir(t, "cache"), c.code, c.says...)
		})
	}
}

// driver-build refuses a mirror that serves an older index than it has seen before, judged by the index's
// revision. It accepts the mirror's own newer index.
func TestRPMRollback(t *testing.T) {
	journey(t)
	s, r, _ := copied(t, "rocky9")
	old := filepath.Join(scratch(t), "old")
	sh(t, "cp", "-a", filepath.Join(r["BaseOS"], "repodata"), old)
	reindex(t, r["BaseOS"])
	cache := freshDir(t, "cache")
	s.command(t, filepath.Join(scratch(t), "new"), "--cache", cache).want(t, 0)
	require.NoError(t, os.RemoveAll(filepath.Join(r["BaseOS"], "repodata")))
	require.NoError(t, os.Rename(old, filepath.Join(r["BaseOS"], "repodata")))
	// otherwise the server would answer that the file is not newer
	sh(t, "find", r["BaseOS"], "-name", "repomd.xml", "-exec", "touch", "-d", "+1 minute", "{}", "+")
	refused(t, s, cache, 5, "baseos", "older")
}

// refused builds with a cache of its own and expects a failure that leaves no image.
func refused(t *testing.T, s target, cache string, code int, says ...string) {
	t.Helper()
	out := filepath.Join(scratch(t), "dist")
	r := s.command(t, out, "--cache", cache).do(t)
	if r.code != code {
		t.Errorf("exit code %d, want %d\n%s", r.code, code, r)
	}
	last := lastLine(r.stderr)
	for _, word := range says {
		assert.Containsf(t, last, word, "the message does not speak of")
	}
	t.Logf("exit code %d: %s", r.code, last)
	assert.ErrorIsf(t, assert.Err(os.Stat(filepath.Join(out, "index.json"))), fs.ErrNotExist, "there is an image")
}

// copied returns a system whose repositories are copies that a test may change: their folders by the last
// path element but two, and the package of kmod.
func copied(t *testing.T, system string) (s target, repositories map[string]string, kmod string) {
	t.Helper()
	repo := require.Value(rpmrepo.Make(t.Context(), rpmrepo.Options{System: system}))(t)
	www := filepath.Join(scratch(t), "www")
	sh(t, "cp", "-a", repo.WWW(), www)
	repositories = map[string]string{}
	require.NoError(t, filepath.WalkDir(www, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "repodata" {
			dir := filepath.Dir(name)
			parent := filepath.Base(filepath.Dir(dir))
			if parent == "x86_64" {
				parent = filepath.Base(filepath.Dir(filepath.Dir(dir)))
			}
			repositories[parent] = dir
		}
		return err
	}))
	for _, dir := range repositories {
		found := require.Value(filepath.Glob(filepath.Join(dir, "Packages", "kmod-[0-9]*")))(t)
		if len(found) == 1 {
			kmod = found[0]
		}
	}
	return serveTarget(t, system, repo.Base(), www), repositories, kmod
}

// reindex publishes a changed folder, as a person who controls a mirror can: without the distribution's key.
func reindex(t *testing.T, dir string) {
	t.Helper()
	sh(t, "createrepo_c", "--quiet", "--revision", "1800000000", dir)
}

// flip changes one byte near the end of a file.
func flip(t *testing.T, name string) {
	t.Helper()
	data := require.Value(os.ReadFile(name))(t)
	data[len(data)-100] ^= 0x40
	require.NoError(t, os.WriteFile(name, data, 0o644))
}

func remove(t *testing.T, pattern string) {
	t.Helper()
	found := require.Value(filepath.Glob(pattern))(t)
	if len(found) != 1 {
		t.Fatalf("%s is %q, want one file", pattern, found)
	}
	require.NoError(t, os.Remove(found[0]))
}

func freshDir(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(scratch(t), name)
}
