package main

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/status"
)

func (u *user) plan(t *testing.T, args string) result {
	t.Helper()
	return u.tool(t, "plan --repository "+u.Host+"/gpu/driver "+args)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const both = "--arch amd64,arm64 "
	push := func(args string) {
		t.Helper()
		u.Run(t, strings.Fields(args+" --push --repository "+u.Host+"/gpu/driver")...).Want(t, 0)
	}
	first := u.plan(t, both).Want(t, 0)
	goldentest.Compare(t, "testdata/plan.table", u.Normal(first.Stdout))
	assert.Equal(t, first.Stdout, u.plan(t, both).Stdout)
	r := u.plan(t, both+"--format github").Want(t, 0)
	goldentest.Compare(t, "testdata/plan.github", strings.ReplaceAll(u.Normal(r.Stdout), u.Dir, "DIR"))
	var matrix struct{ Include []map[string]string }
	if err := json.Unmarshal([]byte(r.Stdout), &matrix); err != nil || len(matrix.Include) != 5 || strings.Count(r.Stdout, "\n") != 1 {
		t.Errorf("%v: %s", err, r.Stdout)
	}
	r = u.plan(t, both+"--format gitlab").Want(t, 0)
	goldentest.Compare(t, "testdata/plan.gitlab", strings.ReplaceAll(u.Normal(r.Stdout), u.Dir, "DIR"))
	for _, entry := range matrix.Include { // what a pipeline does with it
		push(entry["args"])
	}
	for format, want := range map[string]string{"table": "TAG  ARCH  REASON\n", "json": "{\n  \"schema\": 1,\n  \"items\": []\n}\n", "github": `{"include":[]}` + "\n"} {
		r := u.plan(t, both+"--format "+format).Want(t, 0, "note: all 5 images are up to date")
		assert.Equalf(t, want, r.Stdout, "%s", format)
	}
	var child map[string]struct{ Script []string }
	r = u.plan(t, both+"--format gitlab")
	goldentest.Compare(t, "testdata/plan-empty.gitlab", r.Stdout)
	if err := yaml.Load([]byte(r.Stdout), &child); err != nil || len(child) != 1 || len(child["nothing-to-build"].Script) != 1 {
		t.Errorf("%v: %s", err, r.Stdout)
	}
	// A package of one system gets a newer version: the images of that system are out of date.
	p := u.Archives["ubuntu18.04"].Find("make", "amd64")
	p.Control = strings.Replace(p.Control, "Version: ", "Version: 9:", 1)
	u.Archives["ubuntu18.04"].Publish()
	r = u.plan(t, both)
	if strings.Count(r.Stdout, "-ubuntu18.04") != 2 || strings.Count(r.Stdout, "\n") != 3 || !strings.Contains(r.Stdout, " out of date: other packages") {
		t.Error(r.Stdout)
	}
	if r = u.plan(t, both+"--profile compute --os debian12 --driver "+newDriver); !strings.Contains(r.Stdout, "out of date: its profile is full, now compute") {
		t.Error(r.Stdout)
	}
}

