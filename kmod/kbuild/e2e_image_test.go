package kbuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestInImage is the other process.
func TestInImage(t *testing.T) {
	raw := os.Getenv("BUILD_TEST_ORDER")
	if raw == "" {
		t.Skip("is started by TestE2E only")
	}
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		t.Fatal(err)
	}
	squeeze := func() {}
	if o.Squeeze != "" { // opened here: from inside the image the file cannot be reached
		limit, err := os.OpenFile(o.Squeeze, os.O_WRONLY, 0)
		must(t, err)
		defer limit.Close()
		squeeze = sync.OnceFunc(func() {
			_, err := fmt.Fprintln(limit, 40<<20)
			t.Logf("less memory from now on: %v", err)
		})
	}
	enter(t, o)
	r := o.carryOut(t, squeeze)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("REPORT %s\n", text)
}

func enter(t *testing.T, o order) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if o.Host != "" {
		// The headers are on the "host" only.
		host := filepath.Join(o.Root, o.Host)
		must(os.MkdirAll(host, 0o755))
		must(unix.Mount(o.Root, host, "", unix.MS_BIND, ""))
		for _, hide := range []string{"usr/src", "usr/lib/modules"} {
			must(unix.Mount("tmpfs", filepath.Join(o.Root, hide), "tmpfs", 0, ""))
		}
		must(os.MkdirAll(filepath.Join(o.Root, o.Source), 0o755))
		must(unix.Mount(filepath.Join(host, o.Source), filepath.Join(o.Root, o.Source), "", unix.MS_BIND, ""))
	}
	for _, dir := range []string{"proc", "dev", "sys"} {
		must(unix.Mount("/"+dir, filepath.Join(o.Root, dir), "", unix.MS_BIND|unix.MS_REC, ""))
	}
	must(unix.Chroot(o.Root))
	must(unix.Chdir("/")) // t.Chdir would go back, to where there is no way from inside
}

func (o order) carryOut(t *testing.T, squeeze func()) (r report) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	roots := []Root{{"/", "image"}}
	if o.Host != "" {
		roots = append(roots, Root{o.Host, "host"})
	}
	h, err := FindHeaders(o.Release, roots)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Link("/"); err != nil {
		t.Fatal(err)
	}
	r.Origin = h.Origin
	c, err := FindCompiler(ctx, h, "/usr/bin")
	if err != nil {
		t.Fatal(err)
	}
	r.Mismatch = c.Mismatch
	id, err := KernelID(o.Release, h, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(o.Work, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(o.Work)
	jobs, why := Jobs(o.Jobs, Limits{})
	t.Logf("%d jobs: %s; compiler %+v; headers %+v", jobs, why, c, h)
	j := Job{
		Source: o.Source, Driver: o.Driver, Flavour: "proprietary", Kernel: id, Headers: h, Compiler: c, Jobs: jobs,
		Modules: append(slices.Clone(o.Modules), "nvidia-nothing"), Optional: []string{"nvidia-nothing"}, Work: o.Work, Log: "/var/compile.log",
		Progress: func(done, total int, what string) {
			if strings.HasPrefix(what, "CC ") {
				squeeze()
			}
			r.Steps, r.Total = done, total
		},
	}
	var stopped time.Time
	if o.Stop > 0 {
		time.AfterFunc(o.Stop, func() { stopped = time.Now(); cancel(context.Canceled) })
	}
	begin := time.Now()
	set, err := Compile(ctx, j)
	r.Took = time.Since(begin)
	if err != nil {
		r.Err, r.Ended = err.Error(), errors.Is(err, context.Canceled)
		r.NoSpace = errors.Is(err, unix.ENOSPC)
		if failed, ok := errors.AsType[*CompileError](err); ok {
			r.Killed = failed.Killed
			r.Err += "\n" + strings.Join(failed.Tail, "\n")
		}
		if o.Stop > 0 {
			r.StopTook = time.Since(stopped)
		}
		return r
	}
	r.Key = set.Key.String()
	r.Digests = map[string]string{}
	cache := Cache{Dir: filepath.Join(o.Work, "cache")}
	kept, err := cache.Put(ctx, set)
	if err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	if _, err := cache.Get(ctx, set.Key); err != nil {
		t.Fatal(err)
	}
	r.Cached = time.Since(begin).String()
	for _, f := range kept.Modules {
		r.Digests[f.Name] = f.SHA256
		t.Logf("%s %d %+v", f.Name, f.Size, f.Info.Version)
	}
	return r
}
