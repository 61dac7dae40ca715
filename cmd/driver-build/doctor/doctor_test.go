package doctor_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/cmd/driver-build/doctor"
	"github.com/driver-container/driver-container/images/matrix"
)

// ask asks one question.
func ask(t *testing.T, q doctor.Question) doctor.Finding {
	t.Helper()
	return doctor.Ask(t.Context(), []doctor.Question{q})[0]
}

func want(t *testing.T, f doctor.Finding, state string, part string) {
	t.Helper()
	assert.Equalf(t, state, f.State, "%s: %s", f.Question, f.Detail)
	assert.Contains(t, f.Detail, part)
	if (state == doctor.Fault || state == doctor.Warning) != (f.Fix != "") {
		t.Errorf("%s is %s, what to do: %q", f.Question, state, f.Fix)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := func(detail string, err error) func(context.Context) (string, error) {
			return func(context.Context) (string, error) { return detail, err }
		}
		release := make(chan struct{})
		start := time.Now()
		found := doctor.Ask(t.Context(), []doctor.Question{
			{Name: "good", Fix: "do", Ask: answers("fine", nil)},
			{Name: "bad", Fix: "do", Ask: answers("", errors.Join(errors.New("one"), errors.New("two")))},
			{Name: "rare", Fix: "do", Optional: true, Ask: answers("", errors.New("absent"))},
			{Name: "hangs", Fix: "do", Ask: func(context.Context) (string, error) { <-release; return "", nil }},
		})
		for i, w := range []struct {
			state  string
			detail string
		}{{doctor.OK, "fine"}, {doctor.Fault, "one; two"}, {doctor.Warning, "absent"}, {doctor.Fault, "no answer within 20s"}} {
			assert.Equal(t, w.state, found[i].State)
			assert.Equal(t, w.detail, found[i].Detail)
		}
		assert.Equal(t, 20*time.Second, time.Since(start))
		close(release)
	})
}

func TestMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want(t, ask(t, doctor.Cache(dir+"/a/b")), doctor.OK, "GiB are free")
	if left := require.Value(os.ReadDir(dir + "/a/b"))(t); len(left) > 0 {
		t.Errorf("left in the cache: %v", left)
	}
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	want(t, ask(t, doctor.Cache(dir+"/file")), doctor.Fault, dir+"/file")
}

// registry stands for registries: push is what they say.
type registry struct{ push error }

func (r registry) Resolve(_ context.Context, ref, _ string) (v1.Hash, error) {
	if strings.HasPrefix(ref, "dead.") {
		return v1.Hash{}, errors.New("no such host")
	}
	return v1.Hash{Algorithm: "sha256", Hex: "abc"}, nil
}

func (r registry) CheckPush(context.Context, string) error { return r.push }

func TestRegistries(t *testing.T) {
	t.Parallel()
	var systems []matrix.System
	for _, base := range []string{"docker.io/library/debian:12", "dead.example.com/x:1", "debian:13", "quay.io/a/b:1@sha256:" + strings.Repeat("0", 64), "dead.example.com/y:1"} {
		systems = append(systems, matrix.System{Base: base, Archs: []string{"amd64"}})
	}
	found := doctor.Ask(t.Context(), doctor.Bases(registry{}, systems))
	assert.Equal(t, 3, len(found))
	want(t, found[0], doctor.OK, "docker.io/library/debian:12 is sha256:abc")
	assert.Equal(t, "bases of docker.io", found[0].Question)
	want(t, found[1], doctor.Fault, "no such host")
	assert.Contains(t, found[1].Fix, "--registry-mirror dead.example.com=MIRROR")
	want(t, found[2], doctor.OK, "quay.io/a/b:1 is ") // a digest may be in the cache

	const name = "registry.example.com/gpu/driver"
	want(t, ask(t, doctor.Repository(registry{}, name)), doctor.OK, "accepts pushes")
	refused := ask(t, doctor.Repository(registry{push: errors.New("denied")}, name))
	want(t, refused, doctor.Fault, "denied")
	assert.Contains(t, refused.Fix, "driver-build login registry.example.com")
}
