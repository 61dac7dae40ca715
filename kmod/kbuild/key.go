package kbuild

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
)

// Method is the version of the way this package compiles. It is part of the key and changes when
// Compile makes something else of equal inputs.
const Method = 1

// Key names all inputs that a set of modules was compiled from. Sets with equal keys are
// interchangeable.
type Key struct {
	Driver   string `json:"driver"`   // "535.261.03"
	Flavour  string `json:"flavour"`  // "proprietary" or "open"
	Release  string `json:"release"`  // of the kernel, in the form of uname -r
	Arch     string `json:"arch"`     // Go's name: "amd64"
	Kernel   string `json:"kernel"`   // identity of the kernel, from KernelID
	Compiler string `json:"compiler"` // Compiler.Version: "gcc 12.2.0"
	// names of the patches to NVIDIA's sources, in their order
	Patches []string `json:"patches,omitempty"`
	// Companions are the IDs of the companions that were compiled with the driver's modules, in
	// their order.
	Companions []string `json:"companions,omitempty"`
	// Variables are those of make that change what the sources become: "GRID_BUILD=1" of vGPU guest
	// drivers.
	Variables []string `json:"variables,omitempty"`
	Method    int      `json:"recipe"` // Method of the program that compiled the set
}

// String returns the name of the set's folder in a cache:
// "535.261.03-proprietary-6.1.0-38-amd64-<12 hex digits of all fields>".
func (k Key) String() string {
	raw, err := json.Marshal(k)
	if err != nil { // impossible for strings and numbers; the name stays well formed
		raw = fmt.Appendf(nil, "%#v", k)
	}
	sum := sha256.Sum256(raw)
	return k.Driver + "-" + k.Flavour + "-" + k.Release + "-" + hex.EncodeToString(sum[:6])
}

// keyPart matches texts that may become part of a folder's name.
var keyPart = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,79}$`)

// moduleName matches valid module names. A name becomes part of a path and of an argument of make.
var moduleName = lazyregexp.New(`^[a-z][a-z0-9_-]{0,63}$`)

// variable matches an assignment on make's command line that is taken as it stands.
var variable = lazyregexp.New(`^[A-Z][A-Z0-9_]{0,63}=[A-Za-z0-9._-]{0,63}$`)

// check checks that the key can name a folder.
func (k Key) check() error {
	if len(k.Companions) > maxCompanions {
		return fmt.Errorf("the key of a set of modules: %d companions", len(k.Companions))
	}
	for name, part := range map[string]string{"driver": k.Driver, "flavour": k.Flavour, "kernel release": k.Release} {
		if !keyPart().MatchString(part) {
			return fmt.Errorf("the key of a set of modules: %q is no %s", part, name)
		}
	}
	return nil
}

// KernelID returns an identity that tells kernels of the same release apart (a rebuild, a security
// update that kept its ABI name). For the running kernel it is the build id that the kernel shows,
// which needs no headers: "build-id 4a5a9b…". For any other kernel it is a digest of the headers'
// configuration and symbol versions: "headers 77b0…". h may be empty for the running kernel. proc
// and sys are "" for the real /proc and /sys.
func KernelID(release string, h buildtree.Headers, proc, sys string) (string, error) {
	running := bounded.Head(filepath.Join(cmp.Or(proc, "/proc"), "sys/kernel/osrelease"), 256)
	if strings.TrimSpace(string(running)) == release {
		if id, ok := buildID(bounded.Head(filepath.Join(cmp.Or(sys, "/sys"), "kernel/notes"), 64<<10)); ok {
			return "build-id " + id, nil
		}
	}
	if h.Build == "" {
		return "", fmt.Errorf(
			"identify kernel %s: it is not the running one and there are no headers for it",
			release,
		)
	}
	return HeadersID(h)
}

// HeadersID returns an identity of a kernel from its headers alone, which is the same on every
// machine, also where the kernel runs.
func HeadersID(h buildtree.Headers) (string, error) {
	sum := sha256.New()
	for _, name := range []string{"include/config/auto.conf", "Module.symvers"} {
		text, err := bounded.File(filepath.Join(h.Build, name), 64<<20)
		fmt.Fprintf(sum, "%d\n", len(text))
		sum.Write(text)
		if err != nil {
			return "", fmt.Errorf("identify kernel %s by its headers: %w", h.Release, err)
		}
	}
	return "headers " + hex.EncodeToString(sum.Sum(nil)[:20]), nil
}

// buildID returns NT_GNU_BUILD_ID from ELF notes: name size, description size, type, then name and
// description. Linux shows them in the machine's own byte order, which is little endian wherever
// NVIDIA's driver runs.
func buildID(notes []byte) (string, bool) {
	before, id, found := bytes.Cut(notes, []byte("\x03\x00\x00\x00GNU\x00")) // type and name
	if !found || len(before) < 8 {
		return "", false
	}
	size := int(binary.LittleEndian.Uint32(before[len(before)-4:]))
	if size < 8 || size > min(64, len(id)) {
		return "", false
	}
	return hex.EncodeToString(id[:size]), true
}
