package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/node/cli"
)

// count is how many cells of a page have a state.
func count(page, state string) int {
	return strings.Count(page, `<tr role="row" class="cell" data-state="`+state+`"`)
}

func TestReport(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Env["SOURCE_DATE_EPOCH"] = "1800000000"
	repository := u.Host + "/gpu/driver"
	page := func(args string) string {
		t.Helper()
		r := u.tool(t, "report --releases none --arch amd64,arm64 --html "+u.Path("page.html")+" "+args).Want(t, 0)
		assert.Equalf(t, "", r.Stdout, "stdout")
		return testfile.Read(t, u.Path("page.html"))
	}
	first := page("")
	assert.Equalf(t, true, count(first, "buildable") == 3 && count(first, "excluded") > 0, "without a registry")
	assert.Contains(t, first, "No registry was asked")
	assert.Equal(t, 0, u.Requests("/v2/gpu"))
	assert.Equalf(t, first, page(""), "the same inputs gave another page")
	assert.Equalf(t, 3, count(page("--repository "+repository), "missing"), "an empty registry")
	built := u.Run(t, "--os", "debian12", "--driver", newDriver, "--arch", "amd64", "--push", "--repository", repository).Want(t, 0)
	got := page("--repository " + repository)
	for _, want := range []string{built.Digest(t), newDriver + "-debian12", `datetime="2027-01-15T08:00:00Z"`, "As of"} {
		assert.Containsf(t, got, want, "the page")
	}
	assert.Equalf(t, "1 3", fmt.Sprint(count(got, "built"), count(got, "missing")), "built and missing")
	// The base changes: with --compare the image is out of date.
	assert.Equalf(t, 1, count(page("--compare --repository "+repository), "built"), "what was just built is not up to date")
	p := u.Archives["debian12"].Find("make", "amd64")
	p.Control = strings.Replace(p.Control, "Version: ", "Version: 9:", 1)
	u.Archives["debian12"].Publish()
	old := page("--compare --repository " + repository)
	assert.Equalf(t, 1, count(old, "out-of-date"), "after the change")
	assert.Containsf(t, old, "other packages, options or driver-build", "after the change")
	some := page("--os debian12 --title Ours")
	assert.Equalf(t, true, strings.Contains(some, "<h1>Ours</h1>") && !strings.Contains(some, "ubuntu16.04"), "the page shows what was not asked for")
	r := u.tool(t, "report --html - --arch amd64,arm64 --releases none --offline --repository "+repository)
	r.Want(t, 0, "note: the registry was not asked (--offline)")
	assert.Equalf(t, true, strings.HasPrefix(r.Stdout, "<!doctype html>") && count(r.Stdout, "buildable") == 3, "%.200s", r.Stdout)
}

func TestReportFails(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	old := u.file(t, "page.html", "old")
	for args, want := range map[string]struct {
		code int
		part string
	}{
		"": {2, "give --html FILE"},
		"--html " + old + " --releases none --repository 127.0.0.1:1/x --insecure-registry": {4, "127.0.0.1:1"},
	} {
		u.tool(t, "report "+args).Want(t, want.code, want.part)
	}
	// A registry that does not answer for an image is reported; a registry that lists no tags is still asked for
	// images.
	u.Fault(refuse(403, "/v2/gpu/driver/"))
	r := u.tool(t, "report --html - --arch amd64,arm64 --releases none --os debian12 --repository "+u.Host+"/gpu/driver").Want(t, 0, "note: images with compiled modules are not shown")
	assert.Equalf(t, 1, count(r.Stdout, "unknown"), "unknown")
	assert.Equalf(t, "old", testfile.Read(t, old), "the page that was there")
}

// TestHelp: every command has a help that fits a terminal, an example that calls it, and a group.
func TestHelp(t *testing.T) {
	t.Parallel()
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			each(sub)
		}
		r := call(t.Context(), t, nil, append(strings.Fields(c.CommandPath())[1:], "--help")...).Want(t, 0)
		goldentest.Compare(t, "testdata/help-"+strings.TrimPrefix(strings.ReplaceAll(c.CommandPath(), " ", "-"), "driver-build-")+".txt", r.Stdout)
		assert.Equalf(t, "", r.Stderr, "%s: stderr", c.CommandPath())
		assert.Equalf(t, true, strings.Contains(c.Example, "  "+c.CommandPath()), "%s: example %q", c.CommandPath(), c.Example)
		assert.Equalf(t, true, !c.HasParent() || c.Parent().HasParent() || c.GroupID != "", "%s: in no group of the help", c.CommandPath())
		for line := range strings.Lines(r.Stdout) {
			assert.Equalf(t, true, len(line) <= cli.Width+1, "%s: %s", c.CommandPath(), line)
		}
	}
	each(newRootCmd(&session.App{}))
	said := call(t.Context(), t, nil, "version").Want(t, 0).Stdout
	assert.Equalf(t, true, strings.HasPrefix(said, "driver-build "), "%q", said)
	assert.Equal(t, said, call(t.Context(), t, nil, "--version").Want(t, 0).Stdout)
	assert.Containsf(t, call(t.Context(), t, nil, "completion", "bash").Want(t, 0).Stdout, "driver-build", "no completion")
}

