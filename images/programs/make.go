package programs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/workdir"
)

// makeLimit bounds the making of one program, with the download of its modules.
const makeLimit = 30 * time.Minute

// flags are those that all programs for images are compiled with; make build has the same.
var flags = []string{"-trimpath", "-tags=netgo,osusergo", "-ldflags=-s -w"}

// Module is what a program was made of, as Go wrote it into the program. Sum is empty if it was
// compiled in a checkout.
type Module struct{ Path, Version, Sum string }

// Maker makes programs with the Go tool from the module or the checkout that driver-build was made
// of, as `go install` made driver-build.
type Maker struct {
	Module   Module
	Checkout string // folder, if Module.Sum is empty; "": nothing can be made
	Cache    string // folder; programs of other versions lie beside those of this one
	Offline  bool   // the module must be in Go's own cache
	Notify   func(string)

	announced string // the architecture that Notify has been called for
}

// able reports whether m knows what to make programs of.
func (m *Maker) able() bool { return m != nil && (m.Module.Sum != "" || m.Checkout != "") }

// keeps reports whether the version of a program says all about its source, so that one that was
// made before will do: not in a checkout with changes, or that Git does not know.
func (m *Maker) keeps() bool {
	v := m.Module.Version
	return m.Module.Sum != "" || v != "" && v != develVersion && !strings.HasSuffix(v, "+dirty")
}

// develVersion is the version that Go writes into programs of a checkout that Git does not know.
const develVersion = "(devel)"

// source names what programs are made of.
func (m *Maker) source() string {
	if m.Module.Sum == "" {
		return m.Checkout
	}
	return m.Module.Path + "@" + m.Module.Version
}

// folder is where the programs of this module and compiler are kept.
func (m *Maker) folder() string {
	key := sha256.Sum256([]byte(m.Module.Path + " " + m.Module.Sum + " " + runtime.Version()))
	return filepath.Join(m.Cache, "programs", fmt.Sprintf("%s-%x", m.Module.Version, key[:8]))
}

// program makes a program and returns its file, once check accepts the file.
func (m *Maker) program(
	ctx context.Context,
	name, arch string,
	check func(file string) error,
) (file string, err error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("make %s for %s of %s: %w", name, arch, m.source(), err)
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", fmt.Errorf(
			"it is not here, and there is no Go to make it with: install Go %s",
			strings.TrimPrefix(runtime.Version(), "go"),
		)
	}
	if _, err := cCompiler(name, arch); err != nil {
		return "", err
	}
	parent := filepath.Dir(m.folder())
	if err := os.MkdirAll(m.folder(), 0o755); err != nil {
		return fail(err)
	}
	if err := workdir.Sweep(parent, ".make-"); err != nil {
		return fail(err)
	}
	work, err := workdir.New(parent, ".make-")
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	if m.announced != arch {
		m.Notify(
			fmt.Sprintf(
				"making the programs for images for %s of %s with go: some minutes, unless Go's cache has their parts",
				arch,
				m.source(),
			),
		)
		m.announced = arch
	}
	ctx, cancel := context.WithTimeout(ctx, makeLimit)
	defer cancel()
	made, err := m.Install(ctx, work.Path, "linux", arch, name)
	if err != nil {
		return fail(err)
	}
	if err := check(made); err != nil {
		return fail(err)
	}
	if err := syncFile(made); err != nil {
		return fail(err)
	}
	file = filepath.Join(m.folder(), FileName(name, arch))
	if err := os.Rename(made, file); err != nil {
		return fail(err)
	}
	return file, nil
}

