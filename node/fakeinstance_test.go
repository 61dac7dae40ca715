package node

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/status"
)

// instance is one process in the world, with everything that a Node needs. It calls before at the beginning
// of each operation.
type instance struct {
	*world
	life      life
	number    int
	before    func(op string) error
	disturbed bool // by a failure or by another program: it may not find what it put up
	meddled   bool // by another program
	mellanox  bool
	extra     []string // files of a set besides the usual ones
	signer    *x509.Certificate
	holds     bool // the lock
	began     bool // it has had the lock
	daemon    bool
	killed    bool
	served    bool

	usageEnded bool
}

// do runs an operation of the instance under the world's lock.
func (i *instance) do(op string, f func() error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.killed { // by an operation of another goroutine
		runtime.Goexit()
	}
	i.ops = append(i.ops, op)
	if i.before != nil {
		if err := i.before(op); err != nil {
			return err
		}
	}
	return f()
}

// die simulates SIGKILL: nothing of this goroutine runs any more except its deferred calls. It is called with
// the lock held.
func (i *instance) die() {
	i.killed = true
	runtime.Goexit()
}

// over does what the kernel and the container runtime do at the end of a process.
func (i *instance) over() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holds {
		if !i.killed && !i.disturbed {
			i.wrong = append(i.wrong, "the lock is still held")
		}
		i.locked, i.holds = false, false
	}
	if i.daemon { // the shim ends it
		i.running, i.daemon = 0, false
	}
	_ = os.RemoveAll(filepath.Join(i.dir, i.scratch()))
	_ = os.RemoveAll(filepath.Join(i.dir, i.container()))
}

// container is the folder of the files that end with the container: those of the image and of mounted sets.
func (i *instance) container() string { return "container-" + i.life.source }

// cached is the folder of a set that is kept on the host. The key of a set names its companions.
func (i *instance) cached() string { return "cache" + i.build }

func (i *instance) scratch() string { return fmt.Sprintf("scratch-%d", i.number) }

func (i *instance) Module(name string) (m kmod.Module, err error) {
	err = i.do("module "+name, func() error {
		live, ok := i.modules[name]
		if !ok {
			return fs.ErrNotExist
		}
		m = i.live(live)
		return nil
	})
	return m, err
}

func (i *instance) Stack(name string) (stack []kmod.Module, err error) {
	err = i.do("stack", func() error {
		if m, ok := i.modules["nouveau"]; ok && name == "nouveau" {
			stack = append(stack, m)
			return nil
		}
		if _, ok := i.modules[name]; !ok {
			return fs.ErrNotExist
		}
		for _, n := range []string{"nvidia_fs", "gdrdrv", "nvidia_peermem", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia"} {
			if m, ok := i.modules[n]; ok && (uses(n, name) || n == "nvidia_fs" && name == "nvidia") {
				stack = append(stack, i.live(m))
			}
		}
		return nil
	})
	return stack, err
}

func (i *instance) Flavour() (string, error) {
	return driverinfo.Proprietary, i.do("flavour", func() error { return nil })
}

func (i *instance) Params(name string) (map[string]string, error) {
	shown := map[string]string{}
	err := i.do("params "+name, func() error {
		if name == "nvidia" || name == "nvidia_uvm" {
			shown["NVreg_A"] = "0"
		}
		for _, p := range i.params[name] {
			key, value, _ := strings.Cut(p, "=")
			shown[key] = value
		}
		return nil
	})
	return shown, err
}

func (i *instance) Insert(ctx context.Context, path, _ string, params []string) error {
	name, version := strings.TrimSuffix(filepath.Base(path), ".ko"), filepath.Base(filepath.Dir(path))
	if name == i.hangs {
		<-ctx.Done()
		time.Sleep(10 * time.Second) // kmod's insertGrace
		return fmt.Errorf("%w: %w", kmod.ErrStuck, ctx.Err())
	}
	return i.do("insert "+name, func() error {
		i.touch("insert " + name)
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := os.Stat(path); err != nil {
			return err
		}
		if i.broken[version] && name == "nvidia" {
			return &kmod.RefusedError{Module: name, Errno: unix.ENODEV}
		}
		if i.faster != "" && name == "nvidia" {
			err := i.insert(name, version, nil)
			m := i.modules[name]
			m.SrcVersion = i.faster
			i.modules[name] = m
			return errors.Join(err, kmod.ErrLoaded)
		}
		if i.ignores {
			params = nil
		}
		if name == i.refused {
			return &kmod.RefusedError{Module: name, Errno: unix.EKEYREJECTED}
		}
		if !(status.Module{Name: name}).Companion() {
			return i.insert(name, version, params)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		err = i.insert(name, version, params)
		if m := i.modules[name]; err == nil {
			m.SrcVersion = srcversion(name, strings.TrimPrefix(string(content), strings.ReplaceAll(name, "_", "-")))
			i.modules[name] = m
		}
		return err
	})
}

func (i *instance) InsertInTree(_ context.Context, record func(string), names ...string) (inserted []string, err error) {
	for _, name := range names {
		i.mu.Lock()
		_, present := i.modules[name]
		i.mu.Unlock()
		if !present {
			record(name)
		}
		err := i.do("in-tree "+name, func() error {
			i.touch("in-tree " + name)
			if err := i.insert(name, "", nil); !errors.Is(err, kmod.ErrLoaded) {
				inserted = append(inserted, name)
			}
			return nil
		})
		if err != nil {
			return inserted, err
		}
	}
	return inserted, nil
}

func (i *instance) Delete(ctx context.Context, name string) error {
	return i.do("delete "+name, func() error {
		i.touch("delete " + name)
		if err := ctx.Err(); err != nil { // as the child process that calls the kernel
			return err
		}
		return i.delete(name)
	})
}

func (i *instance) Holders(_ context.Context, except ...int) (out []kmod.Holder, err error) {
	err = i.do("holders", func() error {
		for _, h := range i.users {
			if !slices.Contains(except, h.PID) {
				out = append(out, h)
			}
		}
		return nil
	})
	return out, err
}
