package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// secret stands in each URL of these tests, as a password and as a token.
const secret = "s3cretPW"

// secretValues are what a user may give where a URL, an image, a repository or a registry is wanted.
var secretValues = []string{
	"http://joe:" + secret + "@127.0.0.1:9/x?token=" + secret,
	"joe:" + secret + "@127.0.0.1:9/x",
	"http://joe:a/" + secret + "%zz@127.0.0.1:9/x",
}

// secretCalls are calls whose arguments have a secret in place of VALUE, and those of flags that want more than one word.
var secretCalls = []string{
	"inspect VALUE", "verify VALUE", "sbom VALUE", "push VALUE h.example/a", "push oci:LAYOUT VALUE", "sign-image VALUE --image-key KEY",
	"sign-modules VALUE --module-key KEY --output oci:o", "bundle create VALUE --repository h.example/a --output b.tar",
	"bundle import b.tar --to VALUE --allow-unsigned", "bundle have VALUE",
	"inspect 127.0.0.1:9/a:1 --registry-mirror 127.0.0.1:9=VALUE", "inspect 127.0.0.1:9/a:1 --registry-mirror VALUE=127.0.0.1:8",
	"kernels --os debian12 --matrix MATRIX --mirror packages.example=VALUE", "drivers --releases VALUE --redist none", "drivers --redist VALUE --releases none",
	"drivers --releases VALUE --redist none --progress json", "doctor --mirror VALUE", "doctor --builder tcp://VALUE -o json", "doctor --builder ssh://VALUE",
	"doctor --builder unix:///x?token=" + secret, "DRIVER_BUILD_REPOSITORY=VALUE doctor", "DRIVER_BUILD_REPOSITORY=VALUE plan --matrix MATRIX",
	"plan --matrix REPOSITORY", "check --matrix REPOSITORY", "report --matrix REPOSITORY --html -", "list --matrix REPOSITORY", "doctor --matrix REPOSITORY",
	"plan --matrix MATRIX --mirror http://joe:" + secret + "@127.0.0.1:9/x -o json --repository 127.0.0.1:9/a",
	"plan --matrix MATRIX --mirror http://joe:" + secret + "@127.0.0.1:9/x -o gitlab --repository 127.0.0.1:9/a",
}

// TestSecrets: no password and no token of a URL is in anything that a command prints, whichever flag or argument it is given to.
// Some flags name a file or folder that is written, so the test has a working directory of its own and cannot run in parallel.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	files := wrongFiles(t, dir)
	matrix := require.Value(os.ReadFile(files.Replace("MATRIX")))(t)
	quiet := func(args []string) {
		env := map[string]string{"DRIVER_BUILD_CACHE": filepath.Join(dir, "cache"), "HOME": dir}
		for strings.HasPrefix(args[0], "DRIVER_BUILD_") {
			name, value, _ := strings.Cut(args[0], "=")
			env[name] = value
			args = args[1:]
		}
		r := call(t.Context(), t, env, args...)
		if strings.Contains(r.Stdout+r.Stderr, secret) {
			t.Errorf("driver-build %q: exit code %d\n%.2000s%.2000s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	for _, value := range secretValues {
		named := strings.Replace(string(matrix), "\ndefaults:", "\ndefaults:\n  repository: '"+value+"'", 1)
		if named == string(matrix) {
			named += "\ndefaults:\n  repository: '" + value + "'\n"
		}
		repository := testfile.Write(t, filepath.Join(dir, "repository.yaml"), named)
		values := strings.NewReplacer("VALUE", value, "REPOSITORY", repository)
		for _, line := range secretCalls {
			var args []string
			for word := range strings.FieldsSeq(line) {
				args = append(args, files.Replace(values.Replace(word)))
			}
			quiet(args)
		}
	}
	var tried []string
	eachWrong(t, func(c *cobra.Command, base []string, f *pflag.Flag, _ string) {
		flag := c.CommandPath() + " " + f.Name
		writes := slices.Contains([]string{"output", "values", "html", "export"}, f.Name) // the name of what was written is the result
		if f.Value.Type() == "bool" || writes || slices.Contains(tried, flag) {
			return
		}
		tried = append(tried, flag)
		quiet(wrongArgs(c, base, f, secretValues[0], files))
	})
}
