package daemons

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"
)

// Facts says where the daemons and their configuration are. The zero value is the image's own root.
type Facts struct {
	Root    string // of the image, default /
	Drivers string // folder with gridd.conf and ClientConfigToken, default /drivers
}

func (f Facts) withDefaults() Facts {
	for _, d := range []struct {
		field *string
		value string
	}{{&f.Root, "/"}, {&f.Drivers, "/drivers"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return f
}

func (f Facts) path(name string) string { return filepath.Join(f.Root, name) }

func (f Facts) has(name string) bool {
	st, err := os.Stat(f.path(name))
	return err == nil && st.Mode().IsRegular()
}

// Persistenced returns the daemon that keeps the GPUs initialised while nobody uses them; nothing when the
// image has no nvidia-persistenced. The daemon has no foreground mode and prints nothing: its messages go to
// syslog, that is, to /dev/log when the host's is mounted. Its first process ends with 0 when all GPUs are
// initialised and its socket exists, which can take long. It is not Required: a node can serve without it.
func Persistenced(f Facts) []Spec {
	f = f.withDefaults()
	const program = "usr/bin/nvidia-persistenced"
	if !f.has(program) {
		return nil
	}
	return []Spec{{
		Name: "nvidia-persistenced", Path: f.path(program), Args: []string{"--persistence-mode"},
		PIDFile: f.path("var/run/nvidia-persistenced/nvidia-persistenced.pid"), Socket: f.path("var/run/nvidia-persistenced/socket"),
		StartWait: 2 * time.Minute, StopWait: 10 * time.Second,
	}}
}

// gridd returns the folder of gridd's own libraries, below the system's library folder.
func (f Facts) gridd() string {
	triplet := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu"
	const rpm = "usr/lib64/nvidia/gridd" // library folder of rpm systems
	if st, err := os.Stat(f.path(rpm)); err == nil && st.IsDir() {
		return rpm
	}
	return "usr/lib/" + triplet + "/nvidia/gridd"
}

// VGPU returns the licence and topology daemons of a vGPU guest (DRIVER_TYPE=vgpu) that the image has.
// gridd's configuration and tokens are copied from f.Drivers before each start, because they may have been
// renewed.
func VGPU(f Facts) []Spec {
	f = f.withDefaults()
	var specs []Spec
	if f.has("usr/bin/nvidia-gridd") {
		specs = append(specs, Spec{
			Name: "nvidia-gridd", Path: f.path("usr/bin/nvidia-gridd"), Required: true,
			Env:     append(os.Environ(), "LD_LIBRARY_PATH="+f.path(f.gridd())),
			PIDFile: f.path("var/run/nvidia-gridd/nvidia-gridd.pid"),
			Before:  func(context.Context) error { return f.copyLicence() },
		})
	}
	if f.has("usr/bin/nvidia-topologyd") {
		specs = append(specs, Spec{
			Name: "nvidia-topologyd", Path: f.path("usr/bin/nvidia-topologyd"), Required: true,
			PIDFile: f.path("var/run/nvidia-topologyd/nvidia-topologyd.pid"),
			Before: func(context.Context) error {
				return os.MkdirAll(f.path("var/run/nvidia-topologyd"), 0o755)
			},
		})
	}
	return specs
}

// copyLicence copies gridd.conf and the tokens to the folders where gridd reads them. Missing files are no
// error: the image may have its own.
func (f Facts) copyLicence() error {
	if err := os.MkdirAll(f.path("var/run/nvidia-gridd"), 0o755); err != nil {
		return fmt.Errorf("make gridd's folder: %w", err)
	}
	if err := copyFile(filepath.Join(f.Drivers, "gridd.conf"), f.path("etc/nvidia/gridd.conf")); err != nil {
		return fmt.Errorf("copy the licence configuration: %w", err)
	}
	from, to := filepath.Join(f.Drivers, "ClientConfigToken"), f.path("etc/nvidia/ClientConfigToken")
	tokens, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy the licence tokens: %w", err)
	}
	for _, t := range tokens {
		if strings.HasPrefix(t.Name(), ".") { // entries of a mounted ConfigMap: ..data and its folders
			continue
		}
		if err := copyFile(filepath.Join(from, t.Name()), filepath.Join(to, t.Name())); err != nil {
			return fmt.Errorf("copy a licence token: %w", err)
		}
	}
	return nil
}

// maxConfig limits the size of configuration files and tokens.
const maxConfig = 1 << 20

// readConfig reads a regular file of limited size. It follows links, because mounted ConfigMaps consist of
// links.
func readConfig(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxConfig {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", path, maxConfig)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxConfig))
}

func copyFile(from, to string) error {
	content, err := readConfig(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return writeFile(to, content)
}

// writeFile writes the whole file atomically, or leaves the old one. It creates the folder.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicwriter.WriteFile(path, content, 0o644)
}
