package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/ci/goldentest"
	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/images/batch"
)

func (u *user) plan(t *testing.T, args string) result {
	t.Helper()
	return u.tool(t, "plan --repository "+u.Host+"/gpu/driver "+args)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	push := func(args string) {
		t.Helper()
		u.run(t, strings.Fields(args+" --push --repository "+u.Host+"/gpu/driver")...).want(t, 0)
	}
	first := u.plan(t, "")
	first.want(t, 0)
	goldentest.Compare(t, "testdata/plan.table", u.normal(first.stdout))
	if again := u.plan(t, ""); again.stdout != first.stdout {
		t.Error(again.stdout)
	}
	r := u.plan(t, "--format github")
	r.want(t, 0)
	goldentest.Compare(t, "testdata/plan.github", strings.ReplaceAll(u.normal(r.stdout), u.dir, "DIR"))
	var matrix struct{ Include []map[string]string }
	if err := json.Unmarshal([]byte(r.stdout), &matrix); err != nil || len(matrix.Include) != 5 || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("%v: %s", err, r.stdout)
	}
	r = u.plan(t, "--format gitlab")
	r.want(t, 0)
	goldentest.Compare(t, "testdata/plan.gitlab", strings.ReplaceAll(u.normal(r.stdout), u.dir, "DIR"))
	for _, entry := range matrix.Include { // what a pipeline does with it
		push(entry["args"])
	}
	for format, want := range map[string]string{"table": "TAG  ARCH  REASON\n", "json": "[]\n", "github": `{"include":[]}` + "\n"} {
		r := u.plan(t, "--format "+format)
		r.want(t, 0, "note: all 5 images are up to date")
		if r.stdout != want {
			t.Errorf("%s: %q", format, r.stdout)
		}
	}
	var child map[string]struct{ Script []string }
	r = u.plan(t, "--format gitlab")
	goldentest.Compare(t, "testdata/plan-empty.gitlab", r.stdout)
	if err := yaml.Load([]byte(r.stdout), &child); err != nil || len(child) != 1 || len(child["nothing-to-build"].Script) != 1 {
		t.Errorf("%v: %s", err, r.stdout)
	}
	// A package of one system gets a newer version: the images of that system are out of date.
	p := u.Archives["ubuntu18.04"].Find("make", "amd64")
	p.Control = strings.Replace(p.Control, "Version: ", "Version: 9:", 1)
	u.Archives["ubuntu18.04"].Publish()
	r = u.plan(t, "")
	if strings.Count(r.stdout, "-ubuntu18.04") != 2 || strings.Count(r.stdout, "\n") != 3 || !strings.Contains(r.stdout, " out of date: other packages") {
		t.Error(r.stdout)
	}
	if r = u.plan(t, "--profile compute --os debian12 --driver "+newDriver); !strings.Contains(r.stdout, "out of date: its profile is full, now compute") {
		t.Error(r.stdout)
	}
}

// TestPlanKernels: the plan names each kernel, so that every job builds what was planned.
func TestPlanKernels(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	args := func(flags string) (all []string) {
		t.Helper()
		r := u.plan(t, "--os debian12 --arch amd64 --format json "+flags)
		r.want(t, 0)
		var tasks []batch.Task
		if err := json.Unmarshal([]byte(r.stdout), &tasks); err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
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
	u.tool(t, "lock --os debian12 --arch amd64 --kernel latest").want(t, 0)
	u.offers("debian12", "6.1.0-99-amd64")
	dists := u.Requests("/dists/")
	if got := args("--kernel latest"); len(got) != 1 || !strings.Contains(got[0], "--kernel "+imagetest.Kernel+" ") {
		t.Errorf("%q", got)
	}
	if u.Requests("/dists/") != dists {
		t.Error("with a lock the repositories were asked")
	}
	u.run(t, append(strings.Fields(strings.SplitN(args("--kernel latest")[0], " ", 2)[1]), "--dry-run")...).want(t, 0)
}

func TestPlanFailures(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.plan(t, "--format xml").want(t, 2, "table, json, github or gitlab")
	u.tool(t, "plan").want(t, 2, "--repository")
	u.tool(t, "plan --repository localhost:1/x").want(t, 4, "localhost:1")
	u.plan(t, "--sign-cert x").want(t, 2, "--kernel")
	u.plan(t, "--kernel latest --sign-cert /no/such").want(t, 2, "/no/such")
	u.plan(t, "--base oci:/no/such/folder --os debian12 --driver "+newDriver).want(t, 2, "/no/such/folder")
	layout := strings.TrimSuffix(u.modulesImage(t, "amd64"), ":mine") // no base of debian12
	u.plan(t, "--base "+layout+" --os debian12 --driver "+newDriver).want(t, 0)
	if err := os.Rename(strings.TrimPrefix(layout, "oci:"), u.path("a b")); err != nil {
		t.Fatal(err)
	}
	u.run(t, "plan", "--matrix", u.path("matrix.yaml"), "--repository", u.Host+"/x", "--base", "oci:"+u.path("a b"), "--os", "debian12", "--driver", newDriver).want(t, 2, "cannot be an argument")
	u.Archives["ubuntu18.04"].Packages = u.Archives["ubuntu18.04"].Packages[:3]
	u.Archives["ubuntu18.04"].Publish()
	r := u.plan(t, "--os ubuntu18.04")
	r.want(t, 0)
	if strings.Count(r.stdout, " cannot be planned: ") != 2 {
		t.Error(r.stdout)
	}
}
