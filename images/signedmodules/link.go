package signedmodules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/kmod/kbuild"
)

// linkObjects are what modules of a distribution's are linked of, where their licence asks for that
// to happen on the machine that uses them, and the signatures that fit the linked modules: see what
// package distros says of Canonical's packages.
type linkObjects struct {
	dir        string     // with the objects, below the root
	calls      [][]string // of the linker
	metadata   string     // of a package, which the linker writes into the modules
	sums       map[string]string
	signatures map[string]*rootfs.Entry
}

const (
	maxLinkScript    = 1 << 20 // bytes of BUILD and of SHA256SUMS
	maxLinkCalls     = 64
	maxLinkSignature = 64<<10 + 64 // bytes; the kernel's bound, with what follows a signature
	linkerProgram    = "/usr/bin/ld.bfd"
)

var (
	// words of a call: options, and paths that begin in the folder
	linkWord     = regexp.MustCompile(`^[@A-Za-z0-9_.,:=+-][A-Za-z0-9_./,:=+-]*$`)
	linkFolder   = regexp.MustCompile(`^[A-Za-z0-9_./+~-]+$`)
	linkMetadata = regexp.MustCompile(`^export ELF_PACKAGE_METADATA='([ -&(-~]{0,1000})'$`)
	linkedSum    = regexp.MustCompile(`^([0-9a-f]{64}) [ *]([a-z][a-z0-9_-]{0,63}\.ko)$`)
)

// findObjects finds the objects of a kernel's modules among the files of packages; nil: there are
// none. Of the script of the package it takes the calls of the linker: nothing of it is executed.
func findObjects(release string, files []*rootfs.Entry) (*linkObjects, error) {
	var script, sums *rootfs.Entry
	for _, file := range files {
		place := kernelFile.FindStringSubmatch(file.Path)
		if place == nil || place[1] != release || path.Base(file.Path) != "BUILD" {
			continue
		}
		if script != nil {
			return nil, badPackage("%s and %s both link modules", script.Path, file.Path)
		}
		script = file
	}
	if script == nil {
		return nil, nil //nolint:nilnil // most packages have linked modules
	}
	o := &linkObjects{dir: path.Dir(script.Path), signatures: map[string]*rootfs.Entry{}}
	for _, file := range files {
		name, isSignature := strings.CutSuffix(path.Base(file.Path), ".sig")
		switch {
		case path.Dir(file.Path) != o.dir:
		case isSignature:
			o.signatures[name] = file
		case path.Base(file.Path) == "SHA256SUMS":
			sums = file
		}
	}
	if sums == nil {
		return nil, badPackage("%s has no SHA256SUMS", o.dir)
	}
	err := errors.Join(o.readScript(script), o.readSums(sums))
	if err != nil {
		return nil, fmt.Errorf("objects of the distribution's modules: %w", err)
	}
	return o, nil
}

func readText(file *rootfs.Entry) (string, error) {
	if file.Kind != rootfs.File || file.Size > maxLinkScript {
		return "", badPackage("%s is no file, or of more than %d bytes", file.Path, maxLinkScript)
	}
	in, err := file.Open()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(in)
	return string(text), err
}

// readScript takes the calls of the linker out of a script. What follows a call in its line, the
// kernel's build has appended.
func (o *linkObjects) readScript(file *rootfs.Entry) error {
	text, err := readText(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		metadata := linkMetadata.FindStringSubmatch(line)
		if metadata != nil {
			o.metadata = metadata[1]
		}
		if !strings.Contains(line, linkerProgram) {
			continue
		}
		call, _, _ := strings.Cut(line, ";")
		words := strings.Fields(call)
		if len(words) < 2 || words[0] != linkerProgram || len(o.calls) == maxLinkCalls {
			return badPackage("%s: %.200q is no call of the linker", file.Path, line)
		}
		for _, word := range words[1:] {
			if !linkWord.MatchString(word) || strings.Contains(word, "..") {
				return badPackage("%s: %.200q is no argument of the linker", file.Path, word)
			}
		}
		o.calls = append(o.calls, words)
	}
	if len(o.calls) == 0 || !linkFolder.MatchString(o.dir) {
		return badPackage("%s calls no linker", file.Path)
	}
	return nil
}

func (o *linkObjects) readSums(file *rootfs.Entry) error {
	text, err := readText(file)
	if err != nil {
		return err
	}
	o.sums = map[string]string{}
	for line := range strings.Lines(text) {
		sum := linkedSum.FindStringSubmatch(strings.TrimSpace(line))
		if sum == nil {
			return badPackage("%s: %.200q is no sum of a module", file.Path, line)
		}
		o.sums[sum[2]] = sum[1]
	}
	return nil
}

// command returns what links the modules in a root that has the objects and the linker, and puts
// them into a folder of the root. All words in it have been checked to need no quotes.
func (o *linkObjects) command(output string) []string {
	lines := []string{"set -e", "cd /" + o.dir}
	for _, call := range o.calls {
		lines = append(lines, strings.Join(call, " "))
	}
	copied := slices.Sorted(maps.Keys(o.sums))
	lines = append(lines, "cp "+strings.Join(copied, " ")+" "+output)
	return []string{"/bin/sh", "-c", strings.Join(lines, "\n")}
}

// sign appends the distribution's signatures to linked modules, which must be the ones that were
// signed, and writes them into dir. It returns their names.
func (o *linkObjects) sign(ctx context.Context, linked, dir string) (names []string, err error) {
	for _, file := range slices.Sorted(maps.Keys(o.sums)) {
		made := filepath.Join(linked, file)
		sum, _, err := kbuild.Digest(made)
		if err != nil {
			return nil, err
		}
		if sum != o.sums[file] {
			return nil, badPackage("%s as it was linked has the SHA-256 %s, and the distribution signed the one "+
				"with %s: its signature does not fit", file, sum, o.sums[file])
		}
		signature, there := o.signatures[file]
		if !there || signature.Kind != rootfs.File || signature.Size > maxLinkSignature {
			return nil, badPackage("there is no signature %s/%s.sig, or it is too large", o.dir, file)
		}
		err = appendTo(ctx, made, signature, filepath.Join(dir, file))
		if err != nil {
			return nil, fmt.Errorf("append the signature to %s: %w", file, err)
		}
		names = append(names, strings.TrimSuffix(file, ".ko"))
	}
	return names, nil
}

// appendTo writes a file and an entry, one after the other.
func appendTo(ctx context.Context, file string, follows *rootfs.Entry, to string) (err error) {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read only
	signature, err := follows.Open()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, rootfs.Cancellable(ctx, io.MultiReader(in, signature)))
	return errors.Join(err, out.Close())
}