// TestPlanKernels: the plan names each kernel, so that every job builds what was planned.
func TestPlanKernels(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	args := func(flags string) (all []string) {
		t.Helper()
		r := u.plan(t, "--os debian12 --arch amd64 --format json "+flags).Want(t, 0)
		for _, task := range commandtest.Items[status.Task](t, r, "plan.schema.json") {
			all = append(all, task.Tag+" "+task.Args)
		}
		return all
	}
	got := strings.Join(args("--kernel latest:2 --modules nvidia,nvidia-uvm"), "\n")
	for _, k := range []string{imagetest.Kernel, imagetest.OldKernel} {
		if !strings.Contains(got, "535.261.03-"+k+"-debian12 --os debian12 --driver 535.261.03 --arch amd64 --kernel "+k+" --modules nvidia,nvidia-uvm --matrix") {
			t.Errorf("%s is not planned: %s", k, got)
		}
	}
	if got := args("--no-toolchain"); len(got) != 1 || !strings.HasPrefix(got[0], "535.261.03-debian12 ") || !strings.Contains(got[0], " --no-toolchain ") {
		t.Errorf("%q", got)
	}
	u.tool(t, "lock --os debian12 --arch amd64 --kernel latest").Want(t, 0)
	u.offers("debian12", "6.1.0-99-amd64")
	dists := u.Requests("/dists/")
	if got := args("--kernel latest"); len(got) != 1 || !strings.Contains(got[0], "--kernel "+imagetest.Kernel+" ") {
		t.Errorf("%q", got)
	}
	set := args("--kernel latest --profile modules") // from the same entry of the lock
	if len(set) != 1 || !strings.HasPrefix(set[0], "535.261.03-"+imagetest.Kernel+"-debian12-modules ") || !strings.Contains(set[0], " --profile modules ") {
		t.Errorf("%q", set)
	}
	u.Run(t, append(strings.Fields(strings.SplitN(set[0], " ", 2)[1]), "--dry-run")...).Want(t, 0)
	assert.Equalf(t, dists, u.Requests("/dists/"), "with a lock the repositories were asked")
	u.Run(t, append(strings.Fields(strings.SplitN(args("--kernel latest")[0], " ", 2)[1]), "--dry-run")...).Want(t, 0)
}

func TestPlanFailures(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	r := u.Run(t, "plan", "--repository", u.Host+"/x", "--matrix", "../../matrix.yaml")
	r.Want(t, 2, "choose some with --os and --driver", "driver-build matrix init", "--all")
	u.tool(t, "plan").Want(t, 2, "--repository")
	u.tool(t, "plan --repository localhost:1/x").Want(t, 4, "localhost:1")
	u.plan(t, "--kernel latest --module-cert /no/such").Want(t, 2, "/no/such")
	require.NoError(t, oci.WriteLayout(t.Context(), u.Path("layout"), "x", imagetest.RandomImage(t, "amd64", 10, "x")))
	layout := "oci:" + u.Path("layout") // no base of debian12
	u.plan(t, "--base "+layout+" --os debian12 --driver "+newDriver).Want(t, 0)
	require.NoError(t, os.Rename(strings.TrimPrefix(layout, "oci:"), u.Path("a b")))
	u.Run(t, "plan", "--matrix", u.Path("matrix.yaml"), "--repository", u.Host+"/x", "--base", "oci:"+u.Path("a b"), "--os", "debian12", "--driver", newDriver).Want(t, 2, "cannot be an argument")
	u.Archives["ubuntu18.04"].Packages = u.Archives["ubuntu18.04"].Packages[:3]
	u.Archives["ubuntu18.04"].Publish()
	r = u.plan(t, "--os ubuntu18.04").Want(t, 0)
	assert.Equalf(t, 2, strings.Count(r.Stdout, " cannot be planned: "), "%v", r.Stdout)
}

// TestPlanOutage: images whose base is out of reach are no jobs, and one line says so for each registry.
func TestPlanOutage(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	all := u.plan(t, "--format json").Want(t, 0)
	u.Fault(refuse(500, "/v2/base/debian12"))
	u.Cache = t.TempDir()
	r := u.plan(t, "--format json --at 2020-01-01")
	r.Want(t, 0, "left out, because a build cannot work now: registry "+u.Host+": ", "-debian12")
	if strings.Count(r.Stderr, "warning: ") != 1 || strings.Contains(r.Stdout, "-debian12\"") || !strings.Contains(r.Stdout, "-ubuntu18.04\"") || !strings.Contains(all.Stdout, "-debian12\"") {
		t.Errorf("%s\n%s", r.Stderr, r.Stdout)
	}
	u.plan(t, "--os debian12").Want(t, 4, "nothing else is to be built", "500")
	u.Fault(nil)
	_, ca := commandtest.SignKey(t)
	r = u.plan(t, "--os debian12 --format json --insecure-registry --ca "+ca+" --registry-mirror docker.io=m.example:5000/hub").Want(t, 0)
	assert.Contains(t, r.Stdout, " --insecure-registry ")
	assert.Contains(t, r.Stdout, " --ca "+ca+" --registry-mirror docker.io=m.example:5000/hub\"")
}

