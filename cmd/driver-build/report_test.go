package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
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
		file := u.Path("page.html")
		r := u.tool(t, "report --releases none --arch amd64,arm64 --html "+file+" "+args).Want(t, 0)
		assert.Equalf(t, "", r.Stdout, "stdout")
		text := require.Value(os.ReadFile(file))(t)
		return string(text)
	}
	first := page("")
	if count(first, "buildable") != 3 || count(first, "excluded") == 0 || !strings.Contains(first, "No registry was asked") || u.Requests("/v2/gpu") != 0 {
		t.Errorf("without a registry: %d can be built, %d cannot", count(first, "buildable"), count(first, "excluded"))
	}
	assert.Equalf(t, first, page(""), "the same inputs gave another page")
	if empty := page("--repository " + repository); count(empty, "missing") != 3 {
		t.Errorf("an empty registry: %d are missing", count(empty, "missing"))
	}
	built := u.Run(t, "--os", "debian12", "--driver", newDriver, "--arch", "amd64", "--push", "--repository", repository).Want(t, 0)
	got := page("--repository " + repository)
	for _, want := range []string{built.Digest(t), newDriver + "-debian12", `datetime="2027-01-15T08:00:00Z"`, "As of"} {
		assert.Containsf(t, got, want, "the page")
	}
	if count(got, "built") != 1 || count(got, "missing") != 3 {
		t.Errorf("%d built, %d missing", count(got, "built"), count(got, "missing"))
	}
	// The base changes: with --compare the image is out of date.
	assert.Equalf(t, 1, count(page("--compare --repository "+repository), "built"), "what was just built is not up to date")
	p := u.Archives["debian12"].Find("make", "amd64")
	p.Control = strings.Replace(p.Control, "Version: ", "Version: 9:", 1)
	u.Archives["debian12"].Publish()
	if old := page("--compare --repository " + repository); count(old, "out-of-date") != 1 || !strings.Contains(old, "other packages, options or driver-build") {
		t.Errorf("%d out of date", count(old, "out-of-date"))
	}
	if some := page("--os debian12 --title Ours"); strings.Contains(some, "ubuntu16.04") || !strings.Contains(some, "<h1>Ours</h1>") {
		t.Error("the page shows what was not asked for")
	}
	r := u.tool(t, "report --html - --arch amd64,arm64 --releases none --offline --repository "+repository)
	r.Want(t, 0, "note: the registry was not asked (--offline)")
	if !strings.HasPrefix(r.Stdout, "<!doctype html>") || count(r.Stdout, "buildable") != 3 {
		t.Errorf("%.200s", r.Stdout)
	}
}

func TestReportFails(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	old := u.file(t, "page.html", "old")
	for args, want := range map[string]struct {
		code int
		part string
	}{
		"":                                     {2, "give --html FILE"},
		"--html " + old + "/x --releases none": {2, "is no folder"},
		"--html " + old + " --releases none --repository 127.0.0.1:1/x --insecure-registry": {4, "127.0.0.1:1"},
	} {
		u.tool(t, "report "+args).Want(t, want.code, want.part)
	}
	// A registry that does not answer for an image is reported; a registry that lists no tags is still asked for
	// images.
	u.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	r := u.tool(t, "report --html - --arch amd64,arm64 --releases none --os debian12 --repository "+u.Host+"/gpu/driver")
	r.Want(t, 0, "note: images with compiled modules are not shown")
	assert.Equalf(t, 1, count(r.Stdout, "unknown"), "unknown")
	assert.Equalf(t, "old", string(require.Value(os.ReadFile(old))(t)), "the page that was there")
}
