package main

import (
	"encoding/json"
	"fmt"
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
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &matrix))
	assert.Equalf(t, "5 1", fmt.Sprint(len(matrix.Include), strings.Count(r.Stdout, "\n")), "jobs and lines: %s", r.Stdout)
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
	require.NoError(t, yaml.Load([]byte(r.Stdout), &child))
	assert.Equalf(t, "1 1", fmt.Sprint(len(child), len(child["nothing-to-build"].Script)), "jobs and their lines: %s", r.Stdout)
	// A package of one system gets a newer version: the images of that system are out of date.
	p := u.Archives["ubuntu18.04"].Find("make", "amd64")
	p.Control = strings.Replace(p.Control, "Version: ", "Version: 9:", 1)
	u.Archives["ubuntu18.04"].Publish()
	r = u.plan(t, both)
	assert.Equal(t, "2 3", fmt.Sprint(strings.Count(r.Stdout, "-ubuntu18.04"), strings.Count(r.Stdout, "\n")))
	assert.Contains(t, r.Stdout, " out of date: other packages")
	assert.Contains(t, u.plan(t, both+"--profile compute --os debian12 --driver "+newDriver).Stdout, "out of date: its profile is full, now compute")
}

// TestPlanKernels: the plan names each kernel, so that every job builds what was planned.
func TestPlanKernels(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	args := func(flags string) string {
		t.Helper()
		r := u.plan(t, "--os debian12 --arch amd64 --format json "+flags).Want(t, 0)
		var all []string
		for _, task := range commandtest.Items[status.Task](t, r, "plan.schema.json") {
			all = append(all, task.Tag+" "+task.Args)
		}
		return strings.Join(all, "\n")
	}
	one := func(planned, tag, flag string) string {
		t.Helper()
		assert.Equalf(t, true, strings.HasPrefix(planned, tag+" ") && strings.Contains(planned, flag) && !strings.Contains(planned, "\n"), "%q", planned)
		return strings.TrimPrefix(planned, tag+" ")
	}
	got := args("--kernel latest:2 --modules nvidia,nvidia-uvm")
	for _, k := range []string{imagetest.Kernel, imagetest.OldKernel} {
		assert.Contains(t, got, "535.261.03-"+k+"-debian12 --os debian12 --driver 535.261.03 --arch amd64 --kernel "+k+" --modules nvidia --modules nvidia-uvm --matrix")
	}
	one(args("--no-toolchain"), "535.261.03-debian12", " --no-toolchain ")
	u.tool(t, "lock --os debian12 --arch amd64 --kernel latest").Want(t, 0)
	u.offers("debian12", "6.1.0-99-amd64")
	dists := u.Requests("/dists/")
	const locked = "535.261.03-" + imagetest.Kernel + "-debian12"
	kernel := one(args("--kernel latest"), locked, "--kernel "+imagetest.Kernel+" ")
	set := one(args("--kernel latest --profile modules"), locked+"-modules", " --profile modules ") // from the same entry of the lock
	for _, planned := range []string{set, kernel} {
		u.Run(t, strings.Fields(planned+" --dry-run")...).Want(t, 0)
	}
	assert.Equalf(t, dists, u.Requests("/dists/"), "with a lock the repositories were asked")
}

func TestPlanFailures(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Run(t, "plan", "--repository", u.Host+"/x", "--matrix", "../../matrix.yaml").Want(t, 2, "choose some with --os and --driver", "driver-build matrix init", "--all")
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
	assert.Equal(t, 2, strings.Count(u.plan(t, "--os ubuntu18.04").Want(t, 0).Stdout, " cannot be planned: "))
}

