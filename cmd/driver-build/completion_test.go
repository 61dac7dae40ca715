package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/ci/testfile"
)

// offered returns what a shell would offer behind args, and the directive to the shell.
func offered(t *testing.T, args ...string) (words []string, directive string) {
	t.Helper()
	r := call(t.Context(), t, nil, append([]string{"__completeNoDesc"}, args...)...)
	r.Want(t, 0)
	lines := strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

const (
	noFiles = ":4"
	noSpace = ":6" // and no files
	anyFile = ":0"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	matrix := u.Path("matrix.yaml")
	require.NoError(t, os.WriteFile(matrix, []byte(u.Matrix()), 0o600))
	require.NoError(t, os.Mkdir(u.Path("layout"), 0o700))
	dir, before := u.Dir+"/", u.Requests("/")
	for _, c := range []struct {
		args, want []string
		directive  string
	}{
		{[]string{"list", "--matrix", matrix, "--os", "ubuntu1"}, []string{"ubuntu16.04", "ubuntu18.04"}, noFiles},
		{[]string{"list", "--matrix", matrix, "--os", "debian12", "--driver", "4"}, nil, noFiles}, // 418 is too old for its kernel
		{[]string{"--matrix", matrix, "--os", "ubuntu16.04,ubuntu1"}, []string{"ubuntu16.04,ubuntu18.04"}, noFiles},
		{[]string{"--matrix", matrix, "--driver", "418"}, []string{oldDriver}, noFiles},
		{[]string{"--matrix", "/no/such.yaml", "--driver", ""}, nil, noFiles},
		{[]string{"--arch", ""}, []string{"amd64", "arm64"}, noFiles},
		{[]string{"--profile", "c"}, []string{"compute", "cuda", "cuda-tu10x", "cuda-ga10x"}, noFiles},
		{[]string{"--flavour=o"}, []string{"open"}, noFiles},
		{[]string{"--compression", ""}, []string{"gzip", "zstd"}, noFiles},
		{[]string{"--signature-format", "b"}, []string{"bundle", "both"}, noFiles},
		{[]string{"check", "-o", ""}, []string{"table", "json"}, noFiles},
		{[]string{"list", "--format", "y"}, []string{"yaml"}, noFiles},
		{[]string{"plan", "-o", "g"}, []string{"github", "gitlab"}, noFiles},
		{[]string{"sbom", "-o", ""}, []string{"spdx", "cyclonedx"}, noFiles},
		{[]string{"version", "--progress", "p"}, []string{"plain"}, noFiles},
		{[]string{"--repository", ""}, nil, noFiles},
		{[]string{"list", ""}, nil, noFiles},
		{[]string{"--output", "oci"}, []string{"oci:", "oci-archive:"}, noSpace},
		{[]string{"--output", "oci:" + dir + "l"}, []string{"oci:" + dir + "layout/"}, noSpace},
		{[]string{"verify", "oci-archive:" + dir + "m"}, []string{"oci-archive:" + dir + "matrix.yaml"}, noSpace},
		{[]string{"bundle", "create", "--output", ""}, nil, anyFile},
		{[]string{"bundle", "import", ""}, nil, anyFile},
		{[]string{"attest", "--sbom", ""}, nil, anyFile},
		{[]string{"--sign-key", ""}, nil, anyFile},
		{[]string{"--ca", ""}, nil, anyFile},
		{[]string{"--cache", ""}, nil, anyFile},
		{[]string{"--matrix", ""}, nil, anyFile},
		{[]string{"li"}, []string{"list"}, noFiles},
	} {
		words, directive := offered(t, c.args...)
		assert.Equalf(t, strings.Join(c.want, " "), strings.Join(words, " "), "%q", c.args)
		assert.Equalf(t, c.directive, directive, "%q", c.args)
	}
	assert.Equalf(t, before, u.Requests("/"), "something was downloaded")
	words, _ := offered(t, "--os", "debian12", "--driver", "") // of the matrix in the program
	if !slices.Contains(words, "535.261.03") || slices.Contains(words, "418.87.01") {
		t.Errorf("drivers of debian12: %q", words)
	}
}

// TestCompletionWritesNothing: a shell asks at every TAB.
func TestCompletionWritesNothing(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "cache")
	offered(t, "kernels", "--cache", cache, "--os", "")
	if _, err := os.Stat(cache); err == nil {
		t.Error("the cache was made")
	}
}

