package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// wrongKind has the kind of file that a child of TestFiles tries.
const wrongKind = "DRIVER_BUILD_TEST_FILES"

// TestFiles: whatever a user names that is no regular file of a size that makes sense is refused at once, with its name,
// within the least memory that driver-build works in. A child has that memory and makes all calls with one kind of file.
func TestFiles(t *testing.T) {
	if kind := os.Getenv(wrongKind); kind != "" {
		refuseFiles(t, kind)
		return
	}
	t.Parallel()
	script := []string{"-c", `ulimit -v 2500000; exec "$@"`, "sh", require.Value(os.Executable())(t), "-test.run=^TestFiles$"}
	for _, kind := range []string{"pipe", "zero", "folder", "large"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "sh", script...)
			cmd.Env = append(os.Environ(), wrongKind+"="+kind)
			text, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

// refuseFiles makes all calls that read files with a file of a kind.
func refuseFiles(t *testing.T, kind string) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := filepath.Join(dir, kind)
	files := wrongFiles(t, dir) // with a folder
	switch kind {
	case "pipe":
		require.NoError(t, unix.Mkfifo(file, 0o600))
	case "zero":
		require.NoError(t, os.Symlink("/dev/zero", file))
	case "large":
		require.NoError(t, os.Truncate(testfile.Write(t, file, ""), 64<<30))
	}
	for what, some := range readCalls(t, files) {
		named := func(call string) bool {
			return kind == "large" && strings.Contains(call, "ANY") || refusesFile(t, file, call)
		}
		if !slices.ContainsFunc(some, named) {
			t.Errorf("%s: no call names it: %q", what, some)
		}
	}
}

// refusesFile says whether a call ends well: with an exit code of a mistake and the name of the file.
func refusesFile(t *testing.T, file, line string) bool {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, "user/.docker"), 0o700))
	require.NoError(t, os.Symlink(file, filepath.Join(home, "user/.docker/config.json")))
	args := strings.Fields(strings.NewReplacer("FILE", file, "ANY", file, "CONFIG", home+"/user").Replace(line))
	env := map[string]string{"HOME": home, "DRIVER_BUILD_CACHE": home + "/cache"}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && strings.Contains(args[0], "=") {
		name, value, _ := strings.Cut(args[0], "=")
		env[name] = value
		t.Setenv(name, value) // for libraries
		args = args[1:]
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := call(ctx, t, env, args...)
	if r.Code < 2 || r.Code > 6 {
		t.Errorf("%s: exit code %d: %.2000s", line, r.Code, r.Stderr)
	}
	return strings.Contains(r.Stderr, file) || strings.Contains(r.Stderr, ".docker/config.json")
}
