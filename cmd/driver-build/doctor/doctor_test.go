package doctor_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/cmd/driver-build/doctor"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// ask asks one question.
func ask(t *testing.T, q doctor.Question) doctor.Finding {
	t.Helper()
	return doctor.Ask(t.Context(), time.Minute, []doctor.Question{q})[0]
}

func want(t *testing.T, f doctor.Finding, state doctor.State, part string) {
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
		found := doctor.Ask(t.Context(), time.Minute, []doctor.Question{
			{Name: "good", Fix: "do", Ask: answers("fine", nil)},
			{Name: "bad", Fix: "do", Ask: answers("", errors.Join(errors.New("one"), errors.New("two")))},
			{Name: "rare", Fix: "do", Optional: true, Ask: answers("", errors.New("absent"))},
			{Name: "later", Fix: "do", Skip: "not now"},
			{Name: "hangs", Fix: "do", Ask: func(context.Context) (string, error) { <-release; return "", nil }},
		})
		for i, w := range []struct {
			state  doctor.State
			detail string
		}{{doctor.OK, "fine"}, {doctor.Fault, "one; two"}, {doctor.Warning, "absent"}, {doctor.Skipped, "not now"}, {doctor.Fault, "no answer within 1m0s"}} {
			assert.Equal(t, w.state, found[i].State)
			assert.Equal(t, w.detail, found[i].Detail)
		}
		assert.Equal(t, 2, doctor.Faults(found))
		assert.Equal(t, time.Minute, time.Since(start))
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

	limit := func(text string) fs.FS { return fstest.MapFS{"sys/fs/cgroup/memory.max": {Data: []byte(text)}} }
	want(t, ask(t, doctor.Memory(limit("max\n"))), doctor.OK, "no limit")
	want(t, ask(t, doctor.Memory(fstest.MapFS{})), doctor.OK, "no limit")
	want(t, ask(t, doctor.Memory(limit("2147483648\n"))), doctor.OK, "2048 MiB")
	want(t, ask(t, doctor.Memory(limit("134217728\n"))), doctor.Fault, "128 MiB")
	want(t, ask(t, doctor.Memory(limit("much\n"))), doctor.Fault, "much")

	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want(t, ask(t, doctor.Clock(made.Add(time.Hour), made)), doctor.OK, "2026-01-02T04:04:05Z")
	want(t, ask(t, doctor.Clock(time.Unix(0, 0), made)), doctor.Fault, "1970-01-01")
	want(t, ask(t, doctor.Clock(time.Unix(0, 0), time.Time{})), doctor.OK, "1970-01-01")

	programs := func(names ...string) batch.Programs {
		return func(string) (all []recipe.Binary, err error) {
			for _, n := range names {
				all = append(all, recipe.Binary{Name: n})
			}
			return all, nil
		}
	}
	whole := programs(recipe.EntrypointName, recipe.ProbeName, recipe.EvictName)
	assert.Equal(t, recipe.EntrypointName+", "+recipe.ProbeName+", "+recipe.EvictName, ask(t, doctor.Programs(whole, "amd64")).Detail)
	want(t, ask(t, doctor.Programs(programs(recipe.EntrypointName), "amd64")), doctor.OK, "left out")
	none := func(string) ([]recipe.Binary, error) { return nil, fs.ErrNotExist }
	want(t, ask(t, doctor.Programs(none, "arm64")), doctor.Fault, "not exist")
}

func TestInputs(t *testing.T) {
	t.Parallel()
	want(t, ask(t, doctor.Matrix(&matrix.Matrix{Systems: make([]matrix.System, 2)}, nil)), doctor.OK, "2 systems, 0 drivers")
	want(t, ask(t, doctor.Matrix(nil, errors.New("line 3"))), doctor.Fault, "line 3")
	dir := t.TempDir()
	lock := func(file string) batch.Batch {
		return batch.Batch{Given: batch.Given{LockFile: file, MatrixFile: dir + "/matrix.yaml"}}
	}
	want(t, ask(t, doctor.Lock(lock(""))), doctor.OK, "none")
	want(t, ask(t, doctor.Lock(lock(dir+"/absent"))), doctor.Fault, "absent")
	absent := func(context.Context) (string, error) { return "", errors.New("nothing") }
	want(t, ask(t, doctor.Compile(absent, false)), doctor.Warning, "nothing")
	want(t, ask(t, doctor.Compile(absent, true)), doctor.Fault, "nothing")
}

// registry stands for registries: push and list are what they say.
type registry struct{ push, list error }

func (r registry) Resolve(_ context.Context, ref, _ string) (v1.Hash, error) {
	if strings.HasPrefix(ref, "dead.") {
		return v1.Hash{}, errors.New("no such host")
	}
	return v1.Hash{Algorithm: "sha256", Hex: "abc"}, nil
}

func (r registry) CheckPush(context.Context, string) error { return r.push }

func (r registry) ListTags(context.Context, string) ([]string, error) {
	return []string{"a", "b"}, r.list
}

func TestRegistries(t *testing.T) {
	t.Parallel()
	var systems []matrix.System
	for _, base := range []string{"docker.io/library/debian:12", "dead.example.com/x:1", "debian:13", "quay.io/a/b:1@sha256:" + strings.Repeat("0", 64), "dead.example.com/y:1"} {
		systems = append(systems, matrix.System{Base: base, Archs: []string{"amd64"}})
	}
	found := doctor.Ask(t.Context(), time.Minute, doctor.Bases(registry{}, systems, ""))
	assert.Equal(t, 3, len(found))
	want(t, found[0], doctor.OK, "docker.io/library/debian:12 is sha256:abc")
	assert.Equal(t, "bases of docker.io", found[0].Question)
	want(t, found[1], doctor.Fault, "no such host")
	assert.Contains(t, found[1].Fix, "--registry-mirror dead.example.com=MIRROR")
	want(t, found[2], doctor.OK, "quay.io/a/b:1 is ") // a digest may be in the cache
	want(t, doctor.Ask(t.Context(), time.Minute, doctor.Bases(registry{}, systems, "--offline"))[1], doctor.Skipped, "--offline")

	mirrors := map[string][]string{"docker.io": {"dead.site/hub", "mirror.site", "http://10.0.0.1"}, "quay.io": {"mirror.site/quay"}, "ghcr.io": {"mirror.site"}}
	found = doctor.Ask(t.Context(), time.Minute, doctor.Mirrors(registry{}, mirrors, systems, ""))
	assert.Equal(t, 4, len(found))
	want(t, found[0], doctor.Warning, "no such host")
	want(t, found[1], doctor.OK, "mirror.site/library/debian:12 is sha256:abc")
	want(t, found[2], doctor.Skipped, "plain HTTP")
	want(t, found[3], doctor.OK, "mirror.site/quay/a/b:1 is ")

	const name = "registry.example.com/gpu/driver"
	want(t, ask(t, doctor.Repository(registry{}, "")), doctor.Skipped, "--repository")
	want(t, ask(t, doctor.Repository(registry{}, name)), doctor.OK, "accepts pushes and has 2 images")
	want(t, ask(t, doctor.Repository(registry{list: errors.New("no listing")}, name)), doctor.OK, "no listing")
	refused := ask(t, doctor.Repository(registry{push: errors.New("denied")}, name))
	want(t, refused, doctor.Fault, "denied")
	assert.Contains(t, refused.Fix, "driver-build login registry.example.com")
}