// TestCompletionInBash presses TAB in a real bash with the script that driver-build prints.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	const library = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(library); err != nil {
		t.Skip("bash-completion is not installed")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	dir := t.TempDir()
	program := require.Value(os.Executable())(t)
	testfile.Write(t, dir+"/driver-build", "#!/bin/sh\n"+asProgram+"=1 exec "+program+" \"$@\"\n")
	const script = `
. ` + library + `
. <(driver-build completion bash)
press() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9 COMPREPLY=()
	COMP_POINT=${#COMP_LINE}
	compopt() { :; } # works inside of a completion only
	__start_driver-build || true
	echo "${COMPREPLY[*]}"
}
press driver-build lis
press driver-build --os debian12 --profile co
press driver-build --os debian12 --driver 535.
press driver-build list -o ya
`
	cmd := exec.CommandContext(t.Context(), bash, "--norc", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir}, 30*time.Second
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	lines := strings.Split(string(out), "\n")
	want := []string{"list", "compute", "535.", "yaml", ""}
	if len(lines) != len(want) {
		t.Fatalf("%s", out)
	}
	for i, part := range want {
		assert.Containsf(t, lines[i], part, "line %d", i)
	}
}

// TestCompletionInOtherShells asks a real fish and a real zsh, with the scripts that driver-build prints, for
// the words of the same lines. zsh's own display of them is replaced, since it needs a terminal.
func TestCompletionInOtherShells(t *testing.T) {
	t.Parallel()
	lines := []string{"driver-build lis", "driver-build --os debian12 --profile co", "driver-build --os debian12 --driver 535.", "driver-build list -o ya"}
	want := []string{"list", "compute", "535.", "yaml"}
	for shell, script := range map[string]string{
		"fish": "driver-build completion fish | source\nfor line in $argv\n echo \"> $line\"\n complete -C $line\nend\n",
		"zsh": `autoload -U compinit && compinit -u -D
. <(driver-build completion zsh)
_describe() { print -l -- $completions }
for line in "$@"; do
	print -r -- "> $line"
	words=(${(z)line}) CURRENT=${#words}
	_driver-build
done
`,
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(shell + " is not installed")
			}
			dir := t.TempDir()
			testfile.Write(t, dir+"/driver-build", "#!/bin/sh\n"+asProgram+"=1 exec "+require.Value(os.Executable())(t)+" \"$@\"\n")
			require.NoError(t, os.WriteFile(dir+"/script", []byte(script), 0o600))
			cmd := exec.CommandContext(t.Context(), program, append([]string{dir + "/script"}, lines...)...)
			cmd.Dir, cmd.Env, cmd.WaitDelay = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TERM=dumb"}, 30*time.Second
			out, err := cmd.CombinedOutput()
			require.NoErrorf(t, err, "%s", out)
			answers := strings.Split(string(out), "> driver-build")[1:]
			assert.Equalf(t, len(lines), len(answers), "%s", out)
			for i, answer := range answers {
				_, words, _ := strings.Cut(answer, "\n")
				assert.Containsf(t, words, want[i], "%s: words for %q", shell, lines[i])
			}
		})
	}
}

// TestCompletionScripts: every shell asks the same command for its words.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		r := call(t.Context(), t, nil, "completion", shell)
		r.Want(t, 0)
		assert.Containsf(t, r.Stdout, "__complete", "%s", shell)
	}
}