// Install makes a program of one platform in a folder, as `go install` does with flags, and returns
// its file. Only driver-probe gets a C compiler. A release is made with it too, so that both have
// the same bytes.
func (m *Maker) Install(
	ctx context.Context,
	dir, goos, arch, name string,
) (file string, err error) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", err
	}
	compiler, err := cCompiler(name, arch)
	if err != nil {
		return "", err
	}
	env, err := m.environment(ctx, goTool)
	if err != nil {
		return "", err
	}
	env = append(env, "GOPATH="+dir, "GOOS="+goos, "GOARCH="+arch, "CC="+compiler, "CGO_ENABLED=0")
	if compiler != "" {
		env = append(env, "CGO_ENABLED=1")
	}
	from := os.TempDir()
	prefix := m.Module.Path
	suffix := "@" + m.Module.Version
	vcs := "-buildvcs=false" // away from any module
	if m.Module.Sum == "" {
		from = m.Checkout
		prefix = "."
		suffix = ""
		if m.Module.Version != develVersion {
			vcs = "-buildvcs=true"
		}
	}
	args := append([]string{"install", vcs}, flags...)
	if name == recipe.EntrypointName {
		// Nothing is inlined: a twelfth less, for a program that waits most of the time. Functions
		// begin at multiples of 16 bytes instead of 32: another hundredth. HTTP/2 is a 25th.
		args = append(args, "-tags=netgo,osusergo,nethttpomithttp2",
			"-gcflags=all=-l", "-ldflags=-s -w -funcalign=16")
	}
	bin := filepath.Join(dir, "bin")
	if runtime.GOOS != goos || runtime.GOARCH != arch {
		bin = filepath.Join(bin, goos+"_"+arch)
	}
	_, err = run(ctx, from, goTool, env, append(args, prefix+"/cmd/"+name+suffix)...)
	return filepath.Join(bin, name), err
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// cCompiler returns the C compiler that a program needs: driver-probe calls NVIDIA's library.
// Debian's names of cross compilers are those of most systems.
func cCompiler(name, arch string) (string, error) {
	if name != recipe.ProbeName {
		return "", nil
	}
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	want := machine + "-linux-gnu-gcc"
	found, _ := exec.LookPath(want) // "" if it is not there
	if found == "" && runtime.GOOS == "linux" && runtime.GOARCH == arch {
		found, _ = exec.LookPath("gcc")
	}
	if found == "" {
		return "", fmt.Errorf("it is not here, and cannot be made without a C compiler for it: install %s (Debian: gcc-%s-linux-gnu)",
			want, strings.ReplaceAll(machine, "_", "-"))
	}
	return found, nil
}

// environment is that of the Go tool: where modules come from and what may be kept, as the user
// configured it, and nothing else that changes a program.
func (m *Maker) environment(ctx context.Context, goTool string) ([]string, error) {
	names := []string{
		"GOPROXY",
		"GONOPROXY",
		"GOPRIVATE",
		"GOSUMDB",
		"GONOSUMDB",
		"GOINSECURE",
		"GOVCS",
		"GOAUTH",
		"GOMODCACHE",
		"GOCACHE",
	}
	out, err := run(
		ctx,
		os.TempDir(),
		goTool,
		os.Environ(),
		append([]string{"env", "-json"}, names...)...)
	if err != nil {
		return nil, err
	}
	var user map[string]string
	if err := json.Unmarshal(out, &user); err != nil {
		return nil, fmt.Errorf("read what go env says: %w", err)
	}
	env := append(
		os.Environ(),
		"GOENV=off",
		"GOFLAGS=",
		"GOWORK=off",
		"GO111MODULE=on",
		"GOBIN=",
		"GOAMD64=v1",
		"GOARM64=v8.0",
		"GOEXPERIMENT=",
		"GOFIPS140=off",
		"GOGC=400", // the compiler spends less time on its memory
		"CGO_CFLAGS=-O2 -Wno-deprecated-declarations",
		"CGO_CPPFLAGS=",
		"CGO_LDFLAGS=",
	)
	if v := runtime.Version(); strings.HasPrefix(v, "go") && !strings.Contains(v, " ") {
		// that of driver-build: another compiler makes other programs
		env = append(env, "GOTOOLCHAIN="+v)
	}
	for _, name := range names {
		if m.Offline && name == "GOPROXY" {
			user[name] = "off"
		}
		env = append(env, name+"="+user[name])
	}
	return env, nil
}

// maxMessage bounds what of a tool's messages an error repeats.
const maxMessage = 4 << 10

// run runs the Go tool. What it says is part of an error.
func run(ctx context.Context, dir, tool string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = env
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		message := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf(
			"go %s: %s",
			args[0],
			cmp.Or(message[max(0, len(message)-maxMessage):], err.Error()),
		)
	}
	return stdout.Bytes(), nil
}