// TestPlanOutage: images whose base is out of reach are no jobs, and one line says so for each registry.
func TestPlanOutage(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	all := u.plan(t, "--format json").Want(t, 0)
	u.Fault(refuse(500, "/v2/base/debian12"))
	u.Cache = t.TempDir()
	r := u.on("2020-01-01").plan(t, "--format json").Want(t, 0, "left out, because a build cannot work now: registry "+u.Host+": ", "-debian12")
	if strings.Count(r.Stderr, "warning: left out") != 1 || strings.Contains(r.Stdout, "-debian12\"") || !strings.Contains(r.Stdout, "-ubuntu18.04\"") || !strings.Contains(all.Stdout, "-debian12\"") {
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
	assert.Equalf(t, true, u.Requests("/dists/")-before <= 12, "an InRelease and its indexes for each of five places")
	assert.Equalf(t, 1, u.Requests("418.87.01.run"), "requests for the archive of one driver for two systems")
	r = u.tool(t, "check -o json --os debian12 --arch amd64 --base "+u.Host+"/none/such:1").Want(t, 3, "1 of 1 pairs")
	base := rows(t, r)["535.261.03-debian12 amd64"].Base
	assert.Equal(t, status.VerdictFailed, base.State)
	assert.Contains(t, base.Detail, "none/such")
	r = u.tool(t, "check -o json --os debian12 --arch amd64,arm64 --repository "+repository).Want(t, 0)
	all := rows(t, r)
	if row := all["535.261.03-debian12 amd64"]; row.Image.State != status.Current || row.Headers.State != status.VerdictOK || row.Kernel != imagetest.Kernel || row.Kernels != 3 || row.Archive.State != status.VerdictNone || row.Broken {
		t.Errorf("%+v", row)
	}
	row := all["418.87.01-debian12 amd64"]
	assert.Equalf(t, true, strings.Contains(row.Excluded, "kernel-too-new") && row.Base == nil, "%+v", row)
	assert.Equalf(t, status.Missing, all["535.261.03-debian12 arm64"].Image.State, "one image, of the other architecture")
}

// TestCheckBroken: a fault is reported for the pairs that need the broken part, and for no others.
func TestCheckBroken(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.Put(imagetest.RunPath(oldDriver, "amd64"), []byte("short"))
	u.Archives["ubuntu18.04"].Packages = u.Archives["ubuntu18.04"].Packages[:3]
	u.Archives["ubuntu18.04"].Publish()
	u.Fault(refuse(404, "/base/ubuntu16.04/"))
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
		assert.Equalf(t, true, row.Image.State == status.Unknown && row.Image.Why != "", "%s: %+v", pair, row.Image)
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
	assert.Equalf(t, true, row.Components.State == status.VerdictFailed && row.Broken, "%+v", row.Components)
	assert.Contains(t, row.Components.Detail, "imex: ")
	assert.Contains(t, row.Components.Detail, "has 16 bytes, and should have 4")
	assert.Equal(t, status.VerdictNone, check(0, " --no-fabric").Components.State)
}

// TestCheckLock: a locked file that was removed breaks its pair, although the repositories have a newer one.
func TestCheckLock(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.tool(t, "lock --os debian12 --arch amd64,arm64").Want(t, 0)
	check := func(code int) (amd64, arm64, other status.Checked) {
		all := rows(t, u.tool(t, "check -o json --arch amd64,arm64").Want(t, code))
		return all["535.261.03-debian12 amd64"], all["535.261.03-debian12 arm64"], all["535.261.03-ubuntu16.04 amd64"]
	}
	_, arm64, other := check(0)
	assert.Equalf(t, true, arm64.Lock.State == status.VerdictOK && strings.HasPrefix(arm64.Lock.Detail, "base and ") && arm64.Image == nil, "%+v", arm64.Lock)
	assert.Equal(t, status.VerdictNone, other.Lock.State)
	gone := u.Archives["debian12"].Path(*u.Archives["debian12"].Find("libtirpc3", "amd64"))
	u.Fault(refuse(404, gone))
	amd64, arm64, _ := check(3)
	assert.Equalf(t, true, amd64.Lock.State == status.VerdictFailed && strings.Contains(amd64.Lock.Detail, "404") && !arm64.Broken, "%+v", amd64)
	u.Fault(refuse(403, gone)) // as repositories of a subscription answer
	amd64, _, _ = check(0)
	assert.Equalf(t, true, amd64.Lock.State == status.VerdictUnknown && strings.Contains(amd64.Lock.Detail, "1 of "), "%+v", amd64.Lock)
}
