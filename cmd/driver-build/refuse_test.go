package main

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/driver-container/driver-container/ci/testkit/imagetest"
	"github.com/driver-container/driver-container/ci/testkit/programtest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/ci/testkit/tool"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/images/oci"
)

// good are command lines that --offline alone keeps from working.
var good = map[string]string{
	" recipe": "",
	"":        "--os debian12 --driver 535.261.03",
	"check":   "", "plan": "--repository h.example/a", "fleet": "NODES", "audit": "NODES", "list": "", "lock": "", "report": "--html -", "drivers": "", "gpus": "", "version": "", "doctor": "",
	"fetch": "--os debian12 --driver 535.261.03", "kernels": "--os debian12",
	"inspect": "h.example/a:1", "verify": "h.example/a:1", "rehearse": "h.example/a:1", "rehearse module-cert": "h.example/a:1 --secure-boot", "rehearse chart": "h.example/a:1 --values MATRIX", "verify kernel": "h.example/a:1 --deep", "verify source": "h.example/a:1 --rebuild", "push": "h.example/b:1 h.example/a:1", "sbom": "h.example/a:1",
	"sign-modules": "h.example/a:1 --module-key KEY --push --repository h.example/a", "sign-modules export": "h.example/a:1",
	"sign-image": "h.example/a:1 --image-key KEY", "sign-image type": "h.example/a:1 --image-key KEY --predicate ASKED/request.json", "sign-image export": "h.example/a:1",
	"sign-image import": "h.example/a:1 --image-public-key CERT", "sign-image image-key": "h.example/a:1", "sign-image image-signer": "h.example/a:1", "sign-image image-public-key": "h.example/a:1",
	"cache": "", "cache prune": "",
	"sign-modules import": "h.example/a:1 --module-cert CERT", "sign-modules unsigned-modules": "h.example/a:1 --export EMPTYFOLDER", "matrix": "",
	"matrix init": "--os debian12 --driver 535.261.03", "matrix add-driver": "999.1.2 --matrix MATRIX",
	"bundle": "", "bundle create": "--output EMPTY.tar --repository h.example/a", "bundle create matrix": "--output EMPTY.tar --repository h.example/a --os debian12",
	"bundle verify": "GARBAGE --allow-unsigned", "bundle verify key": "GARBAGE", "bundle list": "GARBAGE", "bundle have": "h.example/a",
	"bundle import": "GARBAGE --to h.example/a --allow-unsigned", "bundle import key": "GARBAGE --to h.example/a",
}

