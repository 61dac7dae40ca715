package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/images/status"
)

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