func TestList(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, format := range []string{"table", "json", "yaml"} {
		r := u.on("2026-11-23").Run(t, "list", "-o", format, "--excluded").Want(t, 0)
		goldentest.Compare(t, "testdata/list."+format, r.Stdout)
	}
	r := u.Run(t, "list", "--os", "ubuntu16.04", "--driver", oldDriver).Want(t, 0)
	assert.Equalf(t, 2, strings.Count(r.Stdout, "\n"), "lines")
	assert.Contains(t, r.Stdout, "418.87.01-ubuntu16.04")
	goldentest.Schema(t, "list.schema.json", u.Run(t, "list", "-o", "json", "--excluded").Stdout)
	// The matrix in the program itself.
	r = call(t.Context(), t, nil, "list", "--os", "ubuntu16.04", "--driver", "418.87.01").Want(t, 0)
	assert.Contains(t, r.Stdout, "418.87.01-ubuntu16.04")
}

// withComponents writes a matrix, components.yaml, whose new driver has components with these archives
// for amd64.
func (u *user) withComponents(t *testing.T, archives map[string][]byte) {
	t.Helper()
	var b strings.Builder
	b.WriteString("  - version: " + newDriver + "\n    components:\n")
	for _, name := range slices.Sorted(maps.Keys(archives)) {
		path := fmt.Sprintf("/redist/%s-linux-x86_64-%s-archive.tar.xz", strings.Replace(name, "nscq", "libnvidia_nscq", 1), newDriver)
		u.Put(path, archives[name])
		fmt.Fprintf(&b, "      %s: {amd64: {url: %s, sha256: %x, size: %d}}\n", name, u.URL+path, sha256.Sum256(archives[name]), len(archives[name]))
	}
	text := strings.Replace(u.Matrix(), "  - version: "+newDriver+"\n", b.String(), 1)
	u.file(t, "components.yaml", text)
}

// twoComponents are no archives: enough for commands that do not read them.
func twoComponents() map[string][]byte {
	return map[string][]byte{"fabricmanager": []byte("fm"), "imex": []byte("imex")}
}

// components calls driver-build with that matrix.
func (u *user) components(t *testing.T, args string) result {
	t.Helper()
	return u.Run(t, append(strings.Fields(args), "--matrix", u.Path("components.yaml"))...)
}

// TestListComponents: a pair has the components whose checksum is known, and names the others.
func TestListComponents(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.withComponents(t, twoComponents())
	r := u.components(t, "list --os debian12 --driver "+newDriver).Want(t, 0)
	for _, want := range []string{"fabricmanager,imex,nscq?", "fabricmanager?,nscq?"} { // amd64, arm64
		assert.Contains(t, r.Stdout, want)
	}
	r = u.components(t, "list --os debian12 --driver "+newDriver+" --no-fabric").Want(t, 0)
	assert.Equalf(t, false, strings.Contains(r.Stdout, "nscq"), "--no-fabric: %s", r.Stdout)
}

// TestEnvironment: variables take the place of flags that are not given.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := map[string]string{"DRIVER_BUILD_CACHE": dir + "/cache", "DRIVER_BUILD_REPOSITORY": "https://registry.example.com/gpu"}
	for _, args := range []string{"--os debian12 --driver 535.261.03", "check --os debian12", "plan --all", "kernels --os debian12", "report --html -"} {
		call(t.Context(), t, env, strings.Fields(args)...).Want(t, 2, "--repository (DRIVER_BUILD_REPOSITORY)", "https://")
	}
	kernels := []string{"kernels", "--os", "debian12", "--offline", "--repository", "registry.example.com/gpu/driver"}
	call(t.Context(), t, env, kernels...).Want(t, 4, "offline")
	assert.Equal(t, "cache", strings.Join(testfile.List(t, dir), " "))
	call(t.Context(), t, env, append(kernels, "--cache", dir+"/other")...).Want(t, 4, "offline")
	assert.Equal(t, "cache other", strings.Join(testfile.List(t, dir), " "))
	env["DRIVER_BUILD_CA"] = "/no/such.pem"
	call(t.Context(), t, env, kernels...).Want(t, 2, "DRIVER_BUILD_CA", "/no/such.pem")
}