// wrong are values that each flag refuses, in each command that has it; switches need none. Further
// flags that the value needs follow it, for commands that have them. Words in capitals are files that
// the test creates.
var wrong = map[string][]string{
	"os":              {"debian99", "debian12,", "Debian 12", "debian12 --os bookworm", `"debian12`},
	"driver":          {"latest", "R999", "536", "535.261.03,", "../x"},
	"arch":            {"x86_64", "mips", "amd64,aarch64"},
	"flavour":         {"closed", "Open"},
	"companions":      {"nvidia_fs", "peermem", "nv-p2p-dummy"},
	"matrix":          {"/nope.yaml", "FOLDER", "GARBAGE", "/dev/null"},
	"profile":         {"tiny"},
	"compression":     {"lz4"},
	"base":            {"/srv/base", "./base", "https://h.example/a:1", "Debian:12", "h.example:x/a", "oci:/nope", "oci:GARBAGE", "oci-archive:GARBAGE", "oci-archive:/nope", "oci-archive:FOLDER", "docker-archive:EMPTY", "oci-archive:/dev/null"},
	"allow-unserved":  {"no-gpu", "kernel,some"},
	"fail-on":         {"eol", "vulnerable=11", "end-of-life,"},
	"advisories":      {"/nope"},
	"deny":            {"eol", "end-of-life,", "known-bad --deny bad"},
	"cuda":            {"12", "12.8.1", "13.99", "0.1", "-1.0", "$(id)", "12.8x"},
	"kernel-from":     {"/srv/toolkit", "Debian:12", "oci:/nope", "oci:GARBAGE", "oci-archive:FOLDER", "docker-archive:EMPTY"},
	"modules-from":    {"canonical", "Distribution", "compiler,distribution"},
	"from":            {"/srv/toolkit", "Debian:12", "oci:/nope", "oci:GARBAGE", "oci-archive:FOLDER", "docker-archive:EMPTY"},
	"mirror":          {"notaurl", "ftp://h.example/", "https://", "debian=notaurl", "http://a.example/,http://b.example/", "file:"},
	"source":          {"/nope.run", "FOLDER", "ftp://h.example/x.run", "https:///x.run", "://"},
	"lock":            {"/nope/x.lock", "FOLDER", "GARBAGE"},
	"output":          {"dist", "oci:", "tar:x", "oci:x:tag", "oci-archive:x.tar:1", "oci:GARBAGE", "oci:GARBAGE/x", "oci-archive:/nope/x.tar", "oci-archive:GARBAGE/x", "oci-archive:FOLDER", "oci-archive:x/", "docker-archive:/proc/x.tar", "oci:/proc/x", "oci-archive:/sys/x.tar", "oci:/dev/full", "oci-archive:DANGLING", "oci:BADLAYOUT", "oci:a --output oci-archive:a", "oci-archive:SOCKET"},
	"repository":      {"h.example/a:1", "h.example/A", "https://h.example/a", "http://h.example/a", "h.example/a@sha256:00", "oci:dist", "/srv/a", "h.example:/a", "h.example//a"},
	"mount-from":      {"h.example/a:1", "h.example/A", "https://h.example/a", "oci:dist", "/srv/a"},
	"cache-from":      {"h.example/a:1", "h.example/A", "https://h.example/a", "oci:dist", "/srv/a", "none --cache-from h.example/a"},
	"cache-to":        {"h.example/a:1", "h.example/A", "https://h.example/a", "oci:dist", "/srv/a"},
	"cache-key":       {"/nope", "FOLDER", "GARBAGE"},
	"cache":           {"GARBAGE", "/proc/x", "/dev/null/x"},
	"keep-days":       {"0", "-1", "x", "36501", "150000"},
	"jobs":            {"0", "65", "many", "99999999999999999999"},
	"progress":        {"loud"},
	"precompiled":     {"true", "maybe"},
	"recipe":          {"/nope", "FOLDER", "GARBAGE", "EMPTY"},
	"ca":              {"/nope", "FOLDER", "GARBAGE"},
	"registry-mirror": {"x", "=x", "x=", "docker.io=https:", "https://h.example=x", "docker.io=m.example/A"},
	"kernel":          {"newest", "latest:0", "*", "latest --kernel bad*", "6.1.0-1-amd64,"},
	"kernel-flavour":  {"a/b", "a* --kernel latest"},
	"modules":         {"nvidia", "../x --kernel latest", "nvidia --kernel latest"},
	"builder":         {"docker", "chroot=x", "buildkit=", "buildkit=nowhere", "buildkit=tcp://h.example", "chroot --builder buildkit"},
	"module-key":      {"/nope --kernel latest", "FOLDER --kernel latest", "GARBAGE --kernel latest", "pkcs11:x=y --kernel latest"},
	"module-cert":     {"/nope", "GARBAGE --module-key KEY --kernel latest"},
	"allow-layer":     {"x", "sha256:00", "latest"},
	"image-key": {
		"/nope --repository h.example/a", "FOLDER --repository h.example/a", "GARBAGE --repository h.example/a",
		"CERT --repository h.example/a", "pkcs11:x=y --repository h.example/a",
	},
	"image-public-key": {"/nope", "/nope --image-signer true --repository h.example/a", "GARBAGE --image-signer true --repository h.example/a"},
	"image-signer":     {"/nope --repository h.example/a", "GARBAGE --repository h.example/a", "FOLDER --repository h.example/a"},
	"signature-format": {"jws", ""},
	"key":              {"/nope", "GARBAGE", "FOLDER", "EMPTY"},
	"identity":         {"h.example/A", "https://h.example/a", "h.example/a@sha256:00", "h.example/a"},
	"require":          {"xml", "vex"},
	"sbom":             {"xml", "GARBAGE", "FOLDER"},
	"provenance":       {"ci", "x"},
	"vex":              {"/nope", "GARBAGE", "FOLDER"},
	"predicate":        {"/nope --type x:y", "GARBAGE --type x:y", "/nope"},
	"type":             {"spdx", "a b", ""},
	"username":         {""},
	"format":           {"xml", ""},
	"releases":         {"/nope.json", "FOLDER", "ftp://h.example/x"},
	"redist":           {"/nope.json", "FOLDER", "ftp://h.example/x"},
	"url":              {"notaurl", "ftp://h.example/x.run", "amd46=https://h.example/x.run", "https://h.example/a b.run"},
	"only":             {"half"},
	"export":           {"FOLDER", "GARBAGE", "/proc/x/y"},
	"import":           {"/nope", "EMPTYFOLDER"},
	"tag":              {"a b", "a:b", "", "-x"},
	"chart":            {"/nope", "FOLDER", "GARBAGE", "oci://h.example/A:1"},
	"file":             {"/nope", "FOLDER"},
	"file-tag":         {"a b", "", "-x"},
	"inputs":           {"/nope", "FOLDER"},
	"headers":          {"latest", "../x", "*"},
	"since":            {"/nope", "GARBAGE", "EMPTY"},
	"to":               {"", "h.example/a:1", "h.example/A", "https://h.example/a"},
	"values":           {"FOLDER", "/nope/x", "SOCKET", "/proc/x"},
	"policy":           {"/nope", "GARBAGE", "/proc/x"},
	"keep":             {"GARBAGE", "GARBAGE/x"},
	"timeout":          {"0s", "-1m", "soon", "5"},
	"html":             {"", "/nope/x.html", "FOLDER", "/proc/x.html", "GARBAGE/x"},
}