func rows(t *testing.T, r result) map[string]status.Checked {
	t.Helper()
	all := map[string]status.Checked{}
	for _, row := range commandtest.Items[status.Checked](t, r, "check.schema.json") {
		all[row.Tag+" "+row.Arch] = row
	}
	return all
}

func TestCheck(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	repository := u.Host + "/gpu/driver"
	u.Run(t, "--os", "debian12", "--driver", newDriver, "--push", "--repository", repository).Want(t, 0)
	before := u.Requests("/dists/")
	r := u.tool(t, "check --arch amd64,arm64 --repository "+repository).Want(t, 0)
	goldentest.Compare(t, "testdata/check.table", regexp.MustCompile(`sha256:[0-9a-f]{12}`).ReplaceAllString(u.Normal(r.Stdout), "sha256:DIGEST"))
	if n := u.Requests("/dists/") - before; n > 12 { // an InRelease and its indexes for each of five places
		t.Errorf("%d questions about indexes", n)
	}
	if n := u.Requests("418.87.01.run"); n != 1 {
		t.Errorf("the archive of one driver for two systems was asked for %d times", n)
	}
	r = u.tool(t, "check -o json --os debian12 --arch amd64 --base "+u.Host+"/none/such:1").Want(t, 3, "1 of 1 pairs")
	if row := rows(t, r)["535.261.03-debian12 amd64"]; row.Base.State != status.VerdictFailed || !strings.Contains(row.Base.Detail, "none/such") {
		t.Errorf("%+v", row.Base)
	}
	r = u.tool(t, "check -o json --os debian12 --arch amd64,arm64 --repository "+repository).Want(t, 0)
	all := rows(t, r)
	if row := all["535.261.03-debian12 amd64"]; row.Image.State != status.Current || row.Headers.State != status.VerdictOK || row.Kernel != imagetest.Kernel || row.Kernels != 3 || row.Archive.State != status.VerdictNone || row.Broken {
		t.Errorf("%+v", row)
	}
	if row := all["418.87.01-debian12 amd64"]; !strings.Contains(row.Excluded, "kernel-too-new") || row.Base != nil {
		t.Errorf("%+v", row)
	}
	if row := all["535.261.03-debian12 arm64"]; row.Image.State != status.Missing { // one image, of the other architecture
		t.Errorf("%+v", row.Image)
	}
}

// TestCheckBroken: a fault is reported for the pairs that need the broken part, and for no others.
func TestCheckBroken(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Put(imagetest.RunPath(oldDriver, "amd64"), []byte("short"))
	u.Archives["ubuntu18.04"].Packages = u.Archives["ubuntu18.04"].Packages[:3]
	u.Archives["ubuntu18.04"].Publish()
	u.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/base/ubuntu16.04/") {
			http.NotFound(w, r)
			return true
		}
		return false
	})
	r := u.tool(t, "check -o json --repository localhost:1/gpu/driver").Want(t, 3, "pairs cannot be built")
	all := rows(t, r)
	for pair, want := range map[string][3]string{
		"418.87.01-ubuntu16.04 amd64":  {status.VerdictFailed, status.VerdictFailed, status.VerdictUnknown},
		"535.261.03-ubuntu16.04 amd64": {status.VerdictFailed, status.VerdictOK, status.VerdictUnknown},
		"418.87.01-ubuntu18.04 amd64":  {status.VerdictOK, status.VerdictFailed, status.VerdictFailed},
		"535.261.03-debian12 amd64":    {status.VerdictOK, status.VerdictNone, status.VerdictOK},
	} {
		row := all[pair]
		if got := [3]string{row.Base.State, row.Archive.State, row.Headers.State}; got != want || row.Broken == (pair == "535.261.03-debian12 amd64") {
			t.Errorf("%s: %v, want %v, %+v", pair, got, want, row)
		}
		if row.Image.State != status.Unknown || row.Image.Why == "" {
			t.Errorf("%s: %+v", pair, row.Image)
		}
	}
	assert.Contains(t, all["418.87.01-ubuntu18.04 amd64"].Archive.Detail, "has 5 bytes, and should have ")
	r = u.tool(t, "check").Want(t, 3)
	assert.Contains(t, r.Stdout, "2 targets: 418.87.01-ubuntu16.04 amd64, 535.261.03-ubuntu16.04 amd64\n")
	assert.Equalf(t, 3, strings.Count(r.Stdout, "cause 1"), "a cause is named for its pairs, and said once: %s", r.Stdout)
}

