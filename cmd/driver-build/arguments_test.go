package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/commandtest"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
)

// needless are commands that work without arguments and flags.
var needless = []string{"cache", "cache prune", "list", "lock", "check", "plan", "drivers", "matrix", "doctor", "bundle", "version", "fleet", "audit", "gpus"}

// takesAny are commands that take any number of arguments.
var takesAny = map[string]bool{"sign-image": true, "push": true, "bundle create": true, "bundle verify": true, "bundle import": true, "drivers": true, "gpus": true, "bundle list": true}

// TestArguments: each command refuses no arguments where it needs some, too many, misspelt ones and unknown
// flags: exit code 2, one line that says what to do, nothing on stdout, no file.
func TestArguments(t *testing.T) {
	t.Parallel()
	root := newRootCmd(&session.App{})
	root.InitDefaultCompletionCmd()
	dir := t.TempDir()
	refused := func(args ...string) {
		t.Helper()
		r := call(t.Context(), t, map[string]string{"DRIVER_BUILD_CACHE": filepath.Join(dir, "cache")}, append(args, "--offline")...)
		text := strings.TrimPrefix(r.Stderr, "driver-build: ")
		if r.Code != 2 || r.Stdout != "" || strings.Count(r.Stderr, "\n") != 1 || text == r.Stderr || len(text) < 20 {
			t.Errorf("driver-build %q: exit code %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		words := strings.Fields(c.CommandPath())[1:]
		name := strings.Join(words, " ")
		completion := len(words) > 0 && words[0] == "completion"
		if len(words) > 0 && words[0] == "help" {
			return
		}
		with := func(more ...string) []string { return append(append([]string{}, words...), more...) }
		if !completion && !slices.Contains(needless, name) {
			refused(with()...)
		}
		if !takesAny[name] {
			refused(with("one", "two", "three")...)
		}
		refused(with("--no-such-flag")...)
		refused(with("--jobs")...)
		if c.HasAvailableSubCommands() {
			refused(with("no-such-command")...)
		}
	}
	walk(root)
	assert.Equalf(t, 0, len(testfile.List(t, dir)), "files")
}

// TestContradictions: flags that exclude or need each other, names that there are not, and files and keys that are of another
// kind are found before anything is asked or written: exit code 2 and one line that says what to do.
func TestContradictions(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	ref, nothing := u.modulesImage(t, "amd64", "arm64"), u.file(t, "empty.pem", "nothing")
	p12, cert := commandtest.SignKey(t)
	key, public := u.imageKey(t, "site")
	u.tool(t, "list").Want(t, 0) // writes the matrix
	before, asked := testfile.List(t, u.Dir), u.Requests("/")
	const build, old, kernel = "--os debian12 --driver " + newDriver + " ", "--os ubuntu18.04 --driver 418.87.01 ", "--os debian12 --driver " + newDriver + " --kernel latest "
	sign, signed := "sign-modules "+ref+" ", build+"--repository h.example/a --image-key "+key+" "
	for args, parts := range map[string][]string{
		build + "--with-toolchain": {"--with-toolchain", "give --kernel"},
		build + "--one-image":      {"--one-image", "give --kernel"},
		build + "--with-sources":   {"--with-sources", "give --kernel"},
		build + "--kmm":            {"--kmm", "give --kernel"},
		build + "--image-key a --image-signer b --repository h.example/a": {"--image-key and --image-signer"},
		"lock --lock none":                                          {"--lock none is for builds"},
		sign + "--export a --module-key k":                          {"give one of"},
		"verify h.example/a:1 --kernel 6.1":                         {"--kernel is for --deep"},
		"verify dst:1":                                              {`"dst:1" names no registry, and no layout or archive here`},
		"verify h.example/a:1 --source y":                           {"for --rebuild"},
		"plan --all --repository h.example/a --module-cert x":       {"give --kernel"},
		"bundle verify x --key a --allow-unsigned":                  {"--key", "--allow-unsigned"},
		"bundle import x --to h.example/a --key a --allow-unsigned": {"--key", "--allow-unsigned"},
		"sign-image h.example/a:1 --type x:y":                       {"--image-key"},
		"drivers no-branch":                                         {"no-branch", "R535"},
		"gpus 1eb8 nothing":                                         {`GPU "nothing" is not in the list`},
		"gpus 1eb8 --node-feature-rules":                            {"about all GPUs: leave out 1eb8"},
		"gpus -o json --node-feature-rules":                         {"prints YAML: leave out -o json"},
		"completion tcsh":                                           {"tcsh"},
		"":                                                          {"nothing to build", "--all", "driver-build list"},
		"--os ubuntu16.4 --driver 418.87.01":                        {"ubuntu16.4", "ubuntu16.04"},
		"--os ubuntu16.04 --driver 418.87.1":                        {"418.87.1", "418.87.01"},
		"--os debian12 --driver 418.87.01":                          {"418.87.01", "debian12", "5.1", "6.1", "--allow-incompatible"},
		"--os ubuntu16.04 --driver 418.87.01 --flavour open":        {"open"},
		"--os ubuntu16.04 --driver 418.87.01 --arch arm64":          {"arm64"},
		"ubuntu16.04":                                               {"unknown command", "usage: driver-build --os SYSTEM --driver VERSION"},
		old + "-o oci:dist":                                         {"unknown shorthand flag"},
		"push oci:dist dist":                                        {"dist"},
		"sign-modules h.example/a:1 --module-key " + nothing + " --module-cert " + nothing: {"give --push --repository REGISTRY/PATH, or --output oci:DIR"},
		old + "--push":          {"--repository", "defaults.repository"},
		old + "--ca " + nothing: {"holds no PEM certificate"},
		old + "--output docker-archive:x --compression zstd":                                    {"zstd", "--compression gzip"},
		old + "--driver 535.261.03 --output oci-archive:x":                                      {"one image, 2", "oci:DIR"},
		old + "--driver 535.261.03 --source http://x/y.run":                                     {"--source is one archive"},
		"--os debian12 --driver 535.261.03 --arch amd64 --arch arm64 --output docker-archive:x": {"one architecture"},
		"push registry/x:1 oci:y":                                                               {"REGISTRY/PATH:TAG"},
		sign:                                                                                    {"--module-key KEY, --export DIR and --import DIR"},
		sign + "--image-key k":                                                                  {"driver-build sign-image IMAGE"},
		sign + "--module-key k":                                                                 {"k"},
		sign + "--import d":                                                                     {"--module-cert"},
		sign + "--export d --module-cert c":                                                     {"belongs to a key"},
		sign + "--import d --module-cert c --unsigned-modules":                                  {"--export"},
		sign + "--export d --push":                                                              {"makes no image"},
		sign + "--import d --module-cert " + p12:                                                {"it is PKCS#12"},
		sign + "--import d --module-cert " + cert + " --arch sh":                                {"amd64, arm64"},
		sign + "--module-key " + p12 + " --module-cert " + cert + " --push":                     {"--repository"},
		sign + "--module-key " + p12 + " --module-cert " + cert + " --output tar:x":             {`"tar:x" is no output`},
		sign + "--module-key " + p12 + " --module-cert " + cert:                                 {"the passphrase is missing or wrong"},
		sign + "--module-key pkcs11:token=t;object=o?pin-value=1;module-path=/x --module-cert " + cert: {"pin-source"},
		build + "--image-key " + key:                                               {"--repository"},
		build + "--repository h.example/a --image-key " + public:                   {"give the private key"},
		signed + "--output docker-archive:x":                                       {"docker-archive"},
		build + "--sbom --output docker-archive:x":                                 {"docker-archive"},
		build + "--provenance":                                                     {"--image-key"},
		signed + "--provenance=ci":                                                 {"GitHub"},
		build + "--signature-format both":                                          {"--image-key"},
		build + "--module-key key.pem":                                             {"give --kernel too"},
		build + "--module-cert cert.pem --kernel latest":                           {"give --module-key too"},
		build + "--modules-from distribution":                                      {"give --kernel too"},
		build + "--kernel latest --modules-from distribution --module-key key.pem": {"have their signatures"},
		build + "--kernel latest --modules-from distribution --with-toolchain":     {"leave out --kernel-from, --with-toolchain"},
		build + "--kernel 6.1.0-56-amd64 --kernel-flavour cloud-amd64":             {"has its flavour in its name"},
		build + "--kernel latest --builder kube-pod://-x":                          {`is not of the form kube-pod://POD`},
		build + "--kernel latest --builder buildkit=kube-pod://ci/x":               {"of the form kube-pod://POD?context=CONTEXT&namespace=NAMESPACE"},
		build + "--kernel latest --builder kube-pod://x --builder chroot":          {"one builder at a time"},
	} {
		r := u.Run(t, strings.Fields(args)...).Want(t, 2, parts...)
		if strings.Count(r.Stderr, "driver-build: ") != 1 || r.Stdout != "" {
			t.Errorf("%s: stdout %q, stderr %q", args, r.Stdout, r.Stderr)
		}
	}
	assert.Samef(t, before, testfile.List(t, u.Dir), "files of the user")
	assert.Equalf(t, asked, u.Requests("/"), "something was asked")
	for _, epoch := range []string{"yesterday", "-1", "1764460800000"} {
		u.Env["SOURCE_DATE_EPOCH"] = epoch
		u.Run(t, strings.Fields(old)...).Want(t, 2, "SOURCE_DATE_EPOCH", epoch)
	}
}

// TestOtherLock: a lock of a later driver-build is refused and not replaced; one of an earlier is replaced on request.
func TestOtherLock(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	text := `{"schema": 3, "newField": {}}`
	file := u.file(t, "matrix.lock", text)
	for _, args := range []string{"lock", "lock --update", "check", "--os debian12 --driver " + newDriver} {
		u.tool(t, args).Want(t, 2, "matrix.lock: a lock of a later driver-build: its schema is 3, this program knows 2")
	}
	assert.Equal(t, text, testfile.Read(t, file))
	testfile.Write(t, file, "# What the images\nschema: 1\ntargets: {}\n")
	for _, args := range []string{"lock", "--os debian12 --driver " + newDriver} {
		u.tool(t, args).Want(t, 2, "an earlier driver-build wrote it", "driver-build lock --update")
	}
	u.tool(t, "lock --update").Want(t, 0)
	u.tool(t, "lock --check").Want(t, 0)
}
