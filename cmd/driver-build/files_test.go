package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// readers are calls that read FILE, or ANY, which may be of any size, where eachWrong has no flag for it.
var readers = []string{
	"fleet FILE",
	"lock --check --matrix MATRIX --lock FILE",
	"sign-image h.example/a:1 --image-public-key CERT --import FILE",
	"sign-modules h.example/a:1 --output oci:o --module-cert CERT --import FILE",
	"sign-modules oci:FILE --module-key KEY",
	"sign-modules oci-archive:FILE --module-key KEY",
	"verify oci-archive:FILE",
	"verify docker-archive:FILE",
	"inspect oci-archive:FILE",
	"inspect docker-archive:FILE",
	"inspect oci:FILE",
	"sbom oci-archive:FILE",
	"push oci-archive:FILE h.example/a",
	"bundle list FILE",
	"bundle verify FILE --allow-unsigned",
	"bundle import FILE --to h.example/a --allow-unsigned",
	"matrix add-driver 999.1.1 --matrix MATRIX --redist none --releases none --url FILE --download",
	"--os debian12 --driver 580.178.04 --sbom=FILE",
	"DRIVER_BUILD_CA=FILE inspect h.example/a:1",
	"HOME=CONFIG inspect 127.0.0.1:9/a:1",
}

// wrongFile is the beginning of a wrong value that names a file or folder.
var wrongFile = regexp.MustCompile(`^(oci:|oci-archive:|docker-archive:)?(FOLDER|GARBAGE|/nope\S*)`)

// readCalls are the readers and, for each flag that reads a file by what its help says, calls of which one does.
func readCalls(t *testing.T, files *strings.Replacer) map[string][]string {
	t.Helper()
	calls := map[string][]string{}
	for _, call := range readers {
		calls[call] = []string{files.Replace(call)}
	}
	eachWrong(t, func(c *cobra.Command, base []string, f *pflag.Flag, value string) {
		writes := slices.Contains([]string{"output", "values", "html"}, f.Name) || c.Name() == "lock" && f.Name == "lock"
		if !strings.Contains(f.Usage, "FILE") || writes {
			return
		}
		file := "FILE"
		if f.Name == "source" || f.Name == "file" {
			file = "ANY"
		}
		flag := c.CommandPath() + " --" + f.Name
		call := strings.Join(wrongArgs(c, base, f, wrongFile.ReplaceAllString(value, "${1}"+file), files), " ")
		some := calls[flag]
		if wrongFile.MatchString(value) && !slices.Contains(some, call) {
			some = append(some, call)
		}
		calls[flag] = some // none is an error too
	})
	return calls
}

// TestFiles: whatever a user names that is no regular file of a size that makes sense is refused at once, with its name,
// within the least memory that driver-build works in.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := wrongFiles(t, dir) // with a folder
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, unix.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", at("zero")))
	require.NoError(t, os.Truncate(testfile.Write(t, at("large"), ""), 64<<30))
	calls := make(chan func())
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for f := range calls {
				f()
			}
		})
	}
	for what, some := range readCalls(t, files) {
		for _, kind := range []string{"pipe", "zero", "folder", "large"} {
			calls <- func() {
				for _, call := range some {
					if kind == "large" && strings.Contains(call, "ANY") || refusesFile(t, dir, call, kind) {
						return
					}
				}
				t.Errorf("%s with %s: no call names it: %q", what, kind, some)
			}
		}
	}
	close(calls)
	workers.Wait()
}

// refusesFile says whether a call ends well: with an exit code of a mistake and the name of the file.
func refusesFile(t *testing.T, dir, call, kind string) bool {
	file, home := filepath.Join(dir, kind), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, "user/.docker"), 0o700))
	require.NoError(t, os.Symlink(file, filepath.Join(home, "user/.docker/config.json")))
	args := strings.Fields(strings.NewReplacer("FILE", file, "ANY", file, "CONFIG", home+"/user").Replace(call))
	env := append(os.Environ(), asProgram+"=1", "HOME="+home, "DRIVER_BUILD_CACHE="+home+"/cache")
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := []string{"-c", `ulimit -v 2500000; exec "$@"`, "sh", require.Value(os.Executable())(t)}
	cmd := exec.CommandContext(ctx, "sh", append(script, args...)...)
	cmd.Dir, cmd.Env = dir, env
	text, err := cmd.CombinedOutput()
	named := strings.Contains(string(text), file) || strings.Contains(string(text), ".docker/config.json")
	code := cmd.ProcessState.ExitCode()
	if code < 2 || code > 6 || strings.Contains(string(text), "goroutine ") {
		t.Errorf("%s\nwith %s: %v: %.2000s", call, kind, err, text)
	}
	return named
}