// TestCheckComponents: an archive of a component that is not there, or that has another size,
// breaks its pair.
func TestCheckComponents(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.withComponents(t, twoComponents())
	check := func(code int, flags string) status.Checked {
		r := u.components(t, "check -o json --os ubuntu18.04 --driver "+newDriver+flags).Want(t, code)
		return rows(t, r)[newDriver+"-ubuntu18.04 amd64"]
	}
	row := check(3, "") // no repository of this world has ibstat, which a fabric manager needs
	assert.Equal(t, "fabricmanager "+newDriver+", imex "+newDriver, row.Components.Detail)
	u.Put("/redist/imex-linux-x86_64-"+newDriver+"-archive.tar.xz", []byte("a size that lies"))
	row = check(3, "")
	if row.Components.State != status.VerdictFailed || !row.Broken || !strings.Contains(row.Components.Detail, "imex: ") || !strings.Contains(row.Components.Detail, "has 16 bytes, and should have 4") {
		t.Errorf("%+v", row.Components)
	}
	row = check(0, " --no-fabric")
	assert.Equal(t, status.VerdictNone, row.Components.State)
}

// TestCheckLock: a locked file that was removed breaks its pair, although the repositories have a newer one.
func TestCheckLock(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.tool(t, "lock --os debian12 --arch amd64,arm64").Want(t, 0)
	r := u.tool(t, "check -o json --arch amd64,arm64").Want(t, 0)
	all := rows(t, r)
	if row := all["535.261.03-debian12 arm64"]; row.Lock.State != status.VerdictOK || !strings.HasPrefix(row.Lock.Detail, "base and ") || row.Image != nil {
		t.Errorf("%+v", row.Lock)
	}
	if row := all["535.261.03-ubuntu16.04 amd64"]; row.Lock.State != status.VerdictNone {
		t.Errorf("%+v", row.Lock)
	}
	gone := u.Archives["debian12"].Path(*u.Archives["debian12"].Find("libtirpc3", "amd64"))
	u.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == gone {
			http.NotFound(w, r)
		}
		return r.URL.Path == gone
	})
	r = u.tool(t, "check -o json --arch amd64,arm64").Want(t, 3)
	all = rows(t, r)
	if row := all["535.261.03-debian12 amd64"]; row.Lock.State != status.VerdictFailed || !strings.Contains(row.Lock.Detail, "404") || all["535.261.03-debian12 arm64"].Broken {
		t.Errorf("%+v", row)
	}
	u.Fault(func(w http.ResponseWriter, r *http.Request) bool { // as repositories of a subscription answer
		if r.URL.Path == gone {
			http.Error(w, "no certificate", http.StatusForbidden)
		}
		return r.URL.Path == gone
	})
	r = u.tool(t, "check -o json --os debian12").Want(t, 0)
	if row := rows(t, r)["535.261.03-debian12 amd64"]; row.Lock.State != status.VerdictUnknown || !strings.Contains(row.Lock.Detail, "1 of ") {
		t.Errorf("%+v", row.Lock)
	}
}
