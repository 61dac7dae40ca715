package conformance

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// runtimeConfig is the configuration of nvidia-container-runtime: NVIDIA's mode cdi with the specifications
// of the run, and runc.
const runtimeConfig = `[nvidia-container-runtime]
mode = "cdi"
runtimes = ["/usr/sbin/runc"]
[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
spec-dirs = ["/run/cdi"]
`

// consumer makes a small system in the folder to from files of a whole system: what NVIDIA's programs and
// runc need, and in bundle/ what a container needs that looks at the driver. It stays small because guests
// hold it in memory.
func consumer(system, clients, runc, to string) error {
	c := copier{system: system, to: to}
	programs, err := os.ReadDir(clients)
	if err != nil {
		return err
	}
	for _, p := range programs {
		c.outside(filepath.Join(clients, p.Name()), "usr/bin/"+p.Name())
	}
	c.outside(runc, "usr/sbin/runc")
	for _, name := range []string{"usr/bin/true", "usr/sbin/chroot", "usr/sbin/ldconfig"} {
		c.inside(name, name)
	}
	c.inside("usr/bin/dash", "usr/bin/sh")
	c.libraries("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1") // needed by nvidia-smi
	c.skeleton()
	bundle := copier{system: system, to: filepath.Join(to, "bundle")}
	for _, name := range []string{"usr/bin/true", "usr/sbin/ldconfig"} {
		bundle.inside(name, name)
	}
	bundle.inside("usr/bin/dash", "usr/bin/sh")
	bundle.libraries("libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1")
	bundle.skeleton()
	if err := errors.Join(c.err, bundle.err); err != nil {
		return fmt.Errorf("make the consumer's system: %w", err)
	}
	config := filepath.Join(to, "etc/nvidia-container-runtime")
	if err := os.Mkdir(config, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(config, "config.toml"), []byte(runtimeConfig), 0o644)
}

// copier takes files out of a system, with the libraries of programs. After an error it does nothing more.
type copier struct {
	system, to string
	err        error
}

// libraryDirs are the library folders of Debian's architectures, and the dynamic linker's.
var libraryDirs = []string{"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib"}

// inside copies a program of the system.
func (c *copier) inside(from, to string) { c.outside(filepath.Join(c.system, from), to) }

// outside copies a program from anywhere, with the system's libraries.
func (c *copier) outside(from, to string) {
	if c.err != nil {
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		c.err = err
		return
	}
	path := filepath.Join(c.to, to)
	if c.err = os.MkdirAll(filepath.Dir(path), 0o755); c.err != nil {
		return
	}
	if c.err = os.WriteFile(path, data, 0o755); c.err != nil {
		return
	}
	f, err := elf.Open(path)
	if err != nil {
		c.err = fmt.Errorf("%s: %w", from, err)
		return
	}
	defer f.Close() //nolint:errcheck // opened for reading
	needed, err := f.ImportedLibraries()
	if err != nil {
		c.err = fmt.Errorf("%s: %w", from, err)
		return
	}
	c.libraries(needed...)
}

// libraries copies the files to which these names lead.
func (c *copier) libraries(names ...string) {
	for _, name := range names {
		if c.err != nil {
			return
		}
		c.err = fmt.Errorf("%s is not in the base system: %w", name, fs.ErrNotExist)
		for _, dir := range libraryDirs {
			if _, err := os.Stat(filepath.Join(c.to, dir, name)); err == nil {
				c.err = nil // copied before
				break
			}
			if _, err := os.Stat(filepath.Join(c.system, dir, name)); err == nil {
				c.err = nil
				c.inside(filepath.Join(dir, name), filepath.Join(dir, name))
				break
			}
		}
	}
}

// skeleton makes the folders of a system with merged /usr, and the dynamic linker where programs look for it.
func (c *copier) skeleton() {
	for _, dir := range []string{"dev", "etc", "proc", "run", "sys", "tmp", "root", "var", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"} {
		if c.err == nil {
			c.err = os.MkdirAll(filepath.Join(c.to, dir), 0o755)
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if c.err == nil {
			c.err = os.Symlink("usr/"+dir, filepath.Join(c.to, dir))
		}
	}
	for _, linker := range []string{"usr/lib64/ld-linux-x86-64.so.2", "usr/lib/ld-linux-aarch64.so.1"} {
		if _, err := os.Stat(filepath.Join(c.system, linker)); err == nil && c.err == nil {
			c.inside(linker, linker)
		}
	}
	if c.err == nil {
		c.err = os.WriteFile(filepath.Join(c.to, "etc/passwd"), []byte("root:x:0:0:root:/root:/bin/sh\n"), 0o644)
	}
}
