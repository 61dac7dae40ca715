package kbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/driver-container/driver-container/kmod"
)

// collect takes the modules from the finished tree, strips debug information, and checks them.
func (j Job) collect(ctx context.Context, dir string, names []string) (*Set, error) {
	config, err := j.Headers.Config("CONFIG_MODULE_SIG_HASH")
	if err != nil {
		return nil, err
	}
	set := &Set{Dir: filepath.Join(dir, scratchModules), Key: j.Key(), SigHash: config["CONFIG_MODULE_SIG_HASH"]}
	for _, name := range names {
		made := filepath.Join(dir, scratchSource, name+".ko")
		if !isFile(made) {
			return nil, &SourceError{j.Source, fmt.Errorf("make succeeded, but made no %s.ko", name)}
		}
		to := filepath.Join(set.Dir, name+".ko")
		if err := j.strip(ctx, dir, made, to); err != nil {
			return nil, err
		}
		file, err := readFile(name, to)
		if err != nil {
			return nil, err
		}
		if err := j.accept(file); err != nil {
			return nil, err
		}
		set.Modules = append(set.Modules, file)
	}
	return set, nil
}

func (j Job) strip(ctx context.Context, dir, from, to string) error {
	path := searchPath(filepath.Dir(j.Compiler.Path))
	program, err := find(toolPrefix(j.Compiler.Path, path)+"strip", path)
	if err != nil {
		if program, err = find("llvm-strip", path); err != nil {
			return fmt.Errorf("strip %s: %w", from, err)
		}
	}
	out := &output{log: io.Discard}
	cmd := exec.Command(program, "-g", "-o", to, from)
	cmd.Env = j.environment(dir)
	cmd.Dir = filepath.Join(dir, scratchTemp)
	cmd.Stdout, cmd.Stderr = out, out
	err = run(ctx, cmd)
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("compile driver %s for kernel %s: stopped: %w", j.Driver, j.Headers.Release, cause)
	}
	out.close()
	if err != nil {
		return j.failed("strip of "+filepath.Base(from), err, out)
	}
	return nil
}

// accept compares a module's own description with the job.
func (j Job) accept(f File) error {
	if wrong := f.Mismatch(j.Headers.Release, j.Driver); wrong != "" {
		return &SourceError{j.Source, fmt.Errorf("the module %s that was made from them %s", f.Name, wrong)}
	}
	return nil
}

// Mismatch compares a module's own description with its name, with a kernel, and with a version if that is
// not "". It returns what is wrong ("is for kernel ..."), "" if nothing is. Some modules of old drivers have
// no version, such as nvidia-uvm of R470: only nvidia must have one.
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
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}