// wrongHere are values of flags that mean something else in a command than elsewhere.
var wrongHere = map[string][]string{
	"bundle create output":  {"", "FOLDER", "/nope/x.tar", "GARBAGE/x", "DANGLING", "SOCKET", "/proc/x.tar", "x/"},
	"matrix init output":    {"GARBAGE", "GARBAGE/x", "DANGLING", "SOCKET", "/proc/x"},
	"bundle import inputs":  {"/nope", "GARBAGE"},
	"bundle import headers": {"/nope", "GARBAGE"},
}

// anything are flags whose values cannot be wrong.
var anything = []string{"title", "help", "pull-secret"}

// TestWrongValues: each flag of each command refuses wrong values with exit code 2, names the flag or the
// value, and begins nothing.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, binaries := wrongFiles(t, dir), programtest.Make(t, "")
	eachWrong(t, func(c *cobra.Command, base []string, f *pflag.Flag, value string) {
		refuses(t, files, binaries, wrongArgs(c, base, f, value, files), f, value)
	})
	if left, err := filepath.Glob(filepath.Join(dir, "cache", "*", "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("something was read: %v, %v", left, err)
	}
}

// eachWrong calls try with each wrong value of each flag of each command, and with the words that stand before it.
func eachWrong(t *testing.T, try func(c *cobra.Command, base []string, f *pflag.Flag, value string)) {
	t.Helper()
	root := newRootCmd(&session.App{})
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		name := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "driver-build"))
		if name == "completion" || name == "help" || name == "build" { // which is the root
			return
		}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.AddFlagSet(c.Flags())
		if name == "inspect" { // the flags of all commands are the same
			flags.AddFlagSet(root.PersistentFlags())
		}
		flags.VisitAll(func(f *pflag.Flag) {
			base, ok := good[name+" "+f.Name]
			if !ok {
				base, ok = good[name]
			}
			values, own := wrongHere[name+" "+f.Name]
			switch {
			case f.Value.Type() == "bool":
				values = []string{"maybe"}
			case !own:
				values = wrong[f.Name]
			}
			if !ok || len(values) == 0 && !slices.Contains(anything, f.Name) {
				t.Errorf("%s --%s: the table lacks it", name, f.Name)
			}
			for _, value := range values {
				try(c, strings.Fields(name+" "+base), f, value)
			}
		})
	}
	walk(root)
}

