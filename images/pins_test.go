package images

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/imagetest"
	"github.com/driver-container/driver-container/images/matrix"
)

// TestPinned: what an earlier plan found gives the same recipe, without a question to anybody.
func TestPinned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, o := range []PlanOptions{
		{}, {Profile: Compute, Compression: Zstd, Epoch: 7}, {Kernels: []string{imagetest.Kernel}},
		{Kernels: []string{imagetest.OldKernel, imagetest.Kernel}, Together: true, Toolchain: true},
	} {
		target := r.target(t, pair("debian12", newDriver))
		want, err := r.b.Plan(t.Context(), target, o)
		if err != nil {
			t.Fatal(err)
		}
		before := r.Requests("/")
		got, err := r.b.Pinned(target, o, want.Pins())
		if err != nil || r.Requests("/") != before {
			t.Fatalf("%v, %d requests", err, r.Requests("/")-before)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if d := cmp.Diff(string(a), string(b)); d != "" {
			t.Error(d)
		}
		if got.Base.Location != want.Base.Name+"@"+want.Base.Digest {
			t.Errorf("base from %s", got.Base.Location)
		}
	}
	ubuntu := r.target(t, pair("ubuntu18.04", oldDriver))
	pins := r.plan(t, pair("ubuntu18.04", oldDriver), PlanOptions{}).Pins()
	if got, err := r.b.Pinned(ubuntu, PlanOptions{}, pins); err != nil || got.Source.Runfile == nil || got.Source.Packages != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.b.Pinned(r.target(t, pair("debian12", newDriver)), PlanOptions{Kernels: []string{imagetest.Kernel}}, pins); err == nil || !strings.Contains(err.Error(), imagetest.Kernel) {
		t.Errorf("headers that were not planned: %v", err)
	}
	pins.Base.Name = ""
	if _, err := r.b.Pinned(ubuntu, PlanOptions{}, pins); err == nil || !strings.Contains(err.Error(), "--base") {
		t.Errorf("no base: %v", err)
	}
}

// TestAsk: the request is that of the matrix and the flags, and holds neither credentials nor paths.
func TestAsk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	target := r.target(t, pair("debian12", newDriver))
	q, err := Ask(target, PlanOptions{Base: "oci:/somewhere", Mirror: "http://me:secret@mirror/x a/b=http://you:secret@other", Kernels: []string{imagetest.Kernel}})
	if err != nil || q.Base != "" || q.Mirror != "http://mirror/x a/b=http://other" || len(q.Headers) != 1 || len(q.Compiler) == 0 || len(q.Driver) == 0 || q.Archive != nil {
		t.Errorf("%+v, %v", q, err)
	}
	q, err = Ask(r.target(t, pair("ubuntu18.04", oldDriver)), PlanOptions{Source: "file:///tmp/x.run"})
	if err != nil || q.Headers != nil || q.Archive == nil || strings.Contains(q.Archive.URL, "/tmp") || q.Base != target.System.Base[:len(target.System.Base)-len("debian12:test")]+"ubuntu18.04:test" {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestAskKernel(t *testing.T) {
	t.Parallel()
	for system, want := range map[string]string{"flatcar": "headers of flatcar come with the host", "debian12": "is no release of a kernel of debian12"} {
		target := matrix.Target{System: matrix.System{ID: system}, Driver: matrix.Driver{Version: "535.261.03", Branch: "R535"}, Arch: "amd64", Flavours: []string{"open"}}
		_, err := Ask(target, PlanOptions{Kernels: []string{"not a kernel"}})
		if !errors.Is(err, ErrKernel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", system, err)
		}
	}
}
