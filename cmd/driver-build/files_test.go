package main

import (
	"context"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// readers are calls that read FILE, or ANY, which may be of any size, for every flag, argument and variable of
// the environment that names a file.
var readers = []string{
	"list --matrix FILE",
	"plan --all --matrix FILE",
	"lock --matrix FILE",
	"fleet --matrix FILE nodes.json",
	"matrix add-driver 999.1.1 --matrix FILE",
	"matrix init --os debian12 --driver 580 --output out --matrix FILE",
	"bundle create --output x.tar --repository h.example/a --os debian12 --matrix FILE",
	"plan --all --repository h.example/a --offline --lock FILE",
	"lock --check --lock FILE",
	"inspect h.example/a:1 --ca FILE",
	"PATH=/none plan --os debian12 --driver 580 --repository h.example/a --entrypoint FILE",
	"fleet FILE",
	"sign-image h.example/a:1 --image-key FILE --sbom sbom.json",
	"sign-image h.example/a:1 --image-key key.pem --sbom FILE",
	"sign-image h.example/a:1 --image-key key.pem --vex FILE",
	"sign-image h.example/a:1 --image-key key.pem --type x:y --predicate FILE",
	"sign-image h.example/a:1 --image-key key.pem --image-passphrase-file FILE --vex vex.json",
	"sign-image h.example/a:1 --image-public-key FILE --vex vex.json --export out",
	"sign-image h.example/a:1 --image-public-key key.pub --vex vex.json --import FILE",
	"sign-modules oci:FILE --module-key key.pem --module-cert cert.pem",
	"sign-modules oci-archive:FILE --module-key key.pem --module-cert cert.pem",
	"sign-modules h.example/a:1 --output oci:o --module-key FILE --module-cert cert.pem",
	"sign-modules h.example/a:1 --output oci:o --module-key key.pem --module-cert FILE",
	"sign-modules h.example/a:1 --output oci:o --module-key key.pem --module-cert cert.pem --module-passphrase-file FILE",
	"sign-modules h.example/a:1 --output oci:o --module-cert cert.pem --import FILE",
	"verify oci-archive:FILE",
	"verify docker-archive:FILE",
	"verify h.example/a:1 --key FILE",
	"verify h.example/a:1 --module-cert FILE",
	"verify h.example/a:1 --rebuild --base oci-archive:FILE",
	"verify h.example/a:1 --rebuild --source ANY",
	"inspect oci-archive:FILE",
	"inspect docker-archive:FILE",
	"inspect oci:FILE",
	"sbom oci-archive:FILE",
	"push oci-archive:FILE h.example/a",
	"kernels --from oci-archive:FILE",
	"kernels --from oci:FILE",
	"bundle list FILE",
	"bundle verify FILE --allow-unsigned",
	"bundle verify x.tar --key FILE",
	"bundle import FILE --to h.example/a --allow-unsigned",
	"bundle import x.tar --to h.example/a --key FILE",
	"bundle import x.tar --to h.example/a --allow-unsigned --image-key FILE",
	"bundle create --output y.tar --repository h.example/a --image-key FILE",
	"bundle create --output y.tar --repository h.example/a --inputs FILE",
	"bundle create --output y.tar --repository h.example/a --since FILE",
	"bundle create --output y.tar --repository h.example/a --file ANY",
	"bundle create --output y.tar --repository h.example/a --chart FILE",
	"drivers --releases FILE",
	"drivers --releases none --redist FILE",
	"matrix add-driver 999.1.1 --matrix matrix.yaml --redist FILE --releases none",
	"matrix add-driver 999.1.1 --matrix matrix.yaml --releases FILE",
	"matrix add-driver 999.1.1 --matrix matrix.yaml --redist none --releases none --url FILE --download",
	"report --html r.html --releases FILE",
	"fetch --os debian12 --driver 580.178.04 --only base --base oci-archive:FILE",
	"--os debian12 --driver 580.178.04 --base oci-archive:FILE",
	"--os debian12 --driver 580.178.04 --repository h.example/a --push --cache-key FILE",
	"--os debian12 --driver 580.178.04 --repository h.example/a --push --image-key FILE",
	"--os debian12 --driver 580.178.04 --kernel 6.1.0-25-amd64 --module-key FILE",
	"--os debian12 --driver 580.178.04 --kernel 6.1.0-25-amd64 --kernel-from oci-archive:FILE",
	"--recipe FILE --output oci:x",
	"--os debian12 --driver 580.178.04 --sbom=FILE",
	"DRIVER_BUILD_CA=FILE inspect h.example/a:1",
	"HOME=CONFIG logout 127.0.0.1:9",
}

// noFile are the flags with a text that is no file to read.
var noFile = strings.Fields(`allow-unserved arch at builder builder-tls cache cache-from cache-to companions compression cuda deny driver export file-tag
	flavour format headers html identity kernel kernel-flavour mirror modules mount-from only os output policy precompiled profile progress provenance
	pull-secret registry-mirror repository require image-signer signature-format tag title to type username values`)

// TestEveryFileIsClassified: a new flag or argument with a text is in one of the two lists.
func TestEveryFileIsClassified(t *testing.T) {
	t.Parallel()
	all := strings.ReplaceAll(strings.Join(readers, "\n"), "ANY", "FILE")
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		check := func(f *pflag.Flag) {
			known := slices.Contains(noFile, f.Name) || strings.Contains(all, "--"+f.Name+" ") || strings.Contains(all, "--"+f.Name+"=FILE")
			if strings.HasPrefix(f.Value.Type(), "string") && !known && f.Annotations[session.Renamed] == nil {
				t.Errorf("%s --%s: add a call with FILE to readers, or the flag to noFile", c.CommandPath(), f.Name)
			}
		}
		c.LocalFlags().VisitAll(check)
		c.PersistentFlags().VisitAll(check)
		name := strings.TrimPrefix(c.CommandPath(), "driver-build ")
		_, argument, _ := strings.Cut(c.Use, " ")
		takes := slices.ContainsFunc(strings.Fields(argument), func(word string) bool { return strings.Contains(word, "FILE") && !strings.HasPrefix(argument, "-") })
		if takes && !strings.Contains(all, name+" FILE") {
			t.Errorf("%s %s: add a call with FILE to readers", name, argument)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRootCmd(&session.App{}))
}

// TestFiles: whatever a user names that is no regular file of a size that makes sense is refused at once, with its name,
// within the least memory that driver-build works in.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, unix.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", at("zero")))
	require.NoError(t, os.Mkdir(at("folder"), 0o700))
	require.NoError(t, os.Truncate(testfile.Write(t, at("large"), ""), 64<<30))
	for name, content := range map[string]string{
		"vex.json": `{"@context":"https://openvex.dev/ns/v0.2.0"}`, "sbom.json": `{"spdxVersion":"SPDX-2.3"}`, "nodes.json": `{"items":[]}`,
	} {
		testfile.Write(t, at(name), content)
	}
	pair := testcert.Authority("someone")
	pair.Write(t, at("cert.pem"), at("key.pem"))
	testfile.Write(t, at("key.pub"), testcert.PEM("PUBLIC KEY", require.Value(x509.MarshalPKIXPublicKey(pair.Key.Public()))(t)))
	testfile.Write(t, at("matrix.yaml"), string(require.Value(os.ReadFile("../../matrix.yaml"))(t)))
	require.NoError(t, os.CopyFS(at("patches"), os.DirFS("../../patches")))
	calls := make(chan func())
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for f := range calls {
				f()
			}
		})
	}
	for _, call := range readers {
		for _, kind := range []string{"pipe", "zero", "folder", "large"} {
			if kind == "large" && strings.HasSuffix(call, " ANY") {
				continue
			}
			calls <- func() { refusesFile(t, dir, call, kind) }
		}
	}
	close(calls)
	workers.Wait()
}

func refusesFile(t *testing.T, dir, call, kind string) {
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
	if code := cmd.ProcessState.ExitCode(); code < 2 || code > 6 || !named || strings.Contains(string(text), "goroutine ") {
		t.Errorf("%s\nwith %s: %v: %.2000s", call, kind, err, text)
	}
}