// wrongArgs are the arguments for a value and the flags that follow it.
func wrongArgs(c *cobra.Command, base []string, f *pflag.Flag, value string, files *strings.Replacer) []string {
	value, rest, _ := strings.Cut(value, " --")
	args := append(slices.Clone(base), "--offline", "--"+f.Name+"="+value)
	for _, usual := range []string{"--progress=plain", "--matrix=MATRIX", "--cache=CACHE"} {
		flag, _, _ := strings.Cut(usual[2:], "=")
		if f.Name != flag && (flag != "matrix" || c.Flags().Lookup(flag) != nil) {
			args = append(args, usual)
		}
	}
	for extra := range strings.SplitSeq(rest, " --") {
		if flag, _, _ := strings.Cut(extra, " "); c.Flags().Lookup(flag) != nil {
			args = append(args, strings.Fields("--"+extra)...)
		}
	}
	for i := range args {
		args[i] = files.Replace(args[i])
	}
	return args
}

func refuses(t *testing.T, files *strings.Replacer, binaries session.Programs, args []string, f *pflag.Flag, value string) {
	t.Helper()
	var stdout, stderr tool.Buffer
	a := &session.App{Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" }, Binaries: binaries}
	code, text := a.Execute(t.Context(), newRootCmd(a), args), stderr.String()
	named := strings.Contains(text, "--"+f.Name) || f.Shorthand != "" && strings.Contains(text, "-"+f.Shorthand+" ")
	for word := range strings.FieldsSeq(strings.ReplaceAll(files.Replace(value), ",", " ")) {
		named = named || !strings.HasPrefix(word, "--") && strings.Contains(text, word)
	}
	if strings.HasSuffix(value, ",") && f.Value.Type() == "stringSlice" {
		named = strings.Contains(text, `""`)
	}
	if code != 2 || !named || strings.Contains(text, "strconv.") || stdout.String() != "" {
		t.Errorf("driver-build %q: exit code %d\n%s%s", args, code, stdout.String(), text)
	}
}

// wrongFiles makes the files that the table means by words in capitals.
func wrongFiles(t *testing.T, dir string) *strings.Replacer {
	t.Helper()
	path := func(name string) string { return filepath.Join(dir, name) }
	check := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	pair := testcert.New(x509.Certificate{SubjectKeyId: []byte{1}}, nil)
	cert, key := pair.CertPEM(), pair.KeyPEM()
	for name, text := range map[string]string{
		"folder/x": "x", "bad/index.json": "x", "garbage": "garbage\n", "empty": "", "key": key + cert, "cert": cert,
		"matrix": "systems:\n  - id: debian12\n    base: debian:12\n    archs: [amd64]\n    kernels: [6.1]\ndrivers:\n" +
			"  - version: 535.261.03\n    archives:\n      amd64: {url: https://h.example/x.run, sha256: " + strings.Repeat("1", 64) + "}\n",
		"asked/request.json": "{}", "nodes": "host a 6.1.0-56-amd64 x86_64\nID=debian\nVERSION_ID=12\n01:00.0 0302: 10de:1eb8\nend\n",
	} {
		check(os.MkdirAll(filepath.Dir(path(name)), 0o700))
		check(os.WriteFile(path(name), []byte(text), 0o600))
	}
	check(os.Mkdir(path("none"), 0o700))
	check(os.Symlink("nowhere", path("dangling")))
	check(oci.WriteLayout(t.Context(), path("layout"), "x", imagetest.RandomImage(t, "amd64", 10, "x")))
	l, err := net.Listen("unix", path("socket"))
	check(err)
	t.Cleanup(func() { _ = l.Close() })
	return strings.NewReplacer("EMPTYFOLDER", path("none"), "FOLDER", path("folder"), "BADLAYOUT", path("bad"), "LAYOUT", path("layout"),
		"GARBAGE", path("garbage"), "EMPTY", path("empty"), "DANGLING", path("dangling"), "SOCKET", path("socket"), "KEY", path("key"),
		"CERT", path("cert"), "MATRIX", path("matrix"), "ASKED", path("asked"), "NODES", path("nodes"), "CACHE", path("cache"))
}
