package kbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/elffile"
	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/kmod/kmsg"
)

// collect takes the modules from the finished tree, strips debug information, and checks them.
func (c *compile) collect(ctx context.Context) (*Set, error) {
	config, err := c.Headers.Config("CONFIG_MODULE_SIG_HASH")
	if err != nil {
		return nil, err
	}
	set := &Set{
		Dir:     filepath.Join(c.dir, scratchModules),
		Key:     c.Key(),
		SigHash: config["CONFIG_MODULE_SIG_HASH"],
	}
	for _, name := range c.names {
		file, err := c.strip(ctx, filepath.Join(c.dir, scratchSource), name)
		if errors.Is(err, errNotMade) {
			return nil, sourceError(c.Source, err)
		}
		if err != nil {
			return nil, err
		}
		if wrong := file.Mismatch(c.Headers.Release, c.Driver); wrong != "" {
			return nil, sourceError(
				c.Source,
				fmt.Errorf("the module %s that was made from them %s", name, wrong),
			)
		}
		set.Modules = append(set.Modules, file)
	}
	return set, nil
}

// errNotMade says that make made no module, and no error either.
var errNotMade = errors.New("make succeeded, but made no ")

// strip takes a module from a folder without its debug information, and describes it.
func (c *compile) strip(ctx context.Context, from, name string) (File, error) {
	made := filepath.Join(from, name+".ko")
	to := filepath.Join(c.dir, scratchModules, name+".ko")
	if !kmod.IsFile(made) {
		return File{}, fmt.Errorf("%w%s.ko", errNotMade, name)
	}
	path := c.searchPath()
	program, err := find(toolPrefix(c.Compiler.Path, path)+"strip", path)
	if err != nil {
		program = "llvm-strip"
	}
	if err := c.run(ctx, command{name: "strip of " + name + ".ko", program: program, folder: scratchTemp, args: []string{"-g", "-o", to, made}}); err != nil {
		return File{}, err
	}
	return readFile(name, to)
}

// Mismatch compares a module's own description with its name, with a kernel, and with a version if
// that is not "". It returns what is wrong ("is for kernel ..."), "" if nothing is. Some modules of
// old drivers have no version, such as nvidia-uvm of R470: only nvidia must have one.
func (f File) Mismatch(release, version string) string {
	switch {
	case f.Info.Name != kmod.ModuleName(f.Name):
		return fmt.Sprintf("calls itself %.80q", f.Info.Name)
	case f.Info.Release() != release:
		return fmt.Sprintf("is for kernel %.80q, not %s", f.Info.Release(), release)
	case version != "" && f.Info.Version != version && (f.Info.Version != "" || f.Name == "nvidia"):
		return fmt.Sprintf("has version %.80q, not %s", f.Info.Version, version)
	}
	return ""
}

// Describe replaces what the manifest of a set from elsewhere says of its modules by what they say
// themselves, makes the reasons for missing ones printable, and compares each module with the set's
// key.
func (s *Set) Describe() (err error) {
	for i := range s.Omitted {
		s.Omitted[i].Reason = strings.ReplaceAll(
			kmsg.PrintableLines(s.Omitted[i].Reason),
			"\n",
			" ",
		)
	}
	for i := range s.Modules {
		f := &s.Modules[i]
		version := s.Key.Driver
		if slices.Contains(driverinfo.Companions(), f.Name) {
			version = "" // its own
		}
		f.Info, err = kmod.ReadInfo(f.Path)
		if err != nil {
			return err
		}
		if wrong := f.Mismatch(s.Key.Release, version); wrong != "" {
			return fmt.Errorf("%s.ko: the module %s", f.Name, wrong)
		}
		if err := f.checkMachine(s.Key.Arch); err != nil {
			return err
		}
	}
	return nil
}

func (f File) checkMachine(arch string) error {
	in, err := bounded.Open(f.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	file, err := elffile.Read(in, f.Size)
	if err != nil {
		return err
	}
	want, _ := distros.LookupArch(arch)
	if file.Machine != want.Machine {
		return fmt.Errorf("%s.ko: the module is for %s, not %s", f.Name, file.Machine, arch)
	}
	return nil
}

// readFile returns the description of a finished module.
func readFile(name, path string) (File, error) {
	info, err := kmod.ReadInfo(path)
	if err != nil {
		return File{}, fmt.Errorf("check the module that was made: %w", err)
	}
	sum, size, err := Digest(path)
	if err != nil {
		return File{}, fmt.Errorf("check the module that was made: %w", err)
	}
	return File{Name: name, Path: path, SHA256: sum, Size: size, Info: info}, nil
}

// Digest is the sha256 of a file, in hexadecimal, and its size.
func Digest(path string) (sum string, size int64, err error) {
	h := sha256.New()
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	size, err = io.Copy(h, f)
	if err != nil {
		return "", 0, fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}
